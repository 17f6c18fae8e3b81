"""Divides the GPUs of a start among domains, by counting free GPUs, without payers."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.admission.layout import PackRequest
from quorate.core.admission.payers import Demand, Place
from quorate.core.admission.spread import Item
from quorate.core.planning.start_ask import Ask
from quorate.model.state.room_index import Domain

Placement = tuple[tuple[Domain, int], ...]
"""The number of GPUs in each domain, spares included."""


def nodes_of(placement: Placement, left: int) -> int:
    """Return the fewest new nodes that ``placement`` needs.

    ``left`` is the number of free GPUs on nodes that are already counted.
    """
    nodes = 0
    for domain, gpus in placement:
        own = min(gpus, left)
        left -= own
        nodes += -(-(gpus - own) // domain.nodes_gpus)
    return nodes


def demands_of(placement: Placement) -> list[Demand]:
    """Return the GPUs in each domain of ``placement`` that payers have to pay for."""
    return [(place_of_domain(domain), gpus) for domain, gpus in placement]


def place_of_domain(domain: Domain) -> Place:
    """Return ``domain`` as a place that payers' selectors can match."""
    return Place(domain.key.domain, domain.labels)


def holds(request: PackRequest, items: tuple[Item, ...], free: Sequence[int]) -> bool:
    """Return whether domains with these numbers of ``free`` GPUs have room for ``request``."""
    spares = request.spares_per_group
    gpus = sum((item.gpus + spares) * item.count for item in items)
    if any(left >= gpus for left in free):
        return True
    return not request.one_domain and divide(items, spares, list(free)) is not None


def place_by_count(ask: Ask, domains: Sequence[Domain], free: list[int]) -> Placement | None:
    """Return a placement in ``domains``; None if there is none.

    ``free`` is the number of free GPUs in each of ``domains``.
    """
    for domain, left in zip(domains, free, strict=True):
        if left >= ask.gpus:
            return ((domain, ask.gpus),)
    if ask.in_one:
        return None
    taken = divide(ask.items, ask.request.spares_per_group, free)
    if taken is None:
        return None
    return tuple((domains[at], gpus) for at, gpus in enumerate(taken) if gpus)


def divide(items: tuple[Item, ...], spares: int, free: list[int]) -> list[int] | None:
    """Return how many GPUs ``items`` take in each domain; the widest groups are placed first.

    Return None if the items do not fit. ``free`` is changed.
    """
    taken = [0] * len(free)
    for item in sorted(items, key=lambda each: -each.gpus):
        fill = _divided if item.divisible else _grouped
        if not fill(item, spares, free, taken):
            return None
    return taken


def _divided(item: Item, spares: int, free: list[int], taken: list[int]) -> bool:
    """Put a divisible item into domains in their order; return whether it fits.

    The part in each domain needs its own spares.
    """
    left = item.gpus
    for at, gpus_free in enumerate(free):
        gpus = min(left, gpus_free - spares)
        if gpus > 0:
            taken[at] += gpus + spares
            free[at] -= gpus + spares
            left -= gpus
            if not left:
                return True
    return False


def _grouped(item: Item, spares: int, free: list[int], taken: list[int]) -> bool:
    """Put groups into domains in their order; return whether they fit.

    A single group goes into the domain where the fewest GPUs stay free.
    """
    size, left = item.gpus + spares, item.count
    if left == 1:
        fitting = [(gpus_free, at) for at, gpus_free in enumerate(free) if gpus_free >= size]
        if not fitting:
            return False
        at = min(fitting)[1]
        taken[at] += size
        free[at] -= size
        return True
    for at, gpus_free in enumerate(free):
        count = min(left, max(0, gpus_free) // size)
        taken[at] += count * size
        free[at] -= count * size
        left -= count
    return not left
