"""Promises kept: what may start in front of a reservation, and until when.

Anything may use reserved room that is gone one grace before it is needed. So a start is tried in a
view from which the room and the payers' width that reservations will need meanwhile are taken out;
where that view has nothing left, neither has the real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quorate.core.admit import Admitted, cover_request
from quorate.core.cover import payer_phases
from quorate.core.holds import hold_duration_ms
from quorate.core.outlook import Level, Outlook, Plan
from quorate.model.events import BackfillNoted, Slice, Tier
from quorate.model.island import IslandKey, lowest_slots
from quorate.model.specs import CapId, EnvelopeId, Run
from quorate.model.state import State
from quorate.model.view import StateView


def room_left(  # noqa: PLR0913 - whose start, and beside which promises
    view: StateView,
    run: Run,
    at_ms: int,
    *,
    exempt: str = "",
    before_seq: int | None = None,
    until_ms: int | None = None,
) -> StateView:
    """Return ``view`` without what reservations need while ``run`` would run from ``at_ms`` on.

    The very view where no reservation needs anything it could use. ``exempt`` is its own; those
    from ``before_seq`` on were made later and give way.
    """
    outlook = Outlook.of(view, at_ms, exempt=exempt, before_seq=before_seq)
    if not outlook.plans:
        return view
    if until_ms is None:
        until_ms = at_ms + hold_duration_ms(run, view.pools[run.pool])
    return take_out(view, outlook, run, at_ms, until_ms)


def take_out(view: StateView, outlook: Outlook, run: Run, from_ms: int, until_ms: int) -> StateView:
    """Return ``view``, as it is at ``from_ms``, without what plans need until ``until_ms``."""
    islands = _islands_short(view, outlook, run, from_ms, until_ms)
    payers = {share.payer for plan in outlook.plans for share in plan.payers}
    payers &= _payers_of(view, run, from_ms)
    tight: list[tuple[EnvelopeId, bool, int]] = []
    for key in sorted(payers):
        account = view.envelopes[key]
        room = account.spec.concurrency - account.gpus_active - account.gpus_reserved
        tight.append((key, False, _short(room, outlook.payer(key).least(from_ms, until_ms))))
        limit = account.spec.lending.concurrency_max
        if limit is not None:
            left = outlook.payer(key, lent=True).least(from_ms, until_ms)
            tight.append((key, True, _short(limit - account.lent_gpus_active, left)))
    caps = [
        (cap, _cap_short(view, outlook, cap, from_ms, until_ms))
        for cap in sorted({cap for key in payers for cap in view.envelopes[key].caps})
    ]
    if not (islands or any(gpus for *_, gpus in tight) or any(gpus for _, gpus in caps)):
        return view
    state = view.overlay()
    for island, gpus in islands:
        withhold(state, island, gpus)
    for key, lent, gpus in tight:
        if gpus and lent:
            state.envelopes.own(key).lent_gpus_active += gpus
        elif gpus:
            state.envelopes.own(key).gpus_reserved += gpus
    for cap, gpus in caps:
        if gpus:
            state.caps.own(cap).gpus_reserved += gpus
    return state


def _payers_of(view: StateView, run: Run, at_ms: int) -> set[EnvelopeId]:
    """Return whoever might pay for ``run``: nobody else's width matters to it."""
    asks = (cover_request(view, run, flavor, at_ms) for flavor in run.flavors)
    return {key for cover in asks for key, _ in payer_phases(view, cover)[-1]}


def only_slice(view: StateView, pool: str, wanted: Slice) -> StateView:
    """Return ``view`` with nothing free of a flavor but the GPUs of ``wanted``, as far as they are.

    What is in the slice stays, so a start that was planned there is found there again.
    """
    state, asked = view.overlay(), dict(wanted.domains)
    for free, key in list(state.domains(pool, wanted.flavor).most_free(1)):
        if free > asked.get(key.domain, 0):
            withhold(state, key, free - asked.get(key.domain, 0))
    return state


def _short(room: int, least: int) -> int:
    """Return how much of ``room`` may not be used when only ``least`` is free all the while."""
    return max(0, room - max(0, least))


def _islands_short(
    view: StateView, outlook: Outlook, run: Run, from_ms: int, until_ms: int
) -> list[tuple[IslandKey, int]]:
    wanted = {
        IslandKey(plan.pool, plan.flavor, domain)
        for plan in outlook.plans
        if plan.pool == run.pool and plan.flavor in run.flavors
        for domain, _ in plan.domains
    }
    found = []
    for key in sorted(wanted):
        if key.domain not in view.domains(key.pool, key.flavor).numbers:
            continue
        gpus = _short(view.island(key).gpus_free, outlook.island(key).least(from_ms, until_ms))
        if gpus:
            found.append((key, gpus))
    return found


