"""Remedies that end another running run of the same owner; they are tried after all others."""

from __future__ import annotations

from typing import Final

from quorate.core.admission.admit import Admitted, admit
from quorate.core.commands import Cancel
from quorate.core.decision_log import DecisionLog
from quorate.core.explain.remedies import ACTOR, Proof, Remedy, RemedyKind, Trials, started_with
from quorate.core.lifecycle.stops import stop_run
from quorate.model.closed_words import counted
from quorate.model.events import EndReason, Outcome
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView

DRY_RUNS_MAX: Final = 16
"""How many trials are made at most, on an overlay or by a whole decision; smallest runs first."""

LISTED_MAX: Final = 3
"""How many runs are proposed at most."""


def end_remedies(view: StateView, settled: StateView, run: Run, now_ms: int) -> tuple[Remedy, ...]:
    """Return up to ``LISTED_MAX`` runs of the owner whose end lets ``run`` start, smallest first.

    Of equally large runs, the newest comes first, because it has the least work to lose.
    ``settled`` is ``view`` after all due changes.
    """
    trials = Trials(view, now_ms, DRY_RUNS_MAX)
    remedies: list[Remedy] = []
    for name, gpus in _running(settled, run.owner):
        command = Cancel(name)
        proof: Proof = ()
        if trials.spend() and _makes_room(settled, name, run, now_ms):
            # The whole command is decided, because runs ahead in the queue are tried first.
            proof = trials.start_of(run.name, command, attempts=1 + len(settled.pending))
        if proof:
            remedies.append(
                Remedy(
                    kind=RemedyKind.END_RUN,
                    target_kind="run",
                    target_name=name,
                    changes=(),
                    effect=f"ends a run of {counted(gpus, 'GPU')}; {run.name} starts now with "
                    f"{started_with(proof)}",
                    command=("quorate", "cancel", name),
                    trial=command,
                )
            )
        if len(remedies) == LISTED_MAX or trials.dry_runs_left == 0:
            break
    return tuple(remedies)


def _makes_room(settled: StateView, name: str, run: Run, now_ms: int) -> bool:
    """Return whether ``run`` would start if the run ``name`` ended and no other run waited."""
    log = DecisionLog(settled, now_ms=now_ms, actor=ACTOR)
    stop_run(log, settled.runs[name], EndReason.CANCELLED, Outcome.CANCELLED)
    return isinstance(admit(log.view, run, now_ms), Admitted)


def _running(view: StateView, owner: str) -> list[tuple[str, int]]:
    """Return the owner's running runs with their GPUs, fewest GPUs first, then newest."""
    gpus: dict[str, int] = {}
    for lease in view.owner_leases.get(owner, ()):
        run = view.leases[lease].fact.run
        gpus[run] = gpus.get(run, 0) + view.leases[lease].gpus
    return sorted(gpus.items(), key=lambda entry: (entry[1], -view.runs[entry[0]].seq))
