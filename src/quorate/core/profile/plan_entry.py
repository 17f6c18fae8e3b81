"""An entry of the plan: a run with a start, a place and payers."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from quorate.core.admission.admit import Admitted
from quorate.core.admission.payers import Leg
from quorate.model.events import Share, Slice


class Entry(Struct, frozen=True, gc=False):
    """A run that takes ``slice`` and its payers' width from ``start_ms`` until ``end_ms``.

    ``nodes`` is how many nodes it counts for under its owner's quotas; ``keeps`` is how many more
    GPUs, by domain, have to be free when it starts so that it fits on that many. ``is_choosy``: it
    needs certain racks or node sizes, so that it takes its domains whole. ``is_firm``: its
    GPU-hours are held in the accounts already. ``is_tentative``: they are held nowhere; earlier
    starts may use them.
    """

    run: str
    owner: str
    pool: str
    start_ms: int
    end_ms: int
    slice: Slice
    shares: tuple[Share, ...]
    nodes: int
    is_choosy: bool = False
    is_firm: bool = False
    is_tentative: bool = False
    by_conflict: bool = False
    keeps: tuple[tuple[str, int], ...] = ()


def slice_of(admitted: Admitted) -> Slice:
    """Return the place of ``admitted``: GPUs by domain, spares included, in pack order."""
    domains: dict[str, int] = {}
    for group in admitted.plan.groups:
        spares = sum(mask.bit_count() for _, mask in group.spare_slots)
        domains[group.domain] = domains.get(group.domain, 0) + group.gpus + spares
    return Slice(admitted.flavor, admitted.width, tuple(domains.items()))


def shares_of(legs: Iterable[Leg]) -> tuple[Share, ...]:
    """Return the payers and their GPUs, in cover order."""
    found: dict[tuple[object, ...], Share] = {}
    for leg in legs:
        key = (leg.payer, leg.tier, leg.hold_ms)
        known = found.get(key)
        gpus = leg.gpus + (0 if known is None else known.gpus)
        found[key] = Share(leg.payer, leg.tier, gpus, leg.hold_ms)
    return tuple(found.values())
