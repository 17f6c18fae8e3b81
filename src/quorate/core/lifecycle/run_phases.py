"""How runs end whose work ends by itself, and how claims are granted.

The functions write events to a decision log.
"""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.admission.admit import Admitted
from quorate.core.admission.hard_quota import HARD
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.sensitive_claims import over_pool_size, write_claim
from quorate.core.lifecycle.stops import end_lease, finish, leases_under
from quorate.core.profile.reserved_refusal import admit_beside
from quorate.model.events import EndReason, Outcome, RunRefused
from quorate.model.refusal import Refusal
from quorate.model.specs import Run
from quorate.model.state.records import RunRecord


def grant_claim(log: DecisionLog, run: Run) -> None:
    """Write the start of a claim, or its refusal; a refused claim is not queued."""
    answer: Admitted | Refusal = admit_beside(
        log.view, run, log.now_ms, has_executor=log.has_executor
    )
    over = None if isinstance(answer, Refusal) else over_pool_size(log.view, len(answer.plan.nodes))
    refusal = answer if isinstance(answer, Refusal) else over
    if refusal is not None and refusal.code in HARD:
        remedy = "wait until other work of this tenant ends, or ask an admin to raise the limit"
        refusal = replace(refusal, remedy=remedy)
    if isinstance(answer, Admitted) and refusal is None:
        write_claim(log, run, answer)
    elif refusal is not None:
        log.write(RunRefused(at_ms=log.now_ms, actor=log.actor, run=run.name, refusal=refusal))


def complete_run(log: DecisionLog, record: RunRecord, outcome: Outcome, note: str = "") -> None:
    """Write that the run's work has ended by itself, and that the run's leases end, too."""
    reason = EndReason.END if outcome is Outcome.COMPLETED else EndReason.FAIL
    view = log.view
    for lease in [view.leases[name] for name in leases_under(view, record)]:
        name = lease.fact.lease
        end_ms = max(lease.fact.start_ms, min(log.now_ms, lease.hold_ends_ms))
        end_lease(log, name, reason if record.leases else EndReason.ROUND_END, end_ms=end_ms)
    finish(log, record.spec.name, reason, outcome, note)
