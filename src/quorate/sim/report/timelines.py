"""Step functions over time: busy GPUs, capacity, the queue, and the GPUs of each owner.

A timeline is a tuple of (instant, value) in ascending order. A value applies until the next
instant; before the first instant the value is 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from quorate.sim.outcome import Outcome, SimulatedRun

Timeline = tuple[tuple[int, int], ...]


def timeline(changes: Iterable[tuple[int, int]]) -> Timeline:
    """Return the running sum of ``changes``, which are (instant, increase) in any order."""
    found: list[tuple[int, int]] = []
    value = 0
    for at_ms, group in groupby(sorted(changes), key=lambda each: each[0]):
        more = sum(amount for _, amount in group)
        if more:
            value += more
            found.append((at_ms, value))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Cumulated:
    """The areas under a timeline up to each of its instants; they make many queries fast."""

    line: Timeline
    sums: tuple[int, ...]

    @classmethod
    def of(cls, line: Timeline) -> Cumulated:
        """Return the areas under ``line``."""
        sums, total = [0] if line else [], 0
        for (from_ms, value), (to_ms, _) in pairwise(line):
            total += value * (to_ms - from_ms)
            sums.append(total)
        return cls(line, tuple(sums))

    def between(self, from_ms: int, to_ms: int) -> int:
        """Return the integral from ``from_ms`` to ``to_ms``."""
        return self._upto(to_ms) - self._upto(from_ms)

    def _upto(self, at_ms: int) -> int:
        number = bisect_right(self.line, at_ms, key=lambda each: each[0]) - 1
        if number < 0:
            return 0
        since_ms, value = self.line[number]
        return self.sums[number] + value * (at_ms - since_ms)


def area(line: Timeline, from_ms: int, to_ms: int) -> int:
    """Return the integral of ``line`` from ``from_ms`` to ``to_ms``."""
    return Cumulated.of(line).between(from_ms, to_ms)


def means(line: Timeline, edges: Sequence[int]) -> list[float]:
    """Return the mean of ``line`` between each two neighbouring ``edges``, which ascend."""
    sums = Cumulated.of(line)
    return [sums.between(from_ms, to_ms) / (to_ms - from_ms) for from_ms, to_ms in pairwise(edges)]


def edges_of(from_ms: int, to_ms: int, count: int) -> list[int]:
    """Return at most ``count`` + 1 ascending instants that divide the time evenly."""
    span = to_ms - from_ms
    return sorted({from_ms + span * number // count for number in range(count + 1)})


def capacity(outcome: Outcome, flavor: str | None = None) -> Timeline:
    """Return the number of GPUs of ``flavor`` over time; None means all flavors."""
    changes: list[tuple[int, int]] = []
    known: dict[str, int] = {}
    for step in outcome.capacity:
        if flavor is None or step.flavor == flavor:
            changes.append((step.at_ms, step.gpus - known.get(step.flavor, 0)))
            known[step.flavor] = step.gpus
    return timeline(changes)


def busy(runs: Iterable[SimulatedRun], flavor: str | None = None) -> Timeline:
    """Return how many GPUs of ``flavor`` the ``runs`` had over time; None means all flavors."""
    changes: list[tuple[int, int]] = []
    for run in runs:
        for each in run.intervals:
            if flavor is None or each.flavor == flavor:
                changes += [(each.start_ms, each.gpus), (each.end_ms, -each.gpus)]
    return timeline(changes)


def waiting(outcome: Outcome, *, gpus: bool = False) -> Timeline:
    """Return how many runs waited over time; with ``gpus``, how many GPUs they asked for."""
    changes: list[tuple[int, int]] = []
    for run in outcome.runs:
        width = run.gpus if gpus else 1
        for from_ms, to_ms in waits(run, outcome.ended_ms):
            changes += [(from_ms, width), (to_ms, -width)]
    return timeline(changes)


def demanded(outcome: Outcome) -> Timeline:
    """Return how many GPUs the runs asked for over time; a run asks from submission to end."""
    changes: list[tuple[int, int]] = []
    for run in outcome.runs:
        until_ms = outcome.ended_ms if run.ended_ms is None else run.ended_ms
        changes += [(run.submitted_ms, run.gpus), (until_ms, -run.gpus)]
    return timeline(changes)


def waits(run: SimulatedRun, now_ms: int) -> list[tuple[int, int]]:
    """Return the intervals, from submission to end or ``now_ms``, in which ``run`` had no GPUs."""
    until_ms = now_ms if run.ended_ms is None else run.ended_ms
    found: list[tuple[int, int]] = []
    free_ms = run.submitted_ms
    for start_ms, end_ms in sorted((each.start_ms, each.end_ms) for each in run.intervals):
        if start_ms > free_ms:
            found.append((free_ms, min(start_ms, until_ms)))
        free_ms = max(free_ms, end_ms)
    if until_ms > free_ms:
        found.append((free_ms, until_ms))
    return [(from_ms, to_ms) for from_ms, to_ms in found if to_ms > from_ms]
