"""Meters: how much of a flavor an owner used, recently and over a long time, as integers.

Time is divided into hours. A meter keeps the use of each past hour, so that it can add up the use
in a rolling window. It also adds up all past use in one number, in which the use of each hour is
halved with every half-life. The cost of these sums does not grow with the number of events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import Final

from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import Slots

KEPT_MS: Final = 366 * DAY_MS
"""The longest window for which the use is added up."""
ONE: Final = 1 << 40
"""Factors of decay are stored as integers: this integer stands for the factor 1."""
_HALF_ROOTS: Final = 32
"""The number of factors 2^-1/2, 2^-1/4 and so on: one factor for each binary digit of an exponent.
"""
_ROUNDED: Final = 24
"""Decayed use is exact to at least this many binary digits."""


Told = tuple[int, int, int, list[int], list[int]]
"""The stored form of a meter: its fields, in order."""


def _roots() -> tuple[int, ...]:
    """Return 2^-1/2, 2^-1/4 and so on, in parts of ``ONE``."""
    found, value = [], ONE // 2
    for _ in range(_HALF_ROOTS):
        value = _root(value * ONE)
        found.append(value)
    return tuple(found)


def _root(number: int) -> int:
    """Return the whole part of the square root of ``number``."""
    guess = 1 << (number.bit_length() + 1) // 2
    while True:
        better = (guess + number // guess) // 2
        if better >= guess:
            return guess
        guess = better


_ROOTS: Final = _roots()


@lru_cache(maxsize=4_096)
def halved(span_ms: int, half_life_ms: int) -> int:
    """Return the part of ``ONE`` that is left after decay for ``span_ms``."""
    whole, rest = divmod(span_ms, half_life_ms)
    left = ONE >> min(whole, ONE.bit_length())
    for root in _ROOTS:
        if not rest or not left:
            break
        rest *= 2
        if rest >= half_life_ms:
            rest -= half_life_ms
            left = left * root // ONE
    return left


class Meter:
    """The amount in use now, and the use in past hours.

    For an instant after the last change, the total use until the instant is ``amount`` times the
    instant, minus ``moment``. To get ``moment``, multiply the amount of each change by the instant
    of the change, and add up the products.
    """

    __slots__ = (
        "amount",
        "corrected",
        "ends_ms",
        "hours",
        "known",
        "looked_back",
        "moment",
        "sums",
    )

    def __init__(self, at_ms: int) -> None:
        hour = at_ms // HOUR_MS
        self.amount = 0
        self.moment = 0
        self.ends_ms = (hour + 1) * HOUR_MS
        """When the present hour ends."""
        self.hours = [hour]
        self.sums = [0]
        """The total use before each of the first ``known`` entries of ``hours``.

        Between two neighbouring entries the use was even.
        """
        self.known = 1
        self.looked_back = (0, 0, 0)
        """A cached result: (half-life, number of hours read, decayed use before the last of these).

        The use is decayed to the start of the last hour that was read.
        """
        self.corrected = (1, 0)
        """A cached result: (number of hours read, the last of these hours with negative use)."""

    def copy(self) -> Meter:
        """Return an independent copy; the past hours, which never change, are shared."""
        over = Meter.__new__(Meter)
        over.amount, over.moment, over.ends_ms = self.amount, self.moment, self.ends_ms
        over.hours, over.sums, over.known = self.hours, self.sums, self.known
        over.looked_back, over.corrected = self.looked_back, self.corrected
        return over

    @classmethod
    def of(cls, told: Told) -> Meter:
        """Return the meter that is stored as ``told``."""
        meter = cls.__new__(cls)
        meter.amount, meter.moment, meter.ends_ms, meter.hours, meter.sums = told
        meter.known, meter.looked_back, meter.corrected = len(meter.hours), (0, 0, 0), (1, 0)
        return meter

    def told(self) -> Told:
        """Return the stored form of the meter."""
        hours, sums = self.hours[: self.known], self.sums[: self.known]
        return self.amount, self.moment, self.ends_ms, hours, sums

    def __eq__(self, other: object) -> bool:
        """Return whether both meters have the same stored form."""
        return isinstance(other, Meter) and self.told() == other.told()

    __hash__ = None  # type: ignore[assignment]

    def add(self, amount: int, at_ms: int) -> None:
        """Record that since ``at_ms`` the amount in use is higher by ``amount`` (negative: lower).

        If ``at_ms`` is in a past hour, the use since then is added to the present hour.
        """
        if at_ms >= self.ends_ms:
            self.turn(at_ms)
        self.amount += amount
        self.moment += amount * at_ms

    def turn(self, at_ms: int) -> None:
        """Begin the hour of ``at_ms``; earlier hours are over."""
        hour = at_ms // HOUR_MS
        hours, sums = self.hours, self.sums
        if self.known < len(hours):  # Another copy has added hours.
            self.hours, self.sums = hours, sums = hours[: self.known], sums[: self.known]
        ended = self.ends_ms // HOUR_MS
        hours.append(ended)
        sums.append(self._until(self.ends_ms))
        if hour > ended:
            hours.append(hour)
            sums.append(self._until(hour * HOUR_MS))
        self.known = len(hours)
        self.ends_ms = (hour + 1) * HOUR_MS

    def _until(self, at_ms: int) -> int:
        """Return the total use until ``at_ms``, which must not be before the last change."""
        return self.amount * at_ms - self.moment

    def used(self, from_ms: int, until_ms: int) -> int:
        """Return the use from ``from_ms`` until ``until_ms``, which must not be in the past.

        For the hour of ``from_ms``, a part of its use is counted, in proportion to the time.
        """
        if from_ms >= self.ends_ms:
            return self.amount * (until_ms - from_ms)
        return self._until(until_ms) - self._before(from_ms, until_ms)

    def _before(self, at_ms: int, now_ms: int) -> int:
        """Return the use before ``at_ms``, an instant in the past."""
        place = bisect_right(self.hours, at_ms // HOUR_MS, hi=self.known)
        if not place:
            return 0
        begins_ms, before = self.hours[place - 1] * HOUR_MS, self.sums[place - 1]
        if place < self.known:
            ends_ms, more = self.hours[place] * HOUR_MS, self.sums[place] - before
        else:
            ends_ms = min(now_ms, self.ends_ms)
            more = self._until(ends_ms) - before
        return before + more * (at_ms - begins_ms) // max(1, ends_ms - begins_ms)

    def was_corrected(self, from_ms: int) -> bool:
        """Return whether an hour since ``from_ms`` has negative use.

        Such an hour corrects a record that came late; before it, too much use was counted.
        """
        place, last = self.corrected
        if place < self.known:
            sums = self.sums[place - 1 : self.known]
            if sums != sorted(sums):
                last = max(at for at in range(1, len(sums)) if sums[at] < sums[at - 1]) + place - 1
            self.corrected = (self.known, last)
        if from_ms < self.ends_ms and self._until(self.ends_ms) < self.sums[self.known - 1]:
            return True
        if not last:
            return False
        return last >= bisect_right(self.hours, from_ms // HOUR_MS, hi=self.known)

    def past_ms(self, from_ms: int, amount: int) -> int | None:
        """Return the first instant by which ``amount`` has been used since ``from_ms``.

        The result assumes that the present use continues, and is None if ``amount`` is then never
        reached. Call this only if ``was_corrected(from_ms)`` is false.
        """
        if from_ms >= self.ends_ms:
            return from_ms - amount // -self.amount if self.amount else None
        begins = max(0, bisect_right(self.hours, from_ms // HOUR_MS, hi=self.known) - 1)
        target = self._before(from_ms, self.ends_ms) + amount
        place = bisect_left(self.sums, target, lo=begins, hi=self.known)
        if place < self.known:
            ends_ms, ended = self.hours[place] * HOUR_MS, self.sums[place]
        else:
            ends_ms, ended = self.ends_ms, self._until(self.ends_ms)
        if target > ended:
            return -(-(target + self.moment) // self.amount) if self.amount else None
        begins_ms, before = self.hours[place - 1] * HOUR_MS, self.sums[place - 1]
        return begins_ms - (target - before) * (ends_ms - begins_ms) // (before - ended)

    def recent(self, at_ms: int, half_life_ms: int) -> int:
        """Return the decayed use until ``at_ms``: past use is halved after each half-life."""
        faded, before = self._faded_by(at_ms, half_life_ms)
        span_ms = at_ms % HOUR_MS
        left = faded * halved(span_ms, half_life_ms)
        return (left + (self._until(at_ms) - before) * halved(span_ms // 2, half_life_ms)) // ONE

    def _faded_by(self, at_ms: int, half_life_ms: int) -> tuple[int, int]:
        """Return the use before the hour of ``at_ms``: decayed to the hour's start, and in full."""
        faded, before = self._looked_back(half_life_ms), self.sums[self.known - 1]
        if at_ms >= self.ends_ms:
            faded = _faded(faded, self._until(self.ends_ms) - before, 1, half_life_ms)
            hours = (at_ms - self.ends_ms) // HOUR_MS
            faded = _faded(faded, self.amount * hours * HOUR_MS, hours, half_life_ms)
            before = self._until(at_ms // HOUR_MS * HOUR_MS)
        return faded, before

    def recent_between(
        self, from_ms: int, until_ms: int, half_life_ms: int
    ) -> tuple[int, int] | None:
        """Return a lower and an upper bound of ``recent`` between two instants.

        Return None if the instants are not in one hour, or if a correction made a sum negative. The
        bounds are the lower and the higher value at the two instants, widened by the most that the
        value can deviate between the instants.
        """
        faded, before = self._faded_by(from_ms, half_life_ms)
        used, span_ms = self._until(from_ms) - before, until_ms - from_ms
        if from_ms % HOUR_MS + span_ms > HOUR_MS or faded < 0 or used < 0 or self.amount < 0:
            return None
        most = faded + used + self.amount * span_ms
        bends = self.amount * span_ms * span_ms // (10 * half_life_ms)
        bends += most * span_ms * span_ms // (16 * half_life_ms * half_life_ms)
        bends += (most >> _ROUNDED) + 2
        ends = [
            faded * halved(at_ms, half_life_ms) + more * halved(at_ms // 2, half_life_ms)
            for at_ms, more in (
                (from_ms % HOUR_MS, used),
                (from_ms % HOUR_MS + span_ms, used + self.amount * span_ms),
            )
        ]
        return min(ends) // ONE - bends, max(ends) // ONE + bends

    def _looked_back(self, half_life_ms: int) -> int:
        """Return the use before this hour, decayed to the start of this hour."""
        known_ms, place, faded = self.looked_back
        if known_ms != half_life_ms or place > self.known:
            place, faded = 1, 0
        hours, sums = self.hours, self.sums
        for at in range(max(1, place), self.known):
            span = hours[at] - hours[at - 1]
            faded = _faded(faded, sums[at] - sums[at - 1], span, half_life_ms)
        self.looked_back = (half_life_ms, self.known, faded)
        return faded


def _faded(before: int, area: int, hours: int, half_life_ms: int) -> int:
    """Return the sum of ``before`` and ``area``, both decayed to the end of ``hours``.

    ``area`` was used evenly over ``hours``. The use of each hour is treated as if all of it were in
    the middle of the hour.
    """
    if not hours:
        return before
    left, middle = halved(HOUR_MS, half_life_ms), halved(HOUR_MS // 2, half_life_ms)
    if hours == 1:
        return (before * left + area * middle) // ONE
    later = halved(hours * HOUR_MS, half_life_ms)
    lost = ONE - left
    each = (ONE - later) * ONE // lost if lost else hours * ONE
    return (before * later + area * middle // ONE * each // hours) // ONE


class NodeMeter:
    """The distinct nodes on which an owner has leases, and their number over time."""

    __slots__ = ("meter", "uses")

    def __init__(self, at_ms: int) -> None:
        self.meter = Meter(at_ms)
        self.uses: dict[str, int] = {}

    def copy(self) -> NodeMeter:
        """Return an independent copy."""
        over = NodeMeter.__new__(NodeMeter)
        over.meter, over.uses = self.meter.copy(), self.uses.copy()
        return over

    def __eq__(self, other: object) -> bool:
        """Return whether both meters have the same stored form."""
        return isinstance(other, NodeMeter) and (self.meter, self.uses) == (other.meter, other.uses)

    __hash__ = None  # type: ignore[assignment]

    def add(self, slots: Slots, at_ms: int) -> None:
        """Count one more lease on the nodes of ``slots``."""
        for node, _ in slots:
            uses = self.uses.get(node, 0)
            self.uses[node] = uses + 1
            if not uses:
                self.meter.add(1, at_ms)

    def remove(self, slots: Slots, at_ms: int) -> None:
        """Count one lease less on the nodes of ``slots``."""
        for node, _ in slots:
            self.uses[node] -= 1
            if not self.uses[node]:
                del self.uses[node]
                self.meter.add(-1, at_ms)
