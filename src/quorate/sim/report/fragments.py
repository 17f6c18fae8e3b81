"""Counts the GPUs that were idle while some waiting run asked for no more GPUs than were idle.

The count includes GPUs that are scattered over domains, and GPUs that budgets, quotas and
reservations keep idle. The waits by cause show why the GPUs were idle.
"""

from __future__ import annotations

from heapq import heappop, heappush

from quorate.sim.outcome import Outcome, SimulatedRun
from quorate.sim.report.timelines import Timeline, busy, capacity, waits


def idle_while_wanted(outcome: Outcome, from_ms: int, to_ms: int) -> int:
    """Return the GPU-milliseconds that were idle while a waiting run could have used them.

    A waiting run could have used the idle GPUs if it asked for no more GPUs than were idle. Each
    flavor is examined separately. A run wants the flavors on which it ran at any time; a run that
    never ran wants all flavors.
    """
    flavors = sorted({step.flavor for step in outcome.capacity})
    return sum(_of_flavor(outcome, flavor, from_ms, to_ms) for flavor in flavors)


def _of_flavor(outcome: Outcome, flavor: str, from_ms: int, to_ms: int) -> int:
    wanting = [run for run in outcome.runs if _wants(run, flavor)]
    changes = [*_free(outcome, flavor), *_waits(wanting, outcome.ended_ms)]
    changes.sort(key=lambda each: each[0])
    widths: list[int] = []
    count: dict[int, int] = {}
    total, free, at_ms = 0, 0, from_ms
    for change_ms, more, width in changes:
        until_ms = min(max(change_ms, from_ms), to_ms)
        while widths and not count[widths[0]]:
            heappop(widths)
        if widths and widths[0] <= free:
            total += free * (until_ms - at_ms)
        at_ms = until_ms
        if not width:
            free += more
        elif more < 0:
            count[width] -= 1
        else:
            count[width] = count.get(width, 0) + 1
            heappush(widths, width)
    return total


def _wants(run: SimulatedRun, flavor: str) -> bool:
    return not run.intervals or any(each.flavor == flavor for each in run.intervals)


def _free(outcome: Outcome, flavor: str) -> list[tuple[int, int, int]]:
    """Return the changes of the number of idle GPUs, with their instants."""
    there, used = capacity(outcome, flavor), busy(outcome.runs, flavor)
    return [*_steps(there, 1), *_steps(used, -1)]


def _steps(line: Timeline, sign: int) -> list[tuple[int, int, int]]:
    before = 0
    found: list[tuple[int, int, int]] = []
    for at_ms, value in line:
        found.append((at_ms, sign * (value - before), 0))
        before = value
    return found


def _waits(runs: list[SimulatedRun], now_ms: int) -> list[tuple[int, int, int]]:
    """Return (instant, 1 or -1, GPUs) for each run that begins (1) or ceases (-1) to wait."""
    found: list[tuple[int, int, int]] = []
    for run in runs:
        for from_ms, to_ms in waits(run, now_ms):
            found += [(from_ms, 1, run.gpus), (to_ms, -1, run.gpus)]
    return found
