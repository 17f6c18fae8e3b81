"""Stops backfill that runs past its declared end and holds resources that a firm start needs.

A bundle may be stopped for a firm start under three conditions:

- The bundle is marked ``backfill``.
- The bundle started after the run of the firm start had begun to wait.
- The time from the bundle's declared end to the firm start is at least the bundle's grace.

The leases of the bundle are stopped one grace before the firm start. The newest bundles are stopped
first, and only as many as needed. No bundle is stopped for a run that was itself stopped because it
overstayed.

The sequence numbers of the two events decide whether a bundle started after a run began to wait.
The mark ``backfill`` names no reservation, so cancelling or moving one reservation changes nothing
for the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.stops import stop_bundle
from quorate.core.profile.firm_places import firm_profile, in_order, is_void, pin_of
from quorate.core.profile.node_quota import nodes_short
from quorate.core.profile.overstayers import (
    FilledSpare,
    Overstayer,
    bundle_end_ms,
    filled_spares,
    nodes_of,
    overstayers,
    room_of,
    shares_with,
    slots_of,
    take_held,
    take_slots,
    width_of,
)
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile, nodes_in
from quorate.core.profile.rack_rooms import gpus_on
from quorate.core.profile.resource import FOREVER_MS
from quorate.model.events import EndReason
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.records import Phase, ReservationRecord
from quorate.model.state.state_view import StateView
from quorate.model.state.upstreams import overtaken_since

_Shortage = tuple[str, str, int, int]
"""The kind and name of a resource, how much of it is missing, and from which instant on."""


def stop_overstayed(log: DecisionLog) -> bool:
    """Stop overstaying bundles that are in the way of a firm start; return whether any stopped."""
    view, now_ms = log.view, log.now_ms
    if not view.backfilled or not view.reservations:
        return False
    if not log.has_executor and not any(
        (record.planned_start_ms or FOREVER_MS) <= now_ms for record in view.reservations.values()
    ):
        return False  # Without an executor, a bundle is stopped when the firm start is due.
    # A bundle whose declared end is exactly now may still end by itself. But if the executor needs
    # a grace to stop it, the stop has to begin now.
    late = [
        each
        for each in overstayers(view, now_ms)
        if each.declared_end_ms < now_ms or (log.has_executor and each.grace_ms)
    ]
    if not late:
        return False
    lead_ms = max(each.grace_ms for each in late) if log.has_executor else 0
    due = [
        record
        for _, record in in_order(view)
        if record.planned_start_ms is not None
        and not record.by_conflict
        and record.planned_start_ms - lead_ms <= now_ms
        and _may_be_in_the_way(view, record, now_ms, late)
    ]
    if not due:
        return False
    profile, stopped = firm_profile(view, now_ms, is_shut=False), dict[tuple[str, int], None]()
    for record in sorted(due, key=lambda each: (each.planned_start_ms, each.seq)):
        pin = pin_of(view, record, now_ms)
        assert pin is not None, record
        for each in _in_the_way(profile, record, pin, late, has_executor=log.has_executor):
            lead_ms = each.grace_ms if log.has_executor else 0
            if pin.start_ms - lead_ms <= now_ms:
                stopped[each.run, each.bundle] = None
                late.remove(each)
                take_held(profile, pin, each, now_ms + lead_ms, bundle_end_ms(profile, each), -1)
    stop_bundles(log, stopped)
    return bool(stopped)


def stop_bundles(log: DecisionLog, bundles: Iterable[tuple[str, int]]) -> None:
    """Stop overstaying bundles, each given by its run and number."""
    for run, bundle in bundles:
        if log.view.runs[run].phase is Phase.RUNNING:
            stop_bundle(log, run, bundle, EndReason.OVERSTAYED)


def _may_be_in_the_way(
    view: StateView, record: ReservationRecord, now_ms: int, late: Sequence[Overstayer]
) -> bool:
    """Return whether an overstaying bundle may be stopped for a firm start that it may hinder.

    ``late`` are the overstaying bundles. A bundle may hinder the start if both use the same domain,
    payer or cap.
    """
    pin = pin_of(view, record, now_ms)
    return pin is not None and any(
        _may_stop(view, record, pin.start_ms, each) and shares_with(view, pin, each)
        for each in late
    )


def _in_the_way(
    profile: Profile,
    record: ReservationRecord,
    pin: Entry,
    late: Sequence[Overstayer],
    *,
    has_executor: bool,
) -> list[Overstayer]:
    """Return the bundles of ``late`` that have to stop for the firm start ``pin``, newest first.

    ``late`` are overstaying bundles. Each bundle and its filled spares are treated as running for
    ever, even if the bundle is expected to end before the start (``lease_ends``). If that
    expectation proved wrong, it would be too late to stop the bundle. If it is already too late to
    stop all bundles by the start, later instants are tried for the start. Leases that end before
    such an instant need no stop.
    """
    may_go = _stoppable(profile, record, pin, late)
    spares = filled_spares(profile, pin, may_go)
    for each in may_go:
        take_held(profile, pin, each, bundle_end_ms(profile, each), FOREVER_MS, 1)
    for spare in spares:
        take_slots(profile, spare, spare.over_ms, FOREVER_MS, 1)
    gone_ms = {each: _gone_ms(profile, each, pin, has_executor=has_executor) for each in may_go}
    needed: list[Overstayer] | None = None
    for start_ms in sorted(set(gone_ms.values())):
        in_time = [each for each in may_go if gone_ms[each] <= start_ms]
        needed = _needed_from(profile, record, pin, in_time, start_ms)
        if needed is not None:
            break
    for each in may_go:
        take_held(profile, pin, each, bundle_end_ms(profile, each), FOREVER_MS, -1)
    for spare in spares:
        take_slots(profile, spare, spare.over_ms, FOREVER_MS, -1)
    return needed or []


def _gone_ms(profile: Profile, each: Overstayer, pin: Entry, *, has_executor: bool) -> int:
    """Return the instant by which a bundle has ended if it is stopped for the firm start ``pin``.

    The instant is the start of ``pin``. If the bundle cannot stop by then, the instant is one grace
    from now. Without an executor, a bundle that is stopped has ended at once.
    """
    lead_ms = each.grace_ms if has_executor else 0
    return max(pin.start_ms, profile.now_ms + lead_ms)


def _needed_from(
    profile: Profile,
    record: ReservationRecord,
    pin: Entry,
    may_go: Sequence[Overstayer],
    start_ms: int,
) -> list[Overstayer] | None:
    """Return the bundles that must stop so that the firm start ``pin`` can begin at ``start_ms``.

    A late start also ends later, by as much as it is late. Firm starts right behind a late start
    are moved, so only the time until the recorded end of ``pin`` is examined. Return None if
    stopping bundles is not enough.
    """
    late_ms = start_ms - pin.start_ms
    moved = replace(pin, start_ms=start_ms, end_ms=min(FOREVER_MS, pin.end_ms + late_ms))
    if late_ms:
        profile.lift(pin)
        profile.put(moved)
    since_ms = record.planned_start_ms or pin.start_ms
    end_ms = max(start_ms + 1, moved.end_ms - (start_ms - since_ms))
    recorded = replace(moved, end_ms=end_ms)
    needed = None
    if pin.is_choosy:
        needed = relief(profile, record, recorded, may_go, all_of_it=True)
    if needed is None:
        needed = relief(profile, record, recorded, may_go)
    if late_ms:
        profile.lift(moved)
        profile.put(pin)
    return needed


def _stoppable(
    profile: Profile, record: ReservationRecord, pin: Entry, late: Sequence[Overstayer]
) -> list[Overstayer]:
    """Return the overstaying bundles in ``late`` that may be stopped for the firm start ``pin``."""
    return [each for each in late if _may_stop(profile.view, record, pin.start_ms, each)]


def _may_stop(view: StateView, record: ReservationRecord, start_ms: int, late: Overstayer) -> bool:
    """Return whether the bundle ``late`` may be stopped for a firm start at ``start_ms``."""
    waits = overtaken_since(view, view.runs[record.made.run])
    if waits is None or not waits.is_before(late.mark):
        return False
    return late.declared_end_ms <= start_ms - late.grace_ms


def relief(
    profile: Profile,
    record: ReservationRecord,
    pin: Entry,
    late: Sequence[Overstayer],
    *,
    all_of_it: bool = False,
) -> list[Overstayer] | None:
    """Return the bundles of ``late`` that must stop so that the firm start ``pin`` can stay.

    ``late`` are overstaying bundles, newest first. The result has the same order. Return an empty
    list if no bundle must stop, and None if stopping all bundles that may be stopped is not enough.
    ``profile`` contains all firm starts, ``pin`` included. ``pin`` can stay if there is enough of
    each resource that it needs. If ``all_of_it``, there must be as much of each resource as ``pin``
    takes in the profile. That may be more than ``pin`` needs: a start that needs specific racks or
    node sizes (``is_choosy``) takes all GPUs of its domains.
    """
    if is_void(profile.view, pin):
        return None
    short = _short(profile, pin, all_of_it=all_of_it)
    if not short:
        return []
    may_go = _stoppable(profile, record, pin, late)
    spares = filled_spares(profile, pin, may_go)
    needed = _fewest(_Freed(profile, pin, short, spares), may_go, {})
    if needed is None and spares:
        # The slots of a filled spare are free only if its fillers and the spare's bundle stop.
        beside: dict[Overstayer, list[Overstayer]] = {}
        for spare in spares:
            for each in spare.fillers:
                beside.setdefault(each, []).append(spare.owner)
        needed = _fewest(_Freed(profile, pin, short, spares), may_go, beside)
    return needed


class _Freed:
    """Computes how much of each missing resource stays missing if bundles stop."""

    __slots__ = ("_held", "_pin", "_profile", "_short", "_spares")

    def __init__(
        self,
        profile: Profile,
        pin: Entry,
        short: Sequence[_Shortage],
        spares: Sequence[FilledSpare],
    ) -> None:
        self._profile = profile
        self._pin = pin
        self._short = short
        self._spares = spares
        self._held: dict[Overstayer, list[int]] = {}

    def left(self, stopped: Collection[Overstayer]) -> list[int]:
        """Return how much of each resource is missing if the bundles in ``stopped`` are stopped."""
        left = [missing for _, _, missing, _ in self._short]
        for each in stopped:
            held = self._held.get(each)
            if held is None:
                held = list(_held(self._profile, self._pin, each, self._short))
                self._held[each] = held
            left = [missing - gpus for missing, gpus in zip(left, held, strict=True)]
        for spare in self._spares:
            if spare.owner not in stopped or any(f not in stopped for f in spare.fillers):
                continue
            if spare.back_ms > self._pin.start_ms and not spare.fillers:
                continue
            slots = slots_of(self._profile, spare)
            for at, (kind, name, *_) in enumerate(self._short):
                key = IslandKey(self._pin.pool, self._pin.slice.flavor, name)
                if kind == "domain":
                    left[at] -= slots.get(key, 0)
                elif kind == "racks":
                    left[at] -= gpus_on(spare.slots, nodes_in(name))
        return left


def _fewest(
    freed: _Freed,
    may_go: Sequence[Overstayer],
    beside: Mapping[Overstayer, Sequence[Overstayer]],
) -> list[Overstayer] | None:
    """Return the bundles of ``may_go`` that must stop, newest first.

    Return None if even a stop of all these bundles would not free enough. If a bundle is stopped,
    the bundles that ``beside`` lists for it are stopped, too.
    """
    needed: list[Overstayer] = []
    left = freed.left(needed)
    for each in may_go:
        both = dict.fromkeys((each, *beside.get(each, ())))
        more = [other for other in both if other not in needed]
        then = freed.left([*needed, *more])
        if not any(had > 0 and has < had for had, has in zip(left, then, strict=True)):
            continue
        needed += more
        left = then
        if all(missing <= 0 for missing in left):
            return _not_needless(freed, [each for each in may_go if each in needed])
    return None


def _not_needless(freed: _Freed, needed: Sequence[Overstayer]) -> list[Overstayer]:
    """Return ``needed`` without the bundles that can continue if the others stop.

    The oldest bundles are left out first.
    """
    kept = list(needed)
    for each in reversed(needed):
        without = [other for other in kept if other is not each]
        if all(missing <= 0 for missing in freed.left(without)):
            kept = without
    return kept


def can_stay(
    profile: Profile,
    record: ReservationRecord,
    pin: Entry,
    late: Sequence[Overstayer],
    *,
    has_executor: bool,
) -> bool:
    """Return whether the firm start ``pin`` can stay if bundles are stopped for it.

    All overstaying bundles in ``late`` that may be stopped for ``pin`` are treated as stopped.
    ``profile`` contains ``pin``. A stopped bundle frees its GPUs at the start of ``pin``. If its
    stop takes longer, the bundle frees its GPUs when it has ended. From the bundle's expected end
    on, the profile counts these GPUs as free even without a stop.
    """
    if is_void(profile.view, pin):
        return False
    if not _short(profile, pin, all_of_it=False):
        return True
    gone = [
        (each, gone_ms, end_ms)
        for each in _stoppable(profile, record, pin, late)
        if shares_with(profile.view, pin, each)
        if (end_ms := bundle_end_ms(profile, each))
        > (gone_ms := _gone_ms(profile, each, pin, has_executor=has_executor))
    ]
    gone_by = {each: gone_ms for each, gone_ms, _ in gone}
    spares = [
        (spare, max(gone_by[each] for each in (spare.owner, *spare.fillers)))
        for spare in filled_spares(profile, pin, gone_by)
    ]

    def count(sign: int) -> None:
        for each, gone_ms, end_ms in gone:
            take_held(profile, pin, each, gone_ms, end_ms, sign)
        for spare, gone_ms in spares:
            from_ms = gone_ms if spare.fillers else max(gone_ms, spare.back_ms)
            take_slots(profile, spare, from_ms, spare.over_ms, sign)

    count(-1)
    short = _short(profile, pin, all_of_it=False)
    count(1)
    return not short


def _short(profile: Profile, pin: Entry, *, all_of_it: bool) -> list[_Shortage]:
    found = []
    for kind, name, resource, amount in (*profile.named_needs(pin), *profile.rack_needs(pin)):
        beside = profile.taken(pin, kind, name, amount) - amount if all_of_it else 0
        short = beside - resource.least(pin.start_ms, pin.end_ms)
        if kind == "nodes" and short > 0:
            short = nodes_short(profile, pin, name)
        if short > 0:
            since_ms = resource.first_below(beside, pin.start_ms, pin.end_ms)
            found.append((kind, name, short, pin.start_ms if since_ms is None else since_ms))
    return found


def _held(
    profile: Profile, pin: Entry, each: Overstayer, short: Sequence[_Shortage]
) -> Iterator[int]:
    """Yield, for each shortage, how much of the resource the bundle holds when it becomes short."""
    for kind, name, _, since_ms in short:
        if kind == "domain":
            key = IslandKey(pin.pool, pin.slice.flavor, name)
            yield room_of(profile, pin, each, since_ms).get(key, 0)
        elif kind == "racks":
            freed = nodes_of(profile, pin, each, since_ms)
            yield sum(freed.get(node, 0) for node in nodes_in(name))
        else:
            yield width_of(profile.view, each, kind, name)


def stop_instants_ms(view: StateView, *, has_executor: bool) -> Iterator[int]:
    """Yield the instants at which bundles may have to be stopped for a firm start.

    For each firm start and each lease of a run with backfill, the instant is the start minus the
    lease's grace. Without an executor, the instant is the start itself.
    """
    if not view.backfilled or not view.reservations:
        return
    graces = {0}
    if has_executor:
        graces = {
            view.leases[lease].grace_ms
            for name in view.backfilled
            for lease in view.runs[name].leases
        }
    for record in view.reservations.values():
        if record.planned_start_ms is not None and not record.by_conflict:
            for grace_ms in graces:
                yield record.planned_start_ms - grace_ms
