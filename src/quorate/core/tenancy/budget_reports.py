"""Reports of accounting systems about owners' budgets, and missing reports (docs/adr/0022).

Every decision must depend on the ledger alone. So a report is recorded as an event, and a missing
report is recorded as an event, too. Only changes are written. So an accounting system that is asked
every minute and gives the same answer adds nothing to the ledger.
"""

from __future__ import annotations

from quorate.core.commands import Decision, FallBack, ReportBudget
from quorate.core.decision_log import DecisionLog
from quorate.model.events import BudgetFellBack, BudgetReported
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.state_view import StateView


def report_budget(log: DecisionLog, command: ReportBudget) -> Decision:
    """Write the report if it has changed, or return why it is refused."""
    refusal = _unknown(log.view, command.owner)
    if refusal is None and command.gpu is None and command.node is None:
        refusal = Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"the report has no budget of {command.owner!r}",
            remedy="report the owner's remaining GPU-hours or node-hours",
        )
    if refusal is not None:
        return Decision(refusals=(refusal,))
    record = log.view.reports.get(command.owner)
    reported = (command.source, command.gpu, command.node, command.resource)
    if record is None or (record.source, record.gpu, record.node, record.resource) != reported:
        log.write(
            BudgetReported(
                at_ms=log.now_ms,
                actor=log.actor,
                owner=command.owner,
                source=command.source,
                gpu=command.gpu,
                node=command.node,
                resource=command.resource,
            )
        )
    return Decision()


def fall_back(log: DecisionLog, command: FallBack) -> Decision:
    """Write that an owner's hours are computed from the ledger again, if this is a change.

    Return a refusal if the owner does not exist.
    """
    refusal = _unknown(log.view, command.owner)
    if refusal is not None:
        return Decision(refusals=(refusal,))
    record = log.view.reports.get(command.owner)
    is_so = record is None
    if command.is_linked:
        source = (command.source, command.resource)
        is_so = (
            record is not None and not record.answers and (record.source, record.resource) == source
        )
    if not is_so:
        log.write(
            BudgetFellBack(
                at_ms=log.now_ms,
                actor=log.actor,
                owner=command.owner,
                source=command.source,
                is_linked=command.is_linked,
                note=command.note,
                resource=command.resource,
            )
        )
    return Decision()


def _unknown(view: StateView, owner: str) -> Refusal | None:
    if owner in view.owners:
        return None
    return Refusal(
        code=RefusalCode.UNKNOWN_NAME,
        subject=f"there is no owner {owner!r}",
        remedy="list them: quorate admin tenant list",
    )
