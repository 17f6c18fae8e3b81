"""Slices: which domains a request would use if room were made there, and how much is missing.

The deficit of a slice is the sum over its domains of max(0, wanted - free). The slice chosen is
the one with the least deficit, ties by pack order; it is what a refusal names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from quorate.core.layout import PackRequest
from quorate.core.spread import Item, items_of
from quorate.core.yard import Yard
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode, Shortage


@dataclass(frozen=True, slots=True)
class SlicePart:
    """``wanted`` GPUs in ``domain``, which has ``gpus_free`` of ``gpus_total``."""

    domain: str
    wanted: int
    gpus_free: int
    gpus_total: int

    @property
    def deficit(self) -> int:
        """The GPUs missing here."""
        return max(0, self.wanted - self.gpus_free)


def best_slice(request: PackRequest, yards: Sequence[Yard]) -> tuple[list[SlicePart], bool]:
    """Return the slice with the least deficit, and whether the empty domains could hold it.

    Where they could not, they are asked for more than they have: that is what is missing.
    """
    parts = least_deficit(request, yards)
    if parts is not None:
        return parts, True
    return least_deficit(request, yards, bounded=False) or [], False


def no_placement(request: PackRequest, yards: Sequence[Yard]) -> Refusal:
    """Return why ``request`` cannot be placed in ``yards`` now: the least deficit, by domain."""
    parts, fits_empty = best_slice(request, yards) if yards else ([], False)
    if not parts:
        return Refusal(code=RefusalCode.NO_NODES, subject=request.flavor, wanted=request.gpus)
    remedy = ""
    if not fits_empty:
        remedy = (
            "the empty fleet could not hold it: ask for fewer GPUs, smaller groups or another "
            "flavor"
        )
    short = sum(part.deficit for part in parts)
    if short == 0:
        remedy = "enough GPUs are free, but not where its groups, as whole as they are, could go"
    code = RefusalCode.INSUFFICIENT_CAPACITY
    if request.one_domain:
        code = RefusalCode.NO_SINGLE_DOMAIN
    return Refusal(
        code=code,
        subject=request.flavor,
        wanted=sum(part.wanted for part in parts),
        short=max(1, short),
        shortages=tuple(
            Shortage(where=part.domain, wanted=part.wanted, available=part.gpus_free)
            for part in parts[:SHORTAGES_MAX]
        ),
        remedy=remedy,
    )


def is_enough(request: PackRequest, yards: Sequence[Yard]) -> bool:
    """Return whether yards that have no more free than ``yards`` change nothing about the slice.

    ``yards`` are the most free ones, in that order. Where each could hold all of a request if it
    were empty, each group of it is cheapest in one of the first, and what is divisible goes to what
    is free and then to the very first.
    """
    need = _need(request)
    if yards[-1].island.gpus_total < need or yards[0].island.gpus_total < need:
        return False
    if request.one_domain:
        return True
    if any(bundle.groups is None for bundle in request.bundles):
        return yards[-1].gpus_free <= 0
    groups = sum(len(bundle.groups or ()) for bundle in request.bundles)
    return len(yards) >= groups and all(yard.island.gpus_total >= need for yard in yards)


def _need(request: PackRequest) -> int:
    spares = request.spares_per_group
    return sum((item.gpus + spares) * item.count for item in items_of(request))


def least_deficit(
    request: PackRequest, yards: Sequence[Yard], *, bounded: bool = True
) -> list[SlicePart] | None:
    """Return the slice with the least deficit, or None when the empty fleet could not hold it.

    ``yards`` in pack order; unless ``bounded``, a domain may be asked for more than it has. For
    groups of one size the cost of one more group in a domain never falls, so taking the cheapest
    next group is optimal; groups of other sizes follow, each where it is cheapest.
    """
    room = {yard.domain: yard.island.gpus_total if bounded else _need(request) for yard in yards}
    wanted = {yard.domain: 0 for yard in yards}
    if request.one_domain:
        need = _need(request)
        holding = [yard for yard in yards if room[yard.domain] >= need]
        if not holding:
            return None
        best = min(holding, key=lambda yard: max(0, need - yard.gpus_free))
        wanted[best.domain] = need
        return _parts(wanted, yards)
    for item in items_of(request):
        place = _divide if item.divisible else _add
        if not place(item, request.spares_per_group, yards, wanted, room):
            return None
    return _parts(wanted, yards)


def _add(
    item: Item, spares: int, yards: Sequence[Yard], wanted: dict[str, int], room: dict[str, int]
) -> bool:
    """Add the groups of ``item`` one by one where each costs least; ties: used, then pack order."""
    size = item.gpus + spares

    def cost(index: int) -> tuple[int, bool, int]:
        yard = yards[index]
        now = wanted[yard.domain]
        more = max(0, now + size - yard.gpus_free) - max(0, now - yard.gpus_free)
        return more, now == 0, index

    costs = [
        cost(index) for index, y in enumerate(yards) if wanted[y.domain] + size <= room[y.domain]
    ]
    heapify(costs)
    count = item.count
    while count:
        if not costs:
            return False
        index = costs[0][2]
        yard = yards[index]
        domain, now = yard.domain, wanted[yard.domain]
        # As long as one more costs the same here, no other domain is looked at.
        limit = yard.gpus_free if now + size <= yard.gpus_free else room[domain]
        crosses = now < yard.gpus_free < now + size
        more = 1 if crosses else min(count, (min(limit, room[domain]) - now) // size)
        wanted[domain] += size * more
        count -= more
        if wanted[domain] + size <= room[domain]:
            heapreplace(costs, cost(index))
        else:
            heappop(costs)
    return True


def _divide(
    item: Item, spares: int, yards: Sequence[Yard], wanted: dict[str, int], room: dict[str, int]
) -> bool:
    """Fill what is free, domain by domain, then what is taken; each domain costs its spares."""
    left = item.gpus
    used: set[str] = set()
    free = {yard.domain: yard.gpus_free for yard in yards}
    for bound in (free, room):
        for yard in yards:
            extra = 0 if yard.domain in used else spares
            gpus = min(left, bound[yard.domain] - wanted[yard.domain] - extra)
            if gpus > 0:
                wanted[yard.domain] += gpus + extra
                used.add(yard.domain)
                left -= gpus
            if left == 0:
                return True
    return False


def _parts(wanted: dict[str, int], yards: Sequence[Yard]) -> list[SlicePart]:
    return [
        SlicePart(yard.domain, wanted[yard.domain], yard.gpus_free, yard.island.gpus_total)
        for yard in yards
        if wanted[yard.domain]
    ]