def cap_members(view: StateView, cap: CapId) -> list[EnvelopeId]:
    """Return the envelopes under ``cap``."""
    budget = cap.partition("/")[0]
    return [
        key
        for line in view.budgets[budget].envelopes
        if cap in view.envelopes[key := EnvelopeId(f"{budget}/{line.name}")].caps
    ]


def _cap_short(view: StateView, outlook: Outlook, cap: CapId, from_ms: int, until_ms: int) -> int:
    account = view.caps[cap]
    if account.spec.concurrency_max is None:
        return 0
    room = account.spec.concurrency_max - account.gpus_active - account.gpus_reserved
    return _short(room, outlook.cap(cap, cap_members(view, cap)).least(from_ms, until_ms))


def withhold(state: State, key: IslandKey, gpus: int) -> None:
    """Take ``gpus`` free slots of an island out of ``state``, the emptiest nodes first."""
    island = state.island(key)
    slots: list[tuple[str, int]] = []
    for count in range(len(island.buckets) - 1, 0, -1):
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


def backfills(  # noqa: PLR0913 - whose start, and beside which promises
    view: StateView,
    run: Run,
    admitted: Admitted,
    now_ms: int,
    actor: str,
    *,
    before_seq: int | None = None,
) -> Iterable[BackfillNoted]:
    """Yield the bundles of a start that are in front of a reservation, were they to run for ever.

    ``view`` is the state before the start. A run that was promised its start itself is in front of
    those promised before it only (``before_seq``): the others counted on it.
    """
    outlook = Outlook.of(view, now_ms, before_seq=before_seq)
    if not outlook.plans:
        return
    takes: dict[IslandKey, int] = {}
    for group in admitted.plan.groups:
        key = IslandKey(run.pool, admitted.flavor, group.domain)
        spares = sum(mask.bit_count() for _, mask in group.spare_slots)
        takes[key] = takes.get(key, 0) + group.gpus + spares
    paid = payer_levels(outlook, ((leg.payer, leg.tier, leg.gpus) for leg in admitted.legs))
    by_money = _first(level.first_below(gpus, now_ms) for level, gpus in paid)
    found: dict[int, int] = {}
    for group in admitted.plan.groups:
        key = IslandKey(run.pool, admitted.flavor, group.domain)
        at_ms = _first(
            (outlook.island(key).first_below(takes[key], now_ms), by_money, found.get(group.bundle))
        )
        if at_ms is not None:
            found[group.bundle] = at_ms
    for bundle, at_ms in sorted(found.items()):
        started = [plan for plan in outlook.plans if plan.start_ms <= at_ms]
        if not started:
            continue  # What comes back there is a filled spare, and nobody was promised a start.
        yield BackfillNoted(
            at_ms=now_ms,
            actor=actor,
            run=run.name,
            bundle=bundle,
            vacate_ms=at_ms,
            reservation=max(started, key=lambda plan: plan.start_ms).reservation,
        )


def payer_levels(
    outlook: Outlook, paid: Iterable[tuple[EnvelopeId, Tier, int]]
) -> Iterator[tuple[Level, int]]:
    """Yield every width of money that ``paid`` (payer, tier, GPUs) takes, and how much of it.

    That of the payers, of what they lend, and of the caps that they are under.
    """
    view = outlook.view
    takes: dict[tuple[EnvelopeId, bool], int] = {}
    under: dict[CapId, int] = {}
    for key, tier, gpus in paid:
        account = view.envelopes[key]
        takes[key, False] = takes.get((key, False), 0) + gpus
        if tier is Tier.BORROWED and account.spec.lending.concurrency_max is not None:
            takes[key, True] = takes.get((key, True), 0) + gpus
        for cap in account.caps:
            under[cap] = under.get(cap, 0) + gpus
    for (key, lent), gpus in takes.items():
        yield outlook.payer(key, lent=lent), gpus
    for cap, gpus in under.items():
        if view.caps[cap].spec.concurrency_max is not None:
            yield outlook.cap(cap, cap_members(view, cap)), gpus


def plan_levels(outlook: Outlook, plan: Plan) -> Iterator[tuple[Level, int]]:
    """Yield every level that ``plan`` counts on, of room and of money, and how much of it."""
    for domain, gpus in plan.domains:
        yield outlook.island(IslandKey(plan.pool, plan.flavor, domain)), gpus
    shares = ((share.payer, share.tier, share.gpus) for share in plan.payers)
    yield from payer_levels(outlook, shares)


def _first(instants: Iterable[int | None]) -> int | None:
    return min((at_ms for at_ms in instants if at_ms is not None), default=None)
