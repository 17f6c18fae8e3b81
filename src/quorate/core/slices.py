"""Slices: which domains a request would use if room were made there, and how much is missing.

The deficit of a slice is the sum over its domains of max(0, wanted - free). The slice chosen is
the one with the least deficit, ties by pack order; it is what a refusal names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.core.layout import PackRequest
from quorate.core.spread import Item, items_of
from quorate.core.yard import Yard, Yards
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


def no_placement(yards: Yards) -> Refusal:
    """Return why ``yards.request`` cannot be placed now: the least deficit, domain by domain."""
    request = yards.request
    found = list(yards)
    if not found:
        return Refusal(code=RefusalCode.NO_NODES, subject=request.flavor, wanted=request.gpus)
    parts = least_deficit(request, found)
    if parts is None:
        return _never_fits(request, found)
    short = sum(part.deficit for part in parts)
    if request.one_domain:
        code = RefusalCode.NO_SINGLE_DOMAIN
    else:
        code = RefusalCode.INSUFFICIENT_CAPACITY
    return Refusal(
        code=code,
        subject=request.flavor,
        wanted=_need(request),
        short=max(1, short),
        shortages=tuple(
            Shortage(where=part.domain, wanted=part.wanted, available=part.gpus_free)
            for part in parts[:SHORTAGES_MAX]
        ),
        remedy="" if short else "nodes are free but broken up; ask for a pool without wholeNodes",
    )


def _never_fits(request: PackRequest, yards: Sequence[Yard]) -> Refusal:
    """Return the refusal of a request that the empty fleet could not hold."""
    largest = max(yard.island.gpus_total for yard in yards)
    total = sum(yard.island.gpus_total for yard in yards)
    need = _need(request)
    items = items_of(request)
    group = max(item.gpus + request.spares_per_group for item in items)
    size, held = (need, largest) if request.one_domain else (need, total)
    if not request.one_domain and need <= total and not items[0].divisible:
        size, held = group, largest
    code = (
        RefusalCode.NO_SINGLE_DOMAIN
        if request.one_domain or size == group != need
        else RefusalCode.INSUFFICIENT_CAPACITY
    )
    return Refusal(
        code=code,
        subject=request.flavor,
        wanted=size,
        short=max(1, size - held),
        shortages=(Shortage(where="all nodes, were they empty", wanted=size, available=held),),
        remedy="ask for fewer GPUs, smaller groups or another flavor; waiting will not help",
    )


def _need(request: PackRequest) -> int:
    spares = request.spares_per_group
    return sum((item.gpus + spares) * item.count for item in items_of(request))


def least_deficit(request: PackRequest, yards: Sequence[Yard]) -> list[SlicePart] | None:
    """Return the slice with the least deficit, or None when the empty fleet could not hold it.

    ``yards`` in pack order. For groups of one size the cost of one more group in a domain never
    falls, so taking the cheapest next group is optimal; the few groups of other sizes go after
    them, each where it is cheapest.
    """
    items, spares = items_of(request), request.spares_per_group
    wanted = {yard.domain: 0 for yard in yards}
    if request.one_domain:
        need = _need(request)
        holding = [yard for yard in yards if yard.island.gpus_total >= need]
        if not holding:
            return None
        best = min(holding, key=lambda yard: max(0, need - yard.gpus_free))
        wanted[best.domain] = need
        return _parts(wanted, yards)
    for item in items:
        placed = _divide(item, spares, yards, wanted) if item.divisible else _add(
            item, spares, yards, wanted
        )
        if not placed:
            return None
    return _parts(wanted, yards)


def _add(item: Item, spares: int, yards: Sequence[Yard], wanted: dict[str, int]) -> bool:
    """Add the groups of ``item`` one by one where each costs least; ties: used, then pack order."""
    size = item.gpus + spares
    for _ in range(item.count):
        options = [
            (
                max(0, wanted[y.domain] + size - y.gpus_free) - max(0, wanted[y.domain] - y.gpus_free),
                wanted[y.domain] == 0,
                index,
            )
            for index, y in enumerate(yards)
            if wanted[y.domain] + size <= y.island.gpus_total
        ]
        if not options:
            return False
        wanted[yards[min(options)[2]].domain] += size
    return True


def _divide(item: Item, spares: int, yards: Sequence[Yard], wanted: dict[str, int]) -> bool:
    """Fill what is free, domain by domain, then what is taken; each domain used costs its spares."""
    left = item.gpus
    used: set[str] = set()
    for limit in ("free", "total"):
        for yard in yards:
            bound = yard.gpus_free if limit == "free" else yard.island.gpus_total
            extra = 0 if yard.domain in used else spares
            gpus = min(left, bound - wanted[yard.domain] - extra)
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
