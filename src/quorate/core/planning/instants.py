"""Finds the first instant at which a start fits, with few tries.

At a critical instant, the plan begins to take a resource, or a window opens or closes. Between two
critical instants the room only grows. So a try at the last millisecond before a critical instant
shows whether the start fits at any instant since the previous critical instant. Bisection then
finds the first such instant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from quorate.core.admission.search_budget import SearchBudget
from quorate.core.profile.profile import Need
from quorate.core.profile.resource import Resource

T = TypeVar("T")

FIND_STEPS_MAX: Final = 300
"""The most steps of the search for one start. A search may be long if caps overlap."""


def first_common_ms(needs: Sequence[Need], duration_ms: int, from_ms: int) -> int | None:
    """Return the first instant from which all ``needs`` are met for ``duration_ms``; or None."""
    at_ms = from_ms
    while True:
        before_ms = at_ms
        for resource, amount in needs:
            found = resource.earliest(amount, duration_ms, at_ms)
            if found is None:
                return None
            at_ms = found
        if at_ms == before_ms:
            return at_ms


def critical_instants(resources: Iterable[Resource], duration_ms: int, after_ms: int) -> list[int]:
    """Return the instants after ``after_ms`` at which less may fit than before."""
    found: set[int] = set()
    for resource in resources:
        steps_ms = resource.steps_ms
        for at_ms in steps_ms[bisect_right(steps_ms, after_ms) :]:
            found.add(at_ms)
            if at_ms - duration_ms + 1 > after_ms:
                found.add(at_ms - duration_ms + 1)
    return list(found)


def last_end_ms(resources: Iterable[Resource]) -> int:
    """Return the last instant at which one of ``resources`` grows because leases end."""
    return max((r.ends_ms[-1] for r in resources if r.ends_ms), default=0)


def first_fitting(
    tried: Callable[[int], T | None],
    critical: Sequence[int],
    from_ms: int,
    last_ms: int,
    steps: SearchBudget,
) -> tuple[int, T] | None:
    """Return the first instant from ``from_ms`` on that fits, and the result of ``tried`` for it.

    An instant fits if ``tried`` does not return None. ``critical`` has the critical instants in
    order; between two of them the room only grows. Return None if no instant up to ``last_ms``
    fits, or when the search steps are used up.
    """
    found = tried(from_ms)
    if found is not None:
        return from_ms, found
    return first_after(tried, critical, from_ms, last_ms, steps)


def first_after(
    tried: Callable[[int], T | None],
    critical: Sequence[int],
    after_ms: int,
    last_ms: int,
    steps: SearchBudget,
) -> tuple[int, T] | None:
    """Return the first instant after ``after_ms`` that fits, and the result of ``tried`` for it.

    The arguments, and a result of None, mean the same as in ``first_fitting``.
    """
    at_ms, index = after_ms, bisect_right(critical, after_ms)
    while True:
        stop_ms = critical[index] if index < len(critical) else max(at_ms, last_ms) + 1
        if stop_ms - 1 > at_ms or index == len(critical):
            found = tried(stop_ms - 1)
            if found is not None:
                return _halved(tried, at_ms, stop_ms - 1, found)
        if index == len(critical) or not steps.spend():
            return None
        at_ms = critical[index]
        index += 1
        found = tried(at_ms)
        if found is not None:
            return at_ms, found


def _halved(tried: Callable[[int], T | None], low_ms: int, high_ms: int, found: T) -> tuple[int, T]:
    """Return the first instant after ``low_ms`` that fits, and the result of ``tried`` for it.

    ``low_ms`` does not fit; ``high_ms`` does, with the result ``found``.
    """
    while high_ms - low_ms > 1:
        middle_ms = (low_ms + high_ms) // 2
        fitting = tried(middle_ms)
        if fitting is None:
            low_ms = middle_ms
        else:
            high_ms, found = middle_ms, fitting
    return high_ms, found


def ends_between(resources: Iterable[Resource], after_ms: int, before_ms: int) -> list[int]:
    """Return the instants, in order, at which one of ``resources`` grows because leases end.

    Only instants after ``after_ms`` and before ``before_ms`` are returned.
    """
    found: set[int] = set()
    for resource in resources:
        ends_ms = resource.ends_ms
        found.update(ends_ms[bisect_right(ends_ms, after_ms) : bisect_left(ends_ms, before_ms)])
    return sorted(found)


def first_growing(instants: Sequence[int], tried: Callable[[int], T | None]) -> T | None:
    """Return the result of ``tried`` for the first of ``instants`` that fits; None if none fits.

    If one instant fits, all later instants must fit too. Near instants are tried first, because a
    try at a far instant costs most.
    """
    low, high, found = -1, 0, None
    while low + 1 < len(instants):
        found = tried(instants[high])
        if found is not None:
            break
        low, high = high, min(2 * high + 1, len(instants) - 1)
    while found is not None and high - low > 1:
        middle = (low + high) // 2
        fitting = tried(instants[middle])
        if fitting is None:
            low = middle
        else:
            high, found = middle, fitting
    return found
