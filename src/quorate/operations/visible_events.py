"""Which callers may see which events of the ledger.

All callers see the events about the fleet, its rules and conflicts. An event about a run, a budget
or a tenant is visible to the tenant concerned, and to the tenants above it. An event type that is
not listed here is visible only to admins and auditors.
"""

from __future__ import annotations

from typing import Final

from quorate.core.commands import Decision
from quorate.model.events import (
    BudgetApplied,
    BudgetFellBack,
    BudgetRemoved,
    BudgetReported,
    ConflictAnnounced,
    ConflictDeclared,
    ConflictResolved,
    ConflictWithdrawn,
    Event,
    LedgerOpened,
    LoanRecalled,
    LotteryCommitted,
    LotterySealed,
    NodeApplied,
    NodeMarked,
    NodeRemoved,
    OwnerApplied,
    OwnerRemoved,
    PledgeClosed,
    PoolApplied,
    PoolRemoved,
    RunSubmitted,
    SpareFilled,
    SystemApplied,
    ThresholdCrossed,
)
from quorate.model.state.state_view import StateView
from quorate.operations.caller import Caller
from quorate.operations.visibility import seen_by, tenants_of
from quorate.views.redaction.redaction import Redaction
from quorate.views.runs.event_text import run_of

_EVERYBODYS: Final = (
    LedgerOpened,
    LotteryCommitted,
    LotterySealed,
    SystemApplied,
    PoolApplied,
    PoolRemoved,
    NodeApplied,
    NodeMarked,
    NodeRemoved,
    ConflictDeclared,
    ConflictResolved,
)


class Sight:
    """Decides for one answer which events and names a caller may see, in the state ``view``."""

    def __init__(self, view: StateView, caller: Caller) -> None:
        self._view = view
        self._sees_all = caller.oversees
        self._mine = tenants_of(view, caller)
        # The owners of runs that were looked up before; None if there is no such run. The owner of
        # a run never changes.
        self._owners: dict[str, str | None] = {}
        self.redaction = Redaction(view, seen_by(view, caller))

    def sees(self, event: Event) -> bool:
        """Return whether the caller may see ``event``."""
        if self._sees_all or isinstance(event, _EVERYBODYS):
            return True
        return not self._mine.isdisjoint(self._owners_of(event))

    def told(self, event: Event) -> Event:
        """Return ``event``, which the caller may see, without the names that are hidden from it."""
        return self.redaction.event(event)

    def warnings(self, decision: Decision) -> tuple[str, ...]:
        """Return the warnings of ``decision`` if the caller may see them; otherwise return none.

        Not every caller may see them, because they mention targets of siblings, and the sum of all
        envelopes.
        """
        return decision.warnings if self._sees_all else ()

    def sees_run(self, name: str) -> bool:
        """Return whether there is a run ``name`` that the caller may see."""
        record = self._view.runs.get(name)
        return record is not None and (self._sees_all or record.spec.owner in self._mine)

    def _owners_of(self, event: Event) -> set[str]:
        """Return the tenants that ``event`` is about; empty if they are not known."""
        match event:
            case OwnerApplied():
                return {event.owner.name}
            case (
                OwnerRemoved()
                | ThresholdCrossed()
                | BudgetRemoved()
                | BudgetReported()
                | BudgetFellBack()
            ):
                return {event.owner}
            case ConflictAnnounced():
                return {odds.owner for odds in event.runs}
            case BudgetApplied():
                return {event.budget.owner}
            case RunSubmitted():
                # The owner is stored, so that later events about the run need no lookup, which may
                # have to read the archive.
                self._owners[event.run.name] = event.run.owner
                return {event.run.owner}
            case _:
                owners = map(self._owner_of, _runs_of(event))
                return {owner for owner in owners if owner is not None}

    def _owner_of(self, name: str) -> str | None:
        if name not in self._owners:
            record = self._view.runs.get(name)
            self._owners[name] = None if record is None else record.spec.owner
        return self._owners[name]


def _runs_of(event: Event) -> set[str]:
    """Return the runs that ``event`` is about: two runs for a filled spare or a recalled loan."""
    match event:
        case ConflictWithdrawn():
            return set(event.runs)
        case LoanRecalled():
            return {event.run, event.waiting_run}
        case SpareFilled():
            return {event.lease.partition("/")[0], event.filler}
        case PledgeClosed():
            # A pledge's name begins with its lease's name, which begins with the run's name.
            return {event.pledge.partition("/")[0]}
        case _:
            name = run_of(event)
            return set() if name is None else {name}
