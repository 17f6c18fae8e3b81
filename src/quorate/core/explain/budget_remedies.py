"""Remedies that change one field of one budget, so that a run starts now.

First the search finds the smallest value that would start the run if no other run waited; this is
tried on an overlay. Then the whole command is decided as a dry run, because runs ahead in the queue
are tried first and may use up the increase.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from quorate.core.admission.admit import Admitted, admit, cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.commands import Apply
from quorate.core.explain.budget_levers import Lever, levers_of
from quorate.core.explain.remedies import (
    ACTOR,
    Proof,
    Remedy,
    Trials,
    first_working,
    setting,
    started_with,
)
from quorate.core.explain.run_remedies import gpus_needed_max
from quorate.model.amounts import GPUS_MAX
from quorate.model.events import BudgetApplied
from quorate.model.specs import Budget, Run
from quorate.model.state.apply_event import apply
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

DRY_RUNS_MAX: Final = 40
"""How many changed budgets one explanation tries at most, on an overlay or by a whole decision."""

PAYERS_MAX: Final = 16
"""How many of a run's payers are examined at most, in cover order."""

LISTED_MAX: Final = 6
"""How many changes are proposed at most; those of the owner's own envelopes come first."""


def budget_remedies(view: StateView, settled: State, run: Run, now_ms: int) -> tuple[Remedy, ...]:
    """Return changes that would start ``run`` now, each the smallest change of one budget field.

    ``settled`` is ``view`` after all due changes.
    """
    search = _Search(view, settled, run, now_ms)
    remedies: list[Remedy] = []
    for lever in _levers(settled, run, now_ms):
        remedy = search.remedy(lever)
        if remedy is not None:
            remedies.append(remedy)
        if len(remedies) == LISTED_MAX:
            break
    return tuple(remedies)


def _levers(settled: StateView, run: Run, now_ms: int) -> list[Lever]:
    """Return the levers of every payer of ``run``, in cover order and without duplicates."""
    levers: dict[tuple[str, str], Lever] = {}
    for flavor in run.flavors:
        request = cover_request(settled, run, flavor, now_ms)
        for key, tier in payer_phases(settled, request)[-1][:PAYERS_MAX]:
            for lever in levers_of(settled, settled.envelopes[key], tier, request):
                levers.setdefault((lever.budget, lever.path), lever)
    return list(levers.values())


class _Search:
    """Searches, for each lever, the smallest value that starts the run."""

    def __init__(self, view: StateView, settled: State, run: Run, now_ms: int) -> None:
        self.settled = settled
        self.run = run
        self.trials = Trials(view, now_ms, DRY_RUNS_MAX)
        self.gpus = gpus_needed_max(settled, run)
        self.attempts = 1 + len(settled.pending)

    @cached_property
    def gpus_ahead(self) -> int:
        """The GPUs that waiting runs with earlier submissions need, counted up to ``GPUS_MAX``."""
        settled, found = self.settled, 0
        seq = settled.runs[self.run.name].seq
        for name, ahead in settled.pending.items():
            if ahead < seq:
                found += gpus_needed_max(settled, settled.runs[name].spec)
            if found >= GPUS_MAX:
                break
        return found

    def remedy(self, lever: Lever) -> Remedy | None:
        """Return the remedy that changes ``lever``; None if no tried value starts the run."""
        last = min(lever.reach(self.gpus), GPUS_MAX)
        alone = first_working(
            range(lever.first, last + 1), lambda value: self._admits(lever.make(value))
        )
        if alone is None:
            return None
        value, _ = alone
        proof = self._proof(lever.make(value))
        if not proof and self.gpus_ahead:
            # Runs ahead in the queue use up the increase. So the value is raised further, by no
            # more than the GPUs that these runs need.
            last = min(lever.reach(self.gpus + self.gpus_ahead), GPUS_MAX)
            enough = first_working(
                range(value, last + 1), lambda more: self._proof(lever.make(more))
            )
            if enough is not None:
                value, proof = enough
        return self._worded(lever, value, proof) if proof else None

    def _admits(self, budget: Budget) -> bool:
        """Return whether the run would start with ``budget`` if no other run waited."""
        if not self.trials.spend():
            return False
        over = self.settled.overlay()
        now_ms = self.trials.now_ms
        apply(over, BudgetApplied(at_ms=now_ms, actor=ACTOR, budget=budget))
        return isinstance(admit(over, self.run, now_ms), Admitted)

    def _proof(self, budget: Budget) -> Proof:
        return self.trials.start_of(self.run.name, Apply((budget,)), attempts=self.attempts)

    def _worded(self, lever: Lever, value: int, proof: Proof) -> Remedy:
        changes = ((lever.path, lever.value(value)),)
        return Remedy(
            kind=lever.kind,
            target_kind="budget",
            target_name=lever.budget,
            changes=changes,
            effect=f"{self.run.name} starts now with {started_with(proof)}",
            command=("quorate", "patch", "budget", lever.budget, *setting(changes)),
            trial=Apply((lever.make(value),)),
        )
