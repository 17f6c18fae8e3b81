"""Computes *pins*: a pin is a firm start as an entry of the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import gcd
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from quorate.core.admission.admit import cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.admission.holds import expected_ms
from quorate.core.admission.layout import PackRequest, pack_request
from quorate.core.admission.spread import fills_nodes, items_of
from quorate.core.profile.expected_returns import ExpectedReturns
from quorate.core.profile.lease_ends import run_end_ms
from quorate.core.profile.node_quota import counted, nodes_short
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile
from quorate.core.profile.quota_ends import is_quota_outlasted, quota_ends
from quorate.core.profile.reservations import is_cleared
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import Share, Slice, Tier
from quorate.model.selector import RACK, names_label
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.reads.money_reads import with_capped
from quorate.model.state.records import Phase, ReservationRecord, RunRecord
from quorate.model.state.state_view import StateView


def in_order(view: StateView) -> list[tuple[str, ReservationRecord]]:
    """Return the reservations in the order in which they became firm."""
    if not view.reservations:
        return []
    return sorted(view.reservations.items(), key=lambda entry: entry[1].seq)


def replan_due_ms(view: StateView, after_ms: int) -> int | None:
    """Return when the queue has to be planned again even if no event occurs; None if never.

    As time passes, tentative starts come within the horizon and become firm. So the queue is
    planned again after each quarter of the shortest horizon, but at most once a minute.
    """
    if len(view.pending) == len(view.reservations):
        return None
    horizons = [
        view.pools[pool].firm_horizon_ms
        for pool in _pools_waited_in(view)
        if view.pools[pool].reservation_depth
    ]
    if not horizons:
        return None
    every_ms = max(MINUTE_MS, min(horizons) // 4)
    return (after_ms // every_ms + 1) * every_ms


def _pools_waited_in(view: StateView) -> Iterable[str]:
    """Return the pools with waiting runs."""
    if len(view.pools) == 1 and view.queued_counts:
        return view.pools
    return {pool for pool, _ in view.queued_counts}


def pin_of(view: StateView, record: ReservationRecord, now_ms: int) -> Entry | None:
    """Return a reservation as an entry of the plan; None if the reservation has no start.

    If the start was due before ``now_ms``, the entry begins at ``now_ms``.
    """
    if record.planned_start_ms is None:
        return None
    run = view.runs[record.made.run].spec
    start_ms = max(record.planned_start_ms, now_ms)
    is_by_conflict = needs_conflict(view, record)
    if view.holdings.has_bounds:
        # This entry is not kept, because its nodes depend on leases.
        return firm_entry(view, record, start_ms, by_conflict=is_by_conflict)
    key = ("pin", record.made.reservation)
    cached = view.ask_cache.get(key)
    if not isinstance(cached, _Pin) or not cached.is_of(
        record, run, start_ms, is_by_conflict=is_by_conflict
    ):
        pin = firm_entry(view, record, start_ms, by_conflict=is_by_conflict)
        cached = view.ask_cache[key] = _Pin(run, record.slice, record.payers, pin)
    return cached.pin


def recorded_end_ms(record: ReservationRecord, pin: Entry) -> int:
    """Return when ``pin``, the entry of ``record``, would end if its run had started in time.

    The end is at least one millisecond after the start of ``pin``.
    """
    assert record.planned_start_ms is not None, record
    return max(pin.start_ms + 1, pin.end_ms - (pin.start_ms - record.planned_start_ms))


class _Pin(Struct, frozen=True, gc=False):
    """The entry of a reservation, kept until a budget, owner, pool or node changes."""

    run: Run
    slice: Slice
    payers: tuple[Share, ...]
    pin: Entry

    def is_of(
        self, record: ReservationRecord, run: Run, start_ms: int, *, is_by_conflict: bool
    ) -> bool:
        """Return whether this is the entry of ``record`` for a start at ``start_ms``."""
        return (
            self.run is run
            and self.slice is record.slice
            and self.payers is record.payers
            and self.pin.start_ms == start_ms
            and self.pin.by_conflict == is_by_conflict
        )


def needs_conflict(view: StateView, record: ReservationRecord) -> bool:
    """Return whether a start relies on a conflict that has not made room for the start yet."""
    return record.by_conflict and not is_cleared(view, record)


def firm_entry(
    view: StateView, record: ReservationRecord, start_ms: int, *, by_conflict: bool = False
) -> Entry:
    """Return the entry of a reservation for a start at ``start_ms``.

    If ``by_conflict``, a conflict still has to make room for the start. Otherwise the start is
    planned like one without a conflict.
    """
    run = view.runs[record.made.run].spec
    place = place_of(view, run, start_ms, record.slice, record.payers, is_firm=True)
    place = counted(view, place)
    if by_conflict:
        return replace(place, by_conflict=True, keeps=())
    return replace(place, is_choosy=is_choosy(view, run, place))


def is_choosy(view: StateView, run: Run, place: Entry) -> bool:
    """Return whether counting GPUs is not enough: selectors name racks, or node sizes differ.

    Node sizes only matter in a pool that gives whole nodes.
    """
    lines = (view.envelopes[share.payer].spec.selector for share in place.shares)
    if any(names_label(line, RACK) for line in (run.selector, *lines)):
        return True
    if not view.pools[run.pool].whole_nodes:
        return False
    sizes = set[int]()
    for domain, _ in place.slice.domains:
        key = IslandKey(run.pool, place.slice.flavor, domain)
        if domain in view.domains(key.pool, key.flavor).numbers:
            sizes.update(view.island(key).sizes)
    return len(sizes) > 1


def place_of(  # noqa: PLR0913 - the parts of an entry
    view: StateView,
    run: Run,
    start_ms: int,
    where: Slice,
    shares: tuple[Share, ...],
    *,
    is_firm: bool = False,
) -> Entry:
    """Return an entry for ``run`` in ``where``, paid by ``shares``, from ``start_ms`` on.

    The entry's field ``nodes`` is 0; the function ``counted`` sets this field.
    """
    end_ms = start_ms + expected_ms(run, view.pools[run.pool])
    return Entry(run.name, run.owner, run.pool, start_ms, end_ms, where, shares, 0, is_firm=is_firm)


def younger_by_conflict(view: StateView, reservation: str) -> frozenset[str]:
    """Return the starts that became firm after ``reservation`` and need a conflict not yet settled.

    These starts take only room that the start of ``reservation`` leaves. Once the conflict of a
    start is settled, the GPUs that the conflict freed belong to this start.
    """
    own = view.reservations[reservation]
    return frozenset(
        name
        for name, record in view.reservations.items()
        if record.by_conflict and record.seq > own.seq and not is_cleared(view, record)
    )


def firm_profile(
    view: StateView, now_ms: int, *, is_shut: bool = True, without: Collection[str] = ()
) -> Profile:
    """Return a profile with all firm starts, except the reservations in ``without``.

    If ``is_shut``, a start that requires particular racks or node sizes is counted as taking all
    GPUs of its domains.
    """
    profile = Profile(view, now_ms)
    # Starts by a conflict take only room that the other firm starts leave. So the other firm starts
    # are inserted first.
    records = (each for name, each in view.reservations.items() if name not in without)
    for record in sorted(records, key=lambda record: needs_conflict(view, record)):
        pin = pin_of(view, record, now_ms)
        if pin is not None:
            profile.put(pin)
    if is_shut:
        profile.shut()
    return profile


def stands(profile: Profile, pin: Entry) -> bool:
    """Return whether the start ``pin`` would find all it needs in ``profile``, until its end.

    ``profile`` must not contain ``pin``.
    """
    if is_void(profile.view, pin):
        return False
    start_ms, end_ms = pin.start_ms, pin.end_ms
    racks = profile.rack_needs(pin)
    if any(room.least(start_ms, end_ms) < amount for _, _, room, amount in racks):
        return False
    if all(each.least(start_ms, end_ms) >= amount for each, amount in profile.needs(pin)):
        return True
    return all(
        nodes_short(profile, pin, name) <= 0
        if kind == "nodes"
        else resource.least(start_ms, end_ms) >= amount
        for kind, name, resource, amount in profile.named_needs(pin)
    )


def stands_again(profile: Profile, pin: Entry, *, is_known: bool = False) -> bool:
    """Return ``stands(profile, pin)``, if possible without computing it.

    ``is_known`` says that the start certainly has all it needs. The start also has all it needs if
    two conditions are met: it had all it needed in the previous walk, and at least as much of its
    resources is free now. The result of the previous walk is used only if ``pin`` is the same
    object as in that walk. ``pin`` is a new object if a budget, owner, pool or node has changed.
    """
    gains = profile.gains
    if gains is None:
        return is_known or stands(profile, pin)
    is_kept = is_known or (
        gains.former.stood.get(pin.run) is pin and gains.has_no_less(pin, profile.returns)
    )
    is_standing = is_kept or stands(profile, pin)
    if is_standing:
        gains.made.stood[pin.run] = pin
    return is_standing


def is_outlasted(view: StateView, since_ms: int, now_ms: int) -> bool:
    """Return whether a lease has outlasted its expected end, and firm starts rely on that end.

    The expected end is the one computed at ``since_ms``, when firm starts were last examined. A
    lease has outlasted this end if the end has passed at ``now_ms`` and the lease is still open.
    ``_Counted`` says on which leases firm starts rely.
    """
    returns, counted = ExpectedReturns(view, now_ms), _Counted.of(view)
    return (
        any(returns.is_room_outlasted(room, since_ms) for room in counted.rooms)
        or any(returns.is_payer_outlasted(payer, since_ms) for payer in counted.payers)
        or any(is_quota_outlasted(view, bound, since_ms, now_ms) for bound in counted.bounds)
        or any(
            run_end_ms(view, record, since_ms) < run_end_ms(view, record, now_ms)
            for record in counted.with_filled_spares(view)
        )
    )


def outlasted_ms(view: StateView, now_ms: int) -> int | None:
    """Return the first instant at which ``is_outlasted`` is true if no event occurs; None if never.

    Firm starts are examined at this instant. Without this examination, the next command of some
    caller would move them, although that command did not cause the move.
    """
    returns, counted = ExpectedReturns(view, now_ms), _Counted.of(view)
    ends = [end for room in counted.rooms for end in returns.island_ends(room)[:1]]
    ends += [end for payer in counted.payers for end in returns.payer_ends(payer)[:1]]
    ends += [end for bound in counted.bounds for end in quota_ends(view, bound, now_ms)[:1]]
    instants = [end_ms for end_ms, _, _ in ends]
    instants += [run_end_ms(view, each, now_ms) for each in counted.with_filled_spares(view)]
    return min((end_ms + 1 for end_ms in instants if end_ms >= now_ms), default=None)


class _Counted(NamedTuple):
    """The domains, the payers and the hard quotas that firm starts need.

    A firm start relies on the ends of these leases and runs:

    - leases in its domains
    - leases paid by its payers, or by other payers under the caps of its payers
    - leases that count in a hard quota of its owner
    - runs with filled spares, if the spares are in its domains or are paid by these payers
    """

    rooms: set[IslandKey]
    payers: Collection[EnvelopeId]
    bounds: set[str]

    @classmethod
    def of(cls, view: StateView) -> _Counted:
        rooms, payers, bounds = set[IslandKey](), set[EnvelopeId](), set[str]()
        for record in view.reservations.values():
            if record.planned_start_ms is None:
                continue
            run, where = view.runs[record.made.run].spec, record.slice
            for domain, _ in where.domains:
                rooms.add(IslandKey(run.pool, where.flavor, domain))
            for share in record.payers:
                payers.add(share.payer)
            bounds.update(view.holdings.bounds_of(run.owner))
        return cls(rooms, with_capped(view, payers), bounds)

    def with_filled_spares(self, view: StateView) -> Iterator[RunRecord]:
        """Yield the running runs with filled spares in the domains, or paid by the payers."""
        runs = dict.fromkeys(
            pledge.run
            for pledge in view.pledges.values()
            if pledge.payer in self.payers
            or any(view.nodes[node].island in self.rooms for node, _ in pledge.slots)
        )
        for record in map(view.runs.__getitem__, runs):
            if record.phase is Phase.RUNNING:
                yield record


def is_void(view: StateView, pin: Entry) -> bool:
    """Return whether payers or the pool forbid the start ``pin``, however much is free."""
    return bool(unpaid(view, pin)) or breaks_nodes(view, pin)


def breaks_nodes(view: StateView, pin: Entry) -> bool:
    """Return whether the start ``pin`` would leave a part of a node free in a whole-node pool.

    Such a pool gives only whole nodes to runs. The result is True only if the pool, or a node in
    the domains of the start, was changed after the start was recorded.
    """
    pool = view.pools[pin.pool]
    if not pool.whole_nodes:
        return False
    run, key = view.runs[pin.run].spec, ("whole", pin.run)
    known = view.ask_cache.get(key)
    if not isinstance(known, _Whole) or known.run is not run or known.slice != pin.slice:
        # In old ledgers, the width of a malleable run may include its spares.
        width = pin.slice.gpus if pin.slice.gpus in run.widths() else run.widths()[-1]
        request = pack_request(run, pool, pin.slice.flavor, width)
        known = view.ask_cache[key] = _Whole(run, pin.slice, not _fills_nodes(view, pin, request))
    return known.breaks


def _fills_nodes(view: StateView, pin: Entry, request: PackRequest) -> bool:
    """Return whether ``request`` can fill whole nodes in the domains of the start ``pin``.

    In each domain, the GPUs that the start takes there must also fill whole nodes.
    """
    # In ledgers of older versions, the domains of a start with spares may not include the spares.
    has_parts = not request.spares_per_group or pin.slice.gpus < sum(
        gpus for _, gpus in pin.slice.domains
    )
    there = view.domains(pin.pool, pin.slice.flavor).numbers
    sizes: set[int] = set()
    for domain, gpus in pin.slice.domains:
        if domain in there:
            known = view.island(IslandKey(pin.pool, pin.slice.flavor, domain)).sizes
            if known and has_parts and gpus % gcd(*known):
                return False
            sizes |= set(known)
    return not sizes or fills_nodes(items_of(request), request.spares_per_group, sizes)


class _Whole(Struct, frozen=True, gc=False):
    """Whether an entry leaves a part of a node free, kept until a pool or node changes."""

    run: Run
    slice: Slice
    breaks: bool


def unpaid(view: StateView, pin: Entry) -> list[Share]:
    """Return the shares of ``pin`` that can no longer be paid, however much their payers have left.

    ``pin`` is a planned start. A share can no longer be paid in three cases:

    - Its payer was retired.
    - Its payer has no open window at the planned start.
    - Its payer may not pay for the run (``is_barred``).
    """
    payers = payers_of(view, view.runs[pin.run].spec, pin.slice.flavor)
    lapsed = []
    for share in pin.shares:
        account = view.envelopes[share.payer]
        spec = account.spec
        opens_ms = 0 if spec.allow_admission else spec.start_ms
        is_open = opens_ms <= pin.start_ms < spec.end_ms
        if account.retired or not is_open or is_barred(share, payers):
            lapsed.append(share)
    return lapsed


def is_barred(share: Share, payers: Mapping[EnvelopeId, Tier]) -> bool:
    """Return whether the payer of ``share`` is not in ``payers``, or could now only lend.

    A share that the family was to pay cannot become a loan, because a reservation does not count
    against the payer's limit of lending.
    """
    tier = payers.get(share.payer)
    return tier is None or (tier is Tier.BORROWED and share.tier is not Tier.BORROWED)


def payers_of(view: StateView, run: Run, flavor: str) -> Mapping[EnvelopeId, Tier]:
    """Return the envelopes that may pay for ``run``, each with its tier.

    The result is kept until a budget or an owner changes.
    """
    key = ("payers", run.name, flavor)
    known = view.ask_cache.get(key)
    if not isinstance(known, _Payers) or known.run is not run:
        phases = payer_phases(view, cover_request(view, run, flavor, 0))
        known = view.ask_cache[key] = _Payers(run, dict(phases[-1]))
    return known.payers


class _Payers(Struct, frozen=True, gc=False):
    run: Run
    payers: Mapping[EnvelopeId, Tier]
