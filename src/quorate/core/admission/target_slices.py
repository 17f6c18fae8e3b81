"""Slices: in which domains a request could fit if more GPUs became free, and how many are missing.

A slice is a choice of domains, with the number of GPUs wanted in each. The deficit of a slice is
the number of missing GPUs: the sum over its domains of max(0, wanted - free). A refusal names the
slice with the least deficit; of equal slices, the first in pack order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from quorate.core.admission.domain_offer import DomainOffer
from quorate.core.admission.layout import PackRequest
from quorate.core.admission.spread import Item, items_of
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode, Shortage


@dataclass(frozen=True, slots=True)
class SlicePart:
    """A slice's part in one domain: ``wanted`` GPUs.

    In the domain, ``gpus_free`` of ``gpus_total`` GPUs are free.
    """

    domain: str
    wanted: int
    gpus_free: int
    gpus_total: int

    @property
    def deficit(self) -> int:
        """The number of GPUs that are missing in the domain."""
        return max(0, self.wanted - self.gpus_free)


def best_slice(
    request: PackRequest, domain_offers: Sequence[DomainOffer]
) -> tuple[list[SlicePart], bool]:
    """Return the slice with the least deficit, and whether the request fits into empty domains.

    If the request does not fit, the slice wants more GPUs of a domain than the domain has. The GPUs
    that the domain does not have are included in the deficit.
    """
    parts = least_deficit(request, domain_offers)
    if parts is not None:
        return parts, True
    return least_deficit(request, domain_offers, bounded=False) or [], False


def no_placement(request: PackRequest, domain_offers: Sequence[DomainOffer]) -> Refusal:
    """Return the refusal of ``request`` in ``domain_offers``, with the slice of least deficit."""
    parts, fits_empty = best_slice(request, domain_offers) if domain_offers else ([], False)
    if not parts:
        return Refusal(code=RefusalCode.NO_NODES, subject=request.flavor, wanted=request.gpus)
    remedy = ""
    if not fits_empty:
        remedy = (
            "it would not fit even on an empty fleet: ask for fewer GPUs, smaller groups or "
            "another "
            "flavor"
        )
    short = sum(part.deficit for part in parts)
    if short == 0:
        remedy = "enough GPUs are free, but no domain has enough for a whole group"
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


def is_enough(request: PackRequest, domain_offers: Sequence[DomainOffer]) -> bool:
    """Return whether the slice stays the same if domains with fewer free GPUs are added.

    ``domain_offers`` are the domains with the most free GPUs, the domain with the most first. If
    each of these domains, when empty, has room for the whole request, the slice with the least
    deficit uses only these domains. For a divisible request, the slice uses free GPUs first, and
    takes the rest in the first domain.
    """
    need = _need(request)
    if domain_offers[-1].island.gpus_total < need or domain_offers[0].island.gpus_total < need:
        return False
    if request.one_domain:
        return True
    if any(bundle.groups is None for bundle in request.bundles):
        return domain_offers[-1].gpus_free <= 0
    groups = sum(len(bundle.groups or ()) for bundle in request.bundles)
    return len(domain_offers) >= groups and all(
        domain_offer.island.gpus_total >= need for domain_offer in domain_offers
    )


def _need(request: PackRequest) -> int:
    spares = request.spares_per_group
    return sum((item.gpus + spares) * item.count for item in items_of(request))


def least_deficit(
    request: PackRequest, domain_offers: Sequence[DomainOffer], *, bounded: bool = True
) -> list[SlicePart] | None:
    """Return the slice with the least deficit; None if the empty fleet has no room for the request.

    ``domain_offers`` are in pack order. If ``bounded`` is false, the slice may want more GPUs of a
    domain than the domain has. The cost of a group is the amount that it adds to the deficit. For
    groups of one size, each further group in a domain costs at least as much as the previous one.
    So always choosing the domain where the next group is cheapest is optimal. Groups of other sizes
    are added afterwards in the same way.
    """
    room = {
        domain_offer.domain: domain_offer.island.gpus_total if bounded else _need(request)
        for domain_offer in domain_offers
    }
    wanted = {domain_offer.domain: 0 for domain_offer in domain_offers}
    if request.one_domain:
        need = _need(request)
        holding = [
            domain_offer for domain_offer in domain_offers if room[domain_offer.domain] >= need
        ]
        if not holding:
            return None
        best = min(holding, key=lambda domain_offer: max(0, need - domain_offer.gpus_free))
        wanted[best.domain] = need
        return _parts(wanted, domain_offers)
    for item in items_of(request):
        place = _divide if item.divisible else _add
        if not place(item, request.spares_per_group, domain_offers, wanted, room):
            return None
    return _parts(wanted, domain_offers)


def _add(
    item: Item,
    spares: int,
    domain_offers: Sequence[DomainOffer],
    wanted: dict[str, int],
    room: dict[str, int],
) -> bool:
    """Add the groups of ``item`` one by one, each where it adds least to the deficit.

    Of equally good domains, a domain that the slice already uses is preferred; otherwise the first
    in pack order.
    """
    size = item.gpus + spares

    def cost(index: int) -> tuple[int, bool, int]:
        domain_offer = domain_offers[index]
        now = wanted[domain_offer.domain]
        more = max(0, now + size - domain_offer.gpus_free) - max(0, now - domain_offer.gpus_free)
        return more, now == 0, index

    costs = [
        cost(index)
        for index, y in enumerate(domain_offers)
        if wanted[y.domain] + size <= room[y.domain]
    ]
    heapify(costs)
    count = item.count
    while count:
        if not costs:
            return False
        index = costs[0][2]
        domain_offer = domain_offers[index]
        domain, now = domain_offer.domain, wanted[domain_offer.domain]
        # As long as each further group in this domain adds the same to the deficit, groups are
        # added here without a comparison with other domains.
        limit = domain_offer.gpus_free if now + size <= domain_offer.gpus_free else room[domain]
        crosses = now < domain_offer.gpus_free < now + size
        more = 1 if crosses else min(count, (min(limit, room[domain]) - now) // size)
        wanted[domain] += size * more
        count -= more
        if wanted[domain] + size <= room[domain]:
            heapreplace(costs, cost(index))
        else:
            heappop(costs)
    return True


def _divide(
    item: Item,
    spares: int,
    domain_offers: Sequence[DomainOffer],
    wanted: dict[str, int],
    room: dict[str, int],
) -> bool:
    """Take free GPUs, domain by domain, then GPUs in use; add spares in each used domain."""
    left = item.gpus
    used: set[str] = set()
    free = {domain_offer.domain: domain_offer.gpus_free for domain_offer in domain_offers}
    for bound in (free, room):
        for domain_offer in domain_offers:
            extra = 0 if domain_offer.domain in used else spares
            gpus = min(left, bound[domain_offer.domain] - wanted[domain_offer.domain] - extra)
            if gpus > 0:
                wanted[domain_offer.domain] += gpus + extra
                used.add(domain_offer.domain)
                left -= gpus
            if left == 0:
                return True
    return False


def _parts(wanted: dict[str, int], domain_offers: Sequence[DomainOffer]) -> list[SlicePart]:
    return [
        SlicePart(
            domain_offer.domain,
            wanted[domain_offer.domain],
            domain_offer.gpus_free,
            domain_offer.island.gpus_total,
        )
        for domain_offer in domain_offers
        if wanted[domain_offer.domain]
    ]
