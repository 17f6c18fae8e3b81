"""Bind: make leases from a placement and its payers.

Payers are assigned to slots in pack order, to working groups first and then to spares. In each
place, the legs (the payments) are used up in cover order. A lease has the slots of one group that
one payer pays for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from msgspec import Struct

from quorate.core.admission.pack import PackPlan, PlacedGroup
from quorate.core.admission.payers import Demand, Leg
from quorate.model.events import Role, Slots, Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.free_slots import lowest_slots

# Reading a member of an enumeration is slow in Python 3.11, and the inner loop reads these members.
_ACTIVE: Final = Role.ACTIVE
_BORROWED: Final = Role.BORROWED
_LENT: Final = Tier.BORROWED


class LeaseDraft(Struct, frozen=True, gc=False):
    """A lease that has no name and no start time yet."""

    comp_path: str
    bundle: int
    role: Role
    payer: EnvelopeId
    tier: Tier
    hold_ms: int
    slots: Slots


def bind(plan: PackPlan, demands: Sequence[Demand], legs: Sequence[Leg]) -> list[LeaseDraft]:
    """Return the leases of ``plan``; ``legs`` must pay for exactly the GPUs of ``plan``."""
    if len(legs) == len(plan.groups) == 1 and not plan.groups[0].spare_slots:
        # Most runs have one group and one payer, so nothing has to be divided.
        (leg,), (group,) = legs, plan.groups
        assert leg.gpus == group.gpus, (leg, group)
        role = _BORROWED if leg.tier is _LENT else _ACTIVE
        path = f"group/{group.index}"
        return [LeaseDraft(path, group.bundle, role, leg.payer, leg.tier, leg.hold_ms, group.slots)]
    queues: dict[str, list[_Unpaid]] = {place.where: [] for place, _ in demands}
    for leg in legs:
        queues[demands[leg.place][0].where].append(_Unpaid(leg, leg.gpus))
    drafts: list[LeaseDraft] = []
    for group in plan.groups:
        drafts.extend(_leases(group, queues, spare=False))
    for group in plan.groups:
        if group.spare_slots:
            drafts.extend(_leases(group, queues, spare=True))
    assert not any(queues.values()), "cover pays for more than pack placed"
    return drafts


@dataclass(slots=True)
class _Unpaid:
    """A leg and how many of its GPUs are not assigned yet."""

    leg: Leg
    gpus: int


def _leases(
    group: PlacedGroup, queues: dict[str, list[_Unpaid]], *, spare: bool
) -> Iterator[LeaseDraft]:
    slots = group.spare_slots if spare else group.slots
    places = (group.spare_places if spare else group.places) or repeat(group.domain)
    parts: dict[tuple[EnvelopeId, Tier, int], list[tuple[str, int]]] = {}
    for (node, mask), where in zip(slots, places, strict=False):
        left = mask
        while left:
            head = queues[where][0]
            taken = left if head.gpus >= left.bit_count() else lowest_slots(left, head.gpus)
            head.gpus -= taken.bit_count()
            left ^= taken
            leg = head.leg
            parts.setdefault((leg.payer, leg.tier, leg.hold_ms), []).append((node, taken))
            if head.gpus == 0:
                queues[where].pop(0)
    path = f"spare/{group.index}" if spare else f"group/{group.index}"
    for (payer, tier, hold_ms), chunks in parts.items():
        role = Role.SPARE if spare else _BORROWED if tier is _LENT else _ACTIVE
        yield LeaseDraft(path, group.bundle, role, payer, tier, hold_ms, tuple(chunks))
