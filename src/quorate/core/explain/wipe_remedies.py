"""The remedy for a run that waits for room on a node of a claim that is over: wiping the node."""

from __future__ import annotations

from typing import Final

from quorate.core.commands import Wiped
from quorate.core.explain.remedies import Remedy, RemedyKind, Trials, started_with
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView

DRY_RUNS_MAX: Final = 8
"""How many nodes one explanation tries at most."""


def wipe_remedies(view: StateView, run: Run, now_ms: int) -> tuple[Remedy, ...]:
    """Return the remedy for the first node, by name, whose wipe lets ``run`` start, if any."""
    trials = Trials(view, now_ms, DRY_RUNS_MAX)
    for name in sorted(view.unwiped):
        node, unwiped = view.nodes[name], view.unwiped[name]
        if unwiped.leases or node.island.pool != run.pool or node.spec.flavor not in run.flavors:
            continue
        command = Wiped(name, is_clean=True, claim=unwiped.claim)
        proof = trials.start_of(run.name, command, attempts=1 + len(view.pending))
        if proof:
            return (
                Remedy(
                    kind=RemedyKind.WIPE_NODE,
                    target_kind="node",
                    target_name=name,
                    changes=(),
                    effect=f"once it is clean after claim {unwiped.claim}, {run.name} starts with "
                    f"{started_with(proof)}",
                    command=("quorate", "node", "wiped", name, "--after", unwiped.claim),
                    trial=command,
                ),
            )
    return ()
