"""Ending one running run of the same owner: the last resort an owner has in its own hands."""

from __future__ import annotations

from typing import Final

from quorate.core.commands import Cancel
from quorate.core.remedy import Remedy, RemedyKind, Trials, started_with
from quorate.model.specs import Run
from quorate.model.view import StateView

DRY_RUNS_MAX: Final = 30
"""How many running runs are tried, smallest first."""

LISTED_MAX: Final = 3
"""How many are proposed."""


def end_remedies(view: StateView, run: Run, now_ms: int) -> tuple[Remedy, ...]:
    """Return up to ``LISTED_MAX`` runs of the owner whose end starts ``run``, smallest first.

    Of equal ones the newest comes first: it has the least to lose.
    """
    trials = Trials(view, now_ms, DRY_RUNS_MAX)
    found: list[Remedy] = []
    for name, gpus in _running(view, run.owner):
        command = Cancel(name)
        proof = trials.start_of(run.name, command, attempts=1 + len(view.pending))
        if proof:
            found.append(
                Remedy(
                    kind=RemedyKind.END_RUN,
                    target_kind="run",
                    target_name=name,
                    changes=(),
                    effect=f"ends a run of {gpus} GPUs; {run.name} starts now with "
                    f"{started_with(proof)}",
                    command=("quorate", "cancel", name),
                    trial=command,
                )
            )
        if len(found) == LISTED_MAX or trials.dry_runs_left == 0:
            break
    return tuple(found)


def _running(view: StateView, owner: str) -> list[tuple[str, int]]:
    """Return the owner's running runs and their GPUs, fewest first, then newest."""
    gpus: dict[str, int] = {}
    for lease in view.owner_leases.get(owner, ()):
        run = view.leases[lease].fact.run
        gpus[run] = gpus.get(run, 0) + view.leases[lease].gpus
    return sorted(gpus.items(), key=lambda entry: (entry[1], -view.runs[entry[0]].seq))
