"""Node time: how many different nodes an owner or user has, at every instant.

A node with two leases of the same owner counts once. For each node, the module keeps the open holds
and the past stretches of time in which the node was held. (Here, a *hold* is a lease or a pledge
that occupies the node.) Stretches that touch are joined. An integral records the number of held
nodes over time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from quorate.core.accounting.integral import Integral

Stretch = tuple[int, int | None]
"""(from, until) in milliseconds; an ``until`` of None means that the stretch has no end yet."""


@dataclass(slots=True)
class _OnNode:
    """The holds and past stretches of an owner or user on one node.

    ``over`` has the past stretches in order; no two of them overlap or touch.
    """

    holds: dict[str, int] = field(default_factory=dict)
    over: list[tuple[int, int]] = field(default_factory=list)

    def busy(self, since_ms: int) -> list[Stretch]:
        """Return the joined stretches that last until ``since_ms`` or longer."""
        found: list[Stretch] = []
        tail_ms = min(self.holds.values(), default=None)
        for from_ms, until_ms in self.over[bisect_left(self.over, since_ms, key=_end) :]:
            if tail_ms is not None and until_ms >= tail_ms:
                return [*found, (min(from_ms, tail_ms), None)]
            found.append((from_ms, until_ms))
        return found if tail_ms is None else [*found, (tail_ms, None)]

    def add_over(self, from_ms: int, until_ms: int) -> None:
        """Record a stretch that is over, and join it with the stretches that it touches."""
        if from_ms == until_ms:
            return
        first = bisect_left(self.over, from_ms, key=_end)
        last = bisect_right(self.over, until_ms, key=_start)
        if first < last:
            from_ms = min(from_ms, self.over[first][0])
            until_ms = max(until_ms, self.over[last - 1][1])
        self.over[first:last] = [(from_ms, until_ms)]

    def forget(self, before_ms: int) -> None:
        """Drop the stretches that were over by ``before_ms``."""
        del self.over[: bisect_right(self.over, before_ms, key=_end)]


def _start(stretch: tuple[int, int]) -> int:
    return stretch[0]


def _end(stretch: tuple[int, int]) -> int:
    return stretch[1]


class NodeTime:
    """How many different nodes one owner, or one user of an owner, has held over time."""

    __slots__ = ("_integral", "_nodes")

    def __init__(self) -> None:
        self._integral = Integral()
        self._nodes: dict[str, _OnNode] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no node is held, now or in the stored stretches."""
        return not self._nodes and self._integral.is_empty

    def begin(self, node: str, hold: str, from_ms: int) -> None:
        """Count ``node`` from ``from_ms`` on, for the hold named ``hold``."""
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = _OnNode()
        before = known.busy(from_ms)
        known.holds[hold] = from_ms
        self._change(before, known.busy(from_ms))

    def end(self, node: str, hold: str, until_ms: int) -> None:
        """Stop counting ``node`` for ``hold`` at ``until_ms``; other holds on the node continue."""
        known = self._nodes[node]
        from_ms = known.holds[hold]
        before = known.busy(from_ms)
        del known.holds[hold]
        known.add_over(from_ms, until_ms)
        self._change(before, known.busy(from_ms))

    def used(self, from_ms: int, until_ms: int) -> int:
        """Return the node-milliseconds in [``from_ms``, ``until_ms``)."""
        return self._integral.used(from_ms, until_ms)

    def forget(self, before_ms: int) -> None:
        """Drop the stretches that were over by ``before_ms``."""
        self._integral.forget(before_ms)
        for node, known in list(self._nodes.items()):
            known.forget(before_ms)
            if not known.holds and not known.over:
                del self._nodes[node]

    def _change(self, before: Sequence[Stretch], after: Sequence[Stretch]) -> None:
        """Update the integral: a node's held stretches were ``before``, and are ``after`` now."""
        steps: dict[int, int] = {}
        for stretches, sign in ((before, -1), (after, 1)):
            for from_ms, until_ms in stretches:
                steps[from_ms] = steps.get(from_ms, 0) + sign
                if until_ms is not None:
                    steps[until_ms] = steps.get(until_ms, 0) - sign
        for at_ms, delta in steps.items():
            if delta:
                self._integral.add(at_ms, delta)

    def stretches(self, since_ms: int) -> dict[str, list[Stretch]]:
        """Return the joined stretches of each node that last until ``since_ms`` or longer."""
        return {node: known.busy(since_ms) for node, known in self._nodes.items()}


def used_together(members: Iterable[NodeTime], from_ms: int, until_ms: int) -> int:
    """Return the node-milliseconds of ``members`` in [``from_ms``, ``until_ms``).

    A node that several members use at the same time counts once.
    """
    held: dict[str, list[Stretch]] = {}
    for member in members:
        for node, stretches in member.stretches(from_ms).items():
            held.setdefault(node, []).extend(stretches)
    return sum(_length(stretches, from_ms, until_ms) for stretches in held.values())


def _length(stretches: list[Stretch], from_ms: int, until_ms: int) -> int:
    """Return how many milliseconds of [``from_ms``, ``until_ms``) the stretches cover."""
    total, reached_ms = 0, from_ms
    for begin_ms, end_ms in sorted(stretches, key=lambda stretch: stretch[0]):
        stop_ms = until_ms if end_ms is None else min(end_ms, until_ms)
        total += max(0, stop_ms - max(begin_ms, reached_ms))
        reached_ms = max(reached_ms, stop_ms)
    return total
