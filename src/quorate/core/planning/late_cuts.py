"""Finds the starts whose conflict has cut leases that end late.

Such a start keeps its recorded place if it fits there even while the late leases run. Otherwise the
start waits for the late leases. The start then ends later, too, so starts right behind it have to
move, as with any late start. But if the start lacks more than what the late leases take, no other
start moves for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.core.planning.conflict_starts import clearing_leases
from quorate.core.planning.move_causes import stands_without
from quorate.core.planning.overstay import can_stay
from quorate.core.profile.firm_places import firm_entry, pin_of, stands
from quorate.core.profile.lease_ends import lease_end_ms
from quorate.core.profile.overstayers import overstayers
from quorate.core.profile.profile import Profile
from quorate.model.state.records import ReservationRecord
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class LateCuts:
    """The starts that have to wait for leases that were cut for them.

    ``gone_ms`` says when these leases are expected to end, by reservation. ``first`` are the
    reservations that lack only what these leases take. Their starts are put into the plan first,
    together with the starts that were due before now.
    """

    gone_ms: dict[str, int] = field(default_factory=dict)
    first: frozenset[str] = frozenset()


_NONE: Final = LateCuts()


def late_cuts(
    view: StateView, records: Sequence[ReservationRecord], now_ms: int, *, has_executor: bool
) -> LateCuts:
    """Return the starts among ``records`` that have to wait for leases that were cut for them.

    ``records`` are all reservations, in the order in which their starts are put into the plan.
    """
    waiting = {
        record.made.reservation: gone_ms
        for record in records
        if (gone_ms := _late_ms(view, record, now_ms)) is not None
    }
    if not waiting:
        return _NONE
    profile, first = Profile(view, now_ms), set[str]()
    late = overstayers(view, now_ms)
    for record in records:
        name = record.made.reservation
        if name not in waiting:
            pin = pin_of(view, record, now_ms)
            if pin is None or pin.by_conflict:
                continue
            is_standing = stands(profile, pin)
            profile.put(pin)
            if not is_standing and not can_stay(
                profile, record, pin, late, has_executor=has_executor
            ):
                profile.lift(pin)
            continue
        assert record.planned_start_ms is not None, record
        pin = firm_entry(view, record, max(record.planned_start_ms, now_ms))
        # If the start is overdue, admission has found no room for it, whatever the profile counts.
        if record.planned_start_ms >= now_ms and stands(profile, pin):
            del waiting[name]
        elif stands_without(profile, pin, clearing_leases(view, record)):
            first.add(name)
        else:
            continue
        profile.put(pin)
    return LateCuts(waiting, frozenset(first))


def _late_ms(view: StateView, record: ReservationRecord, now_ms: int) -> int | None:
    """Return when the last lease that was cut for a start by a conflict is expected to end.

    Return None if no lease was cut for the start, or if all cut leases end by the planned start.
    """
    if not record.by_conflict or record.planned_start_ms is None:
        return None
    ends = [lease_end_ms(view, view.leases[n], now_ms) for n in clearing_leases(view, record)]
    gone_ms = max(ends, default=0)
    return gone_ms if gone_ms > max(record.planned_start_ms, now_ms) else None
