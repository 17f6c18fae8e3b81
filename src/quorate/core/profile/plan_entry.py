"""The entry of a run in the plan: its start, its GPUs by domain and its payers."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from quorate.core.admission.admit import Admitted
from quorate.core.admission.payers import Leg
from quorate.model.events import Share, Slice


class Entry(Struct, frozen=True, gc=False):
    """The planned start of a run, which takes the GPUs ``slice`` from ``start_ms`` to ``end_ms``.

    - ``shares`` are the run's payers and how many GPUs each pays for.
    - ``nodes`` is the number of nodes that hard quotas charge for the run.
    - ``keeps`` is how many more GPUs of a domain have to be free at the start, so that the run fits
      on ``nodes`` nodes.
    - ``is_choosy`` says that the run needs specific racks or node sizes, and therefore takes its
      whole domains.
    - ``is_firm`` says that the accounts already hold the start's GPU-hours.
    - ``is_tentative`` says that no GPU-hours are held for the start, so that earlier starts may use
      them.
    - ``by_conflict`` says that a conflict still has to make room for the start.
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
    """Return the GPUs of ``admitted`` by domain, spares included, in pack order."""
    domains: dict[str, int] = {}
    for group in admitted.plan.groups:
        spares = sum(mask.bit_count() for _, mask in group.spare_slots)
        domains[group.domain] = domains.get(group.domain, 0) + group.gpus + spares
    return Slice(admitted.flavor, admitted.width, tuple(domains.items()))


def shares_of(legs: Iterable[Leg]) -> tuple[Share, ...]:
    """Return the payers of ``legs`` and their GPUs, in cover order."""
    found: dict[tuple[object, ...], Share] = {}
    for leg in legs:
        key = (leg.payer, leg.tier, leg.hold_ms)
        known = found.get(key)
        gpus = leg.gpus + (0 if known is None else known.gpus)
        found[key] = Share(leg.payer, leg.tier, gpus, leg.hold_ms)
    return tuple(found.values())
