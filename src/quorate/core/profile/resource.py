"""A resource over time: the amount free now, plus the gains as leases end, less the planned use.

The amount that leases leave free never falls over time, because each end of a lease gives something
back. All profiles share this amount. The amounts that the plan takes are a short list of steps, and
belong to one profile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Final

from quorate.model.state.expected_ends import Curve

FOREVER_MS: Final = 1 << 62


def curve_of(gains: Iterable[tuple[int, int]]) -> Curve:
    """Return the instants of ``gains`` in order, and the sum of the gains up to each instant."""
    ordered = sorted(gains)
    return [at_ms for at_ms, _ in ordered], list(accumulate(amount for _, amount in ordered))


class Resource:
    """The free amount of one resource over time. The amount is negative if a limit was lowered.

    The free amount at an instant is ``free_now``, plus the gains up to the instant, less the amount
    that the plan takes at the instant. ``ends_ms`` are the instants at which ends of leases give
    something back, and ``gained`` is the sum of these gains up to each instant. ``steps_ms`` are
    the instants at which the plan takes more or less than before. For each of these instants,
    ``taken`` has the amount that the plan takes from then on, and ``free`` has the free amount.
    """

    __slots__ = ("ends_ms", "free", "free_now", "gained", "steps_ms", "taken")

    def __init__(self, free_now: int, curve: Curve | None = None) -> None:
        self.free_now = free_now
        self.ends_ms, self.gained = ([], []) if curve is None else curve
        self.steps_ms: list[int] = []
        self.taken: list[int] = []
        self.free: list[int] = []

    def planned_as(self, other: Resource) -> Resource:
        """Give this resource the plan of ``other``, and return this resource.

        This resource must have no plan before the call.
        """
        self.steps_ms, self.taken = other.steps_ms, other.taken
        self.free = [
            self.unplanned(at_ms) - taken
            for at_ms, taken in zip(other.steps_ms, other.taken, strict=True)
        ]
        return self

    def copy(self) -> Resource:
        """Return a copy. Taking from the copy does not change this resource."""
        made = Resource(self.free_now, (self.ends_ms, self.gained))
        made.steps_ms, made.taken, made.free = self.steps_ms[:], self.taken[:], self.free[:]
        return made

    def unplanned(self, at_ms: int) -> int:
        """Return the amount free at ``at_ms`` if the plan took nothing."""
        ended = bisect_right(self.ends_ms, at_ms)
        return self.free_now + (self.gained[ended - 1] if ended else 0)

    def value(self, at_ms: int) -> int:
        """Return the amount free at ``at_ms``."""
        step = bisect_right(self.steps_ms, at_ms)
        return self.unplanned(at_ms) - (self.taken[step - 1] if step else 0)

    def least(self, from_ms: int, until_ms: int) -> int:
        """Return the least amount free from ``from_ms`` until just before ``until_ms``."""
        steps_ms = self.steps_ms
        ended = bisect_right(self.ends_ms, from_ms)
        free = self.free_now + (self.gained[ended - 1] if ended else 0)
        if not steps_ms:
            return free
        step = bisect_right(steps_ms, from_ms)
        if step:
            free -= self.taken[step - 1]
        # The free amount can fall only at a step of the plan.
        if step < len(steps_ms) and steps_ms[step] < until_ms:
            free = min(free, *self.free[step : bisect_left(steps_ms, until_ms, step)])
        return free

    def first_below(self, amount: int, from_ms: int, until_ms: int) -> int | None:
        """Return the first instant from ``from_ms`` to ``until_ms`` with less than ``amount`` free.

        Return None if there is no such instant.
        """
        steps_ms = self.steps_ms
        first, last = bisect_right(steps_ms, from_ms), bisect_left(steps_ms, until_ms)
        instants = (from_ms, *steps_ms[first:last])
        return next((at_ms for at_ms in instants if self.value(at_ms) < amount), None)

    def most_taken(self, from_ms: int, until_ms: int) -> int:
        """Return the most that the plan takes from ``from_ms`` until just before ``until_ms``."""
        first = bisect_right(self.steps_ms, from_ms)
        levels = self.taken[max(0, first - 1) : bisect_left(self.steps_ms, until_ms, first)]
        return max(levels if first else (0, *levels), default=0)

    def returned_ms(self, amount: int) -> int | None:
        """Return when ended leases will have given back ``amount`` in all; None if never."""
        if amount <= 0:
            return 0
        index = bisect_left(self.gained, amount)
        return self.ends_ms[index] if index < len(self.ends_ms) else None

    def earliest(self, amount: int, duration_ms: int, from_ms: int) -> int | None:
        """Return the first instant from ``from_ms`` on with ``amount`` free for ``duration_ms``.

        Return None if there is no such instant.
        """
        steps_ms, taken, free = self.steps_ms, self.taken, self.free
        count, at_ms = len(steps_ms), from_ms
        ends_ms, gained, free_now = self.ends_ms, self.gained, self.free_now
        while True:
            step = bisect_right(steps_ms, at_ms)
            needed = amount - free_now + (taken[step - 1] if step else 0)
            if needed > 0:
                ended = bisect_left(gained, needed)
                back_ms = ends_ms[ended] if ended < len(ends_ms) else None
            else:
                back_ms = 0
            if back_ms is None or back_ms > at_ms:
                if step < count and (back_ms is None or back_ms >= steps_ms[step]):
                    at_ms = steps_ms[step]
                    continue
                if back_ms is None:
                    return None
                at_ms = back_ms
            short = -1
            until_ms = at_ms + duration_ms
            while step < count and steps_ms[step] < until_ms:
                if free[step] < amount:
                    short = step
                step += 1
            if short < 0:
                return at_ms
            at_ms = steps_ms[short]

    def at_most(self, from_ms: int, until_ms: int, amount: int) -> Iterator[tuple[int, int, int]]:
        """Yield how much is free in each part of a time span, as (from, until, free).

        More than ``amount`` is yielded as ``amount``. The parts are in order, and lie between
        ``from_ms`` and ``until_ms``. Parts in which nothing is free are left out.
        """
        if self.least(from_ms, until_ms) >= amount:
            yield from_ms, until_ms, amount
            return
        instants = {from_ms, until_ms}
        for known in (self.steps_ms, self.ends_ms):
            instants.update(known[bisect_right(known, from_ms) : bisect_left(known, until_ms)])
        for begin_ms, end_ms in pairwise(sorted(instants)):
            free = min(amount, self.value(begin_ms))
            if free > 0:
                yield begin_ms, end_ms, free

    def take(self, from_ms: int, until_ms: int, amount: int) -> None:
        """Take ``amount`` from ``from_ms`` until ``until_ms``; a negative amount gives it back."""
        if from_ms >= until_ms or not amount:
            return
        steps_ms, taken, free = self.steps_ms, self.taken, self.free
        if not steps_ms:
            steps_ms += (from_ms, until_ms)
            taken += (amount, 0)
            free += (self.unplanned(from_ms) - amount, self.unplanned(until_ms))
            return
        first, last = self._step(from_ms), self._step(until_ms)
        for step in range(first, last):
            taken[step] += amount
            free[step] -= amount
        for step in (last, first):
            if taken[step] == (taken[step - 1] if step else 0):
                del self.steps_ms[step], taken[step], free[step]

    def _step(self, at_ms: int) -> int:
        """Return the index of the step at ``at_ms``; insert a step if there is none."""
        steps_ms = self.steps_ms
        step = bisect_left(steps_ms, at_ms)
        if step < len(steps_ms) and steps_ms[step] == at_ms:
            return step
        level = self.taken[step - 1] if step else 0
        steps_ms.insert(step, at_ms)
        self.taken.insert(step, level)
        self.free.insert(step, self.unplanned(at_ms) - level)
        return step
