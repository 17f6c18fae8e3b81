"""Planning in the steady state: a full fleet with a queue, runs that end and come.

Each figure is CPU time of a whole decision, applied. The baseline decides the same with nothing
kept from before: every index and every expected end is found anew.
"""

from __future__ import annotations

from statistics import median

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.queues import Busy, busy
from quorate.core.commands import Complete, Submit

STEP_MS = 20_000


def measure(effort: Effort) -> list[Figure]:
    """Return what completions and submits cost on a small and on a large fleet."""
    small = _figures("30 nodes", busy(30, 4, 20, effort.of(500, 50)), effort.of(200, 5), 5, 10)
    large = busy(
        effort.of(10_000, 300), effort.of(128, 8), effort.of(500, 50), effort.of(50_000, 500)
    )
    return [*small, *_figures("10,000 nodes", large, effort.of(40, 5), 4, 10)]


def _figures(
    what: str, world: Busy, repeats: int, target_ms: float, submit_ms: float
) -> list[Figure]:
    ends, submits, anew = [], [], []
    for number in range(repeats):
        world.now_ms += STEP_MS
        if number % 4 == 3:
            world.forget()
            anew.append(world.do(Complete(world.ending()))[1])
        else:
            ends.append(world.do(Complete(world.ending()))[1])
        submits.append(world.do(Submit(world.next_run()))[1])
    details = {
        "leases": len(world.state.leases),
        "waiting": len(world.state.pending),
        "firm": len(world.state.reservations),
    }
    return [
        Figure(
            name=f"completion, {what}, a queue",
            unit="ms",
            value=median(ends),
            better="less",
            target=target_ms,
            baseline=Baseline("everything found anew", median(anew)) if anew else None,
            details={**details, "worst ms": max(ends)},
        ),
        Figure(
            name=f"submit, {what}, a queue",
            unit="ms",
            value=median(submits),
            better="less",
            target=submit_ms,
            details=details,
        ),
    ]
