"""The room that the plan leaves for a start: a view without the resources that the plan takes.

Only resources that the plan takes during the run are left out: a run may use planned room if the
run ends one grace before the room is needed. Admission tries the start in this view.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from quorate.core.admission.holds import hold_duration_ms
from quorate.core.profile.firm_places import firm_profile
from quorate.core.profile.profile import Profile, whole_gpus
from quorate.core.profile.quota_headroom import is_end_known
from quorate.core.profile.resource import FOREVER_MS, Resource
from quorate.model.events import Slice, Tier
from quorate.model.specs import CapId, EnvelopeId, Run
from quorate.model.state.free_slots import IslandKey, lowest_slots
from quorate.model.state.records import Lease
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

K = TypeVar("K")


def room_left(
    view: StateView,
    run: Run,
    at_ms: int,
    *,
    until_ms: int | None = None,
    without: Collection[str] = (),
) -> StateView:
    """Return ``view`` without the resources that firm starts need during ``run``.

    ``run`` would start at ``at_ms``. The reservations in ``without`` are ignored. If the other firm
    starts need nothing that the run could use, ``view`` itself is returned.
    """
    if not view.reservations:
        return view
    if until_ms is None:
        until_ms = at_ms + hold_duration_ms(run, view.pools[run.pool])
    profile = firm_profile(view, at_ms, without=without)
    return room_beside(view, profile, run, at_ms, until_ms)


def room_beside(  # noqa: PLR0913 - beside what, for which run, when, and what is left of it
    view: StateView,
    profile: Profile,
    run: Run,
    from_ms: int,
    until_ms: int,
    *,
    whole_last: bool = False,
    payers: Collection[EnvelopeId] | None = None,
) -> StateView:
    """Return ``view`` at ``from_ms``, without the resources that the plan takes until ``until_ms``.

    Runs that have started in ``view`` since ``profile`` was made must be in the profile. The GPUs
    that are left are on the fullest nodes or, if ``whole_last``, on the emptiest. ``payers`` are
    the envelopes that may pay for ``run``. If they are given, other payers are not examined.

    A claim and a run that shares in rounds get only nodes and hard quotas that the plan never
    takes, because it is not known when such runs give back nodes and quotas.
    """
    free_ms = until_ms if is_end_known(run) else FOREVER_MS
    islands = _islands_short(view, profile, run, from_ms, free_ms)
    widths = _widths_short(view, profile, payers, from_ms, until_ms, free_ms)
    hours = any(profile.payer_gpu_ms.values())
    kept_on = _kept_on(view, profile, run, from_ms, free_ms)
    if not (islands or hours or kept_on or any(widths)):
        return view
    state = view.overlay()
    if kept_on:
        state.holdings.kept_on = kept_on
    closed = _close_nodes(state, run, kept_on)
    for key, gpus in islands:
        # The GPUs that the plan takes may be on the nodes that were closed to this run.
        withhold(state, key, max(0, gpus - closed.get(key, 0)), whole_last=whole_last)
    for payer, gpus in widths.payers.items():
        state.envelopes.own(payer).gpus_reserved += gpus
    for payer, gpus in widths.lenders.items():
        state.envelopes.own(payer).lent_gpus_active += gpus
    for cap, gpus in widths.caps.items():
        state.caps.own(cap).gpus_reserved += gpus
    for counted, more in ((state.holdings.runs, widths.runs), (state.holdings.nodes, widths.nodes)):
        for owner, count in more.items():
            counted[owner] = counted.get(owner, 0) + count
    if hours:
        _hold_hours(state, profile, payers)
    return state


class _Widths(NamedTuple):
    """How much of the free amount of each payer, cap and hard quota must stay unused."""

    payers: dict[EnvelopeId, int]
    lenders: dict[EnvelopeId, int]
    caps: dict[CapId, int]
    runs: dict[str, int]
    nodes: dict[str, int]


def _widths_short(  # noqa: PLR0913, PLR0917 - of whom, and from when until when
    view: StateView,
    profile: Profile,
    payers: Collection[EnvelopeId] | None,
    from_ms: int,
    until_ms: int,
    free_ms: int,
) -> _Widths:
    """Return how much of the free amounts of payers, caps and quotas the plan takes.

    Payers and caps are examined until ``until_ms``, and quotas until ``free_ms``. If ``payers`` are
    given, only these payers and their caps are examined.
    """
    envelopes, caps, owners, held = view.envelopes, view.caps, view.owners, view.holdings

    def kept(
        planned: Iterator[tuple[K, Resource]], left: Callable[[K], int | None], end_ms: int
    ) -> dict[K, int]:
        short: dict[K, int] = {}
        for key, resource in planned:
            free = left(key)
            if free is not None and free > 0:
                gone = _short(free, resource.least(from_ms, end_ms))
                if gone:
                    short[key] = gone
        return short

    def lendable(key: EnvelopeId) -> int | None:
        limit = envelopes[key].spec.lending.concurrency_max
        return None if limit is None else limit - envelopes[key].lent_gpus_active

    def cap_left(key: CapId) -> int | None:
        limit = caps[key].spec.concurrency_max
        return None if limit is None else limit - caps[key].gpus_active - caps[key].gpus_reserved

    def runs_left(owner: str) -> int | None:
        limit = owners[owner].quota.concurrent_runs_max
        return None if limit is None else limit - held.runs.get(owner, 0)

    def nodes_left(owner: str) -> int | None:
        limit = owners[owner].quota.nodes_max
        return None if limit is None else limit - held.nodes.get(owner, 0)

    over = None if payers is None else _caps_over(view, payers)
    return _Widths(
        kept(profile.planned_payers(payers), lambda key: envelopes[key].gpus_left, until_ms),
        kept(profile.planned_lenders(payers), lendable, until_ms),
        kept(profile.planned_caps(over), cap_left, until_ms),
        kept(profile.headroom.planned_runs(), runs_left, free_ms),
        kept(profile.headroom.planned_nodes(), nodes_left, free_ms),
    )


def _kept_on(
    view: StateView, profile: Profile, run: Run, from_ms: int, until_ms: int
) -> dict[tuple[str, str], int]:
    """Return the headroom of quotas for nodes that ``run`` uses after present work has left them.

    The keys are (owner of the quota, node). If the headroom is below 1, ``run`` may not keep using
    the node. The result becomes ``Holdings.kept_on`` of the state in which ``run`` is tried.
    """
    if view.pools[run.pool].whole_nodes:
        return {}  # Runs share no nodes.
    return {
        (owner, node): left
        for owner in view.holdings.bounds_of(run.owner)
        for node, left in profile.headroom.left_on(owner, from_ms, until_ms)
        if view.holdings.has(owner, node)
    }


def _close_nodes(
    state: State, run: Run, kept_on: Mapping[tuple[str, str], int]
) -> dict[IslandKey, int]:
    """Withhold the nodes that ``run`` may not keep using; return their free GPUs, by island.

    Only nodes in the pool and of the flavors of ``run`` are withheld.
    """
    closed: dict[IslandKey, int] = {}
    for node in dict.fromkeys(node for (_, node), left in kept_on.items() if left < 1):
        key = state.nodes[node].island
        if key.pool == run.pool and key.flavor in run.flavors:
            island = state.island(key)
            position = next(n for n, each in enumerate(island.nodes) if each.name == node)
            if free := island.free[position]:
                state.occupy(((node, free),))
                closed[key] = closed.get(key, 0) + free.bit_count()
    return closed


def _hold_hours(state: State, profile: Profile, payers: Collection[EnvelopeId] | None) -> None:
    """Hold the GPU-hours that entries of the plan take and that are not held yet.

    If ``payers`` are given, only the GPU-hours of these payers and their caps are held.
    """
    planned_view = profile.view
    over = None if payers is None else _caps_over(planned_view, payers)
    for payer, gpu_ms in _of(profile.payer_gpu_ms, payers):
        planned = planned_view.envelopes[payer].committed_gpu_ms + gpu_ms
        if planned > state.envelopes[payer].committed_gpu_ms:
            state.envelopes.own(payer).committed_gpu_ms = planned
    for payer, gpu_ms in _of(profile.lent_gpu_ms, payers):
        planned = planned_view.envelopes[payer].lent_committed_gpu_ms + gpu_ms
        if planned > state.envelopes[payer].lent_committed_gpu_ms:
            state.envelopes.own(payer).lent_committed_gpu_ms = planned
    for cap, gpu_ms in _of(profile.cap_gpu_ms, over):
        planned = planned_view.caps[cap].committed_gpu_ms + gpu_ms
        if planned > state.caps[cap].committed_gpu_ms:
            state.caps.own(cap).committed_gpu_ms = planned


def _of(amounts: Mapping[K, int], only: Collection[K] | None) -> Iterable[tuple[K, int]]:
    """Return the items of ``amounts``; only those in ``only``, if given."""
    if only is None:
        return amounts.items()
    return [(key, amounts[key]) for key in only if key in amounts]


def _caps_over(view: StateView, payers: Collection[EnvelopeId]) -> set[CapId]:
    """Return the caps over ``payers``."""
    return {cap for key in payers for cap in view.envelopes[key].caps}


def _short(room: int, least: int) -> int:
    """Return how much of ``room`` must stay unused if ``least`` is the least amount free."""
    return max(0, room - max(0, least))


def _islands_short(
    view: StateView, profile: Profile, run: Run, from_ms: int, until_ms: int
) -> list[tuple[IslandKey, int]]:
    """Return the islands whose free GPUs the plan takes until ``until_ms``, and how many."""
    short, whole = [], view.pools[run.pool].whole_nodes
    for flavor in dict.fromkeys(run.flavors):
        # Only domains with free GPUs are examined; in a full fleet these are few.
        for free, key in view.domains(run.pool, flavor).most_free(1):
            room = profile.planned_room(key)
            if room is not None:
                left = whole_gpus(view.island(key)) if whole else free
                gpus = _short(left, room.least(from_ms, until_ms))
                if gpus:
                    short.append((key, gpus))
    return sorted(short)


def only_slice(view: StateView, pool: str, wanted: Slice) -> StateView:
    """Return ``view`` with no free GPUs of the flavor of ``wanted``, except those of ``wanted``.

    In each domain of ``wanted``, as many free GPUs stay free as ``wanted`` has there. So a start
    that was planned on these GPUs is found again.
    """
    state, asked = view.overlay(), dict(wanted.domains)
    for free, key in list(state.domains(pool, wanted.flavor).most_free(1)):
        if free > asked.get(key.domain, 0):
            withhold(state, key, free - asked.get(key.domain, 0), whole_last=True)
    return state


def only_domains(view: StateView, pool: str, flavor: str, domains: Collection[str]) -> StateView:
    """Return ``view`` without free GPUs of ``flavor`` outside ``domains``."""
    state = view.overlay()
    for free, key in list(state.domains(pool, flavor).most_free(1)):
        if key.domain not in domains:
            withhold(state, key, free)
    return state


def withhold(state: State, key: IslandKey, gpus: int, *, whole_last: bool = False) -> None:
    """Withhold ``gpus`` free slots of an island in ``state``, from the emptiest nodes first.

    If ``whole_last``, slots of the fullest nodes are withheld first, so that whole nodes stay free
    as long as possible.
    """
    island = state.island(key)
    slots: list[tuple[str, int]] = []
    counts = range(1, len(island.buckets))
    for count in counts if whole_last else reversed(counts):
        nodes = island.buckets[count]
        while nodes and gpus:
            low = nodes & -nodes
            nodes ^= low
            position = low.bit_length() - 1
            free = island.free[position]
            mask = free ^ lowest_slots(free, max(0, count - gpus))
            gpus -= mask.bit_count()
            slots.append((island.nodes[position].name, mask))
    assert not gpus, (key, gpus)
    if slots:
        state.occupy(tuple(slots))


# --- The state expected at an instant -------------------------------------------------------------


def unplanned(
    view: StateView, profile: Profile, run: Run, from_ms: int, until_ms: int
) -> StateView:
    """Return ``view`` without free GPUs in domains that the plan uses in the time span."""
    state = view.overlay()
    for key, room in sorted(profile.planned_rooms(), key=lambda each: each[0]):
        if key.pool == run.pool and key.flavor in run.flavors:
            known = key.domain in state.domains(key.pool, key.flavor).numbers
            if known and room.most_taken(from_ms, until_ms):
                withhold(state, key, state.island(key).gpus_free)
    return state


def release(
    state: State, known: StateView, leases: Sequence[Lease], has_ended: Callable[[str], bool]
) -> None:
    """Free the slots and the concurrency of ``leases`` in ``state``, and their use of hard quotas.

    ``state`` is an overlay of ``known``, and ``leases`` are leases of ``known``. ``has_ended``
    returns whether a lease has ended at the instant of ``state``. A run is counted in hard quotas
    until all its leases have ended. GPU-hours that are held for ``leases`` stay held, because the
    leases may have used them up when they end. Slots that go back to a spare stay taken.
    """
    kept: dict[str, int] = {}
    for pledge in known.pledges.values():
        for node, mask in pledge.slots:
            kept[node] = kept.get(node, 0) | mask
    freed: dict[str, int] = {}
    paid: dict[EnvelopeId, int] = {}
    lent: dict[EnvelopeId, int] = {}
    for lease in leases:
        fact = lease.fact
        for node, mask in fact.slots:
            left = mask & ~kept[node] if node in kept else mask
            if left:
                freed[node] = freed.get(node, 0) | left
        gpus, payer = lease.gpus, fact.payer
        paid[payer] = paid.get(payer, 0) + gpus
        if fact.tier is Tier.BORROWED:
            lent[payer] = lent.get(payer, 0) + gpus
    _give_width(state, paid, lent)
    _count_out(state, known, leases, has_ended)
    by_island: dict[IslandKey, list[tuple[str, int]]] = {}
    for node, mask in freed.items():
        by_island.setdefault(known.nodes[node].island, []).append((node, mask))
    for slots in by_island.values():
        state.vacate(tuple(slots))


def _give_width(state: State, paid: dict[EnvelopeId, int], lent: dict[EnvelopeId, int]) -> None:
    """Lower the GPUs that payers pay for by ``paid``, and the GPUs that they lend by ``lent``."""
    for payer, gpus in paid.items():
        account = state.envelopes.own(payer)
        account.gpus_active -= gpus
        account.lent_gpus_active -= lent.get(payer, 0)
        for key in account.caps:
            state.caps.own(key).gpus_active -= gpus


def _count_out(
    state: State, known: StateView, leases: Sequence[Lease], has_ended: Callable[[str], bool]
) -> None:
    """Release the use of hard quotas by ``leases``; a run uses quotas until its last lease ends."""
    if not known.holdings.has_bounds:
        return
    gone: dict[str, None] = {}
    for lease in leases:
        run = lease.fact.run
        spec = known.runs[run].spec
        # A run that shares in rounds may keep its nodes in the next round.
        if spec.rounds is None and known.holdings.bounds_of(spec.owner):
            state.drop_slots(run, lease.fact.slots)
            gone[run] = None
    for run in gone:
        record = known.runs[run]
        if not record.spec.sensitive and all(map(has_ended, record.leases)):
            state.count_run(record.spec.owner, -1)
