"""An integral: the exact sum, over any period, of an amount in use such as GPUs.

The amount in use changes in steps. A step may be recorded late: a lease may have ended before an
event that is already recorded. So the steps are sorted by their times, and not by the order in
which they were recorded. The module keeps running sums over the steps. A query recomputes these
sums from the first changed step on.
"""

from __future__ import annotations

from bisect import bisect_left


class Integral:
    """The integral of a step function.

    A query takes logarithmic time once the sums are up to date.
    """

    __slots__ = ("_at_ms", "_base", "_deltas", "_floor_ms", "_good", "_levels", "_moments")

    def __init__(self) -> None:
        self._at_ms: list[int] = []
        self._deltas: list[int] = []
        # For each step, the amount in use after it (without the base), and the sum of delta x time.
        self._levels: list[int] = []
        self._moments: list[int] = []
        self._good = 0
        # The amount in use before the first stored step: the sum of the deltas of dropped steps.
        self._base = 0
        self._floor_ms = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in use, now or in the stored steps."""
        return not self._at_ms and not self._base

    def add(self, at_ms: int, delta: int) -> None:
        """Change the amount in use from ``at_ms`` on by ``delta``, which may be negative."""
        if at_ms < self._floor_ms:
            self._base += delta
            return
        place = bisect_left(self._at_ms, at_ms)
        if place == len(self._at_ms) or self._at_ms[place] != at_ms:
            self._at_ms.insert(place, at_ms)
            self._deltas.insert(place, delta)
        elif self._deltas[place] != -delta:
            self._deltas[place] += delta
        else:
            del self._at_ms[place], self._deltas[place]
        self._good = min(self._good, place)

    def used(self, from_ms: int, until_ms: int) -> int:
        """Return the amount in use, summed over every millisecond of [``from_ms``, ``until_ms``).

        After the last step, the amount in use does not change. ``from_ms`` must not be earlier than
        the instant up to which ``forget`` has dropped steps.
        """
        assert self._floor_ms <= from_ms <= until_ms, (self._floor_ms, from_ms, until_ms)
        self._renew()
        first, last = bisect_left(self._at_ms, from_ms), bisect_left(self._at_ms, until_ms)
        level_first, moment_first = self._sums(first)
        level_last, moment_last = self._sums(last)
        return until_ms * level_last - from_ms * level_first - (moment_last - moment_first)

    def forget(self, before_ms: int) -> None:
        """Drop every step before ``before_ms``; sums over later times stay exact."""
        if before_ms <= self._floor_ms:
            return
        self._floor_ms = before_ms
        gone = bisect_left(self._at_ms, before_ms)
        if gone:
            self._base += sum(self._deltas[:gone])
            del self._at_ms[:gone], self._deltas[:gone]
            self._good = 0

    def _sums(self, steps: int) -> tuple[int, int]:
        if not steps:
            return self._base, 0
        return self._base + self._levels[steps - 1], self._moments[steps - 1]

    def _renew(self) -> None:
        good = self._good
        del self._levels[good:], self._moments[good:]
        level, moment = (self._levels[-1], self._moments[-1]) if good else (0, 0)
        for place in range(good, len(self._at_ms)):
            level += self._deltas[place]
            moment += self._deltas[place] * self._at_ms[place]
            self._levels.append(level)
            self._moments.append(moment)
        self._good = len(self._at_ms)
