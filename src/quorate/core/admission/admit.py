"""Admit: find a placement for one run, and the payers for that placement.

The search tries the largest width first. For each width, it first tries only payers of the owner's
family, and then sponsors as well. For each set of payers, it tries the flavors in the run's order,
and for each flavor the placements in pack order. The result is the first placement that fits and
that the payers can pay for. If such a placement exists, the search finds one, as long as it does
not reach its limit of steps. See docs/adr/0008-admission.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from quorate.core.admission.cover import payer_phases
from quorate.core.admission.cover_search import pay
from quorate.core.admission.domain_offer import DomainOffer, DomainOffers
from quorate.core.admission.hard_quota import Headroom, too_many_runs
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.admission.layout import Bundle, PackRequest, pack_request
from quorate.core.admission.pack import PackPlan, pick_slots
from quorate.core.admission.payers import (
    CoverRequest,
    Demand,
    Leg,
    PayerList,
    Place,
    family_of,
    names_racks,
)
from quorate.core.admission.payment_check import PaymentCheck
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.shortfall import explain_uncovered
from quorate.core.admission.spread import Spread, demands_of, spreads
from quorate.core.admission.target_slices import best_slice, is_enough, no_placement
from quorate.model.events import Tier
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import CLUSTER, DOMAIN, REGION, Selector, matches, selector_of
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.durations import grace_ms
from quorate.model.state.reads.money_reads import Payers
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView


class Admitted(Struct, frozen=True):
    """The placement with which a run can start, and the payers for this placement."""

    width: int
    flavor: str
    plan: PackPlan
    demands: Sequence[Demand]
    legs: Sequence[Leg]


class _Attempt(Struct):
    """The attempt to start at one flavor and width: the request, its first placement, and payers.

    ``over_quota`` is a refusal by a node quota. It is set if such a quota ruled out a placement
    that could be paid.
    """

    request: PackRequest
    domain_offers: DomainOffers
    first: Spread | None
    cover: CoverRequest
    phases: tuple[Payers, ...]
    headroom: Headroom | None
    over_quota: Refusal | None = None


class _Held(NamedTuple):
    """A search that found no start: its attempts at the least width, and the search budget."""

    attempts: Sequence[_Attempt]
    steps: SearchBudget


def admit(  # noqa: PLR0913 - a search needs all of these arguments
    view: StateView,
    run: Run,
    now_ms: int,
    *,
    has_executor: bool = False,
    asked_ms: int | None = None,
    steps: SearchBudget | None = None,
    width: int | None = None,
    barred: frozenset[EnvelopeId] = frozenset(),
) -> Admitted | Refusal:
    """Return how ``run`` starts at ``now_ms``, or the refusal for its least width.

    ``now_ms`` is the instant of the start. ``asked_ms`` is the instant at which the start is
    planned, if that instant is earlier. ``steps`` is a search budget that several calls may share.
    Without ``steps``, the search at the least width has a full search budget, and the search at all
    larger widths has another one. If ``width`` is given, no other width is tried. Envelopes in
    ``barred`` do not pay.
    """
    covers = [
        cover_request(view, run, flavor, now_ms, has_executor=has_executor, asked_ms=asked_ms)
        for flavor in run.flavors
    ]
    if barred:
        covers = [replace(cover, barred=barred) for cover in covers]
    found = _searched(view, run, covers, steps, run.widths() if width is None else (width,))
    return _refusal(view, *found) if isinstance(found, _Held) else found


def try_admit(
    view: StateView, run: Run, now_ms: int, *, has_executor: bool, steps: SearchBudget
) -> Admitted | Refusal | None:
    """Return how ``run`` starts at ``now_ms``, or the refusal by a hard quota or the search limit.

    Returns None if room or money is short. Computing how much is missing would take as long as
    searching for a start.
    """
    covers = [
        cover_request(view, run, flavor, now_ms, has_executor=has_executor)
        for flavor in run.flavors
    ]
    found = _searched(view, run, covers, steps, run.widths())
    if not isinstance(found, _Held):
        return found
    if steps.exhausted or any(attempt.over_quota is not None for attempt in found.attempts):
        return _refusal(view, *found)
    return None


def _searched(
    view: StateView,
    run: Run,
    covers: Sequence[CoverRequest],
    shared: SearchBudget | None,
    widths: Sequence[int],
) -> Admitted | Refusal | _Held:
    """Return how ``run`` starts at the first of ``widths`` that fits, or the failed attempts."""
    refusal = None if run.sensitive else too_many_runs(view, run.owner)
    if refusal is not None:
        return refusal
    *wider, least = widths
    steps = SearchBudget() if shared is None else shared
    free = [view.domains(run.pool, cover.flavor).gpus_free for cover in covers] if wider else []
    for wide in wider:
        # A run with many widths and flavors usually waits for GPUs, so flavors with too few free
        # GPUs are skipped.
        able = [cover for cover, gpus in zip(covers, free, strict=True) if gpus >= wide]
        if not able:
            continue
        admitted = _at_width(view, [_attempt(view, run, c, wide, steps) for c in able], steps)
        if admitted is not None:
            return admitted
        if steps.exhausted:
            break
    # The least width gets a full search budget, even if the search at larger widths used up its
    # budget.
    steps = SearchBudget() if shared is None else shared
    attempts = [_attempt(view, run, cover, least, steps) for cover in covers]
    return _at_width(view, attempts, steps) or _Held(attempts, steps)


def admit_round(  # noqa: PLR0913 - a search needs all of these arguments
    view: StateView,
    run: Run,
    flavor: str,
    now_ms: int,
    *,
    begins: int,
    has_executor: bool,
    prefer: frozenset[str],
    within: tuple[tuple[str, int], ...] = (),
) -> Admitted | Refusal:
    """Return how ``run`` gets GPUs of ``flavor`` for a round, or the refusal.

    ``begins`` is how many runs get GPUs for the first time with this start. Domains in ``prefer``
    come first. If ``within`` is given, the run gets GPUs only on the nodes that ``within`` names.
    """
    refusal = too_many_runs(view, run.owner, begins) if begins else None
    if refusal is not None:
        return refusal
    cover, steps = (
        cover_request(view, run, flavor, now_ms, has_executor=has_executor),
        SearchBudget(),
    )
    request = pack_request(run, view.pools[run.pool], flavor, run.gpus)
    request = replace(request, prefer=prefer, within=within)
    attempts = [_attempt_at(view, request, cover, steps)]
    return _at_width(view, attempts, steps) or _refusal(view, attempts, steps)


def _at_width(
    view: StateView, attempts: Sequence[_Attempt], steps: SearchBudget
) -> Admitted | None:
    """Return the first placement that can be paid for.

    The search first tries each flavor, in order, with the family's envelopes. Then it tries each
    flavor again, with the sponsors' envelopes as well.
    """
    for phase in range(max(len(attempt.phases) for attempt in attempts)):
        for attempt in attempts:
            if phase < len(attempt.phases):
                found = _place_and_pay(view, attempt, attempt.phases[phase], steps)
                if found is not None:
                    return found
    return None


def admit_bundles(
    view: StateView,
    record: RunRecord,
    bundles: tuple[Bundle, ...],
    now_ms: int,
    *,
    has_executor: bool,
) -> Admitted | None:
    """Return how a running run gets the additional ``bundles``, or None if it cannot get them.

    The new bundles have the run's present flavor. Domains that the run uses already come first. If
    the run may not be spread over domains, the new bundles are placed in its present domain.
    """
    run, steps = record.spec, SearchBudget()
    leases = [view.leases[name] for name in record.leases]
    nodes = [view.nodes[node].spec for lease in leases for node, _ in lease.fact.slots]
    cover = cover_request(
        view, run, nodes[0].flavor, now_ms, leases=leases, has_executor=has_executor
    )
    request = replace(
        pack_request(run, view.pools[run.pool], cover.flavor, run.gpus),
        bundles=bundles,
        prefer=frozenset(node.domain_key for node in nodes),
    )
    if not run.cross_group_spread:
        home = {REGION: nodes[0].region, CLUSTER: nodes[0].cluster, DOMAIN: nodes[0].domain}
        request = replace(request, selector=selector_of(dict(run.selector) | home))
    attempt = _attempt_at(view, request, cover, steps)
    for payers in attempt.phases:
        admitted = _place_and_pay(view, attempt, payers, steps)
        if admitted is not None:
            first = 1 + max(int(lease.fact.comp_path.partition("/")[2]) for lease in leases)
            groups = tuple(replace(g, index=first + g.index) for g in admitted.plan.groups)
            return replace(admitted, plan=PackPlan(groups))
    return None


def cover_request(  # noqa: PLR0913 - a request needs all of these arguments
    view: StateView,
    run: Run,
    flavor: str,
    now_ms: int,
    *,
    leases: Iterable[Lease] = (),
    has_executor: bool = False,
    asked_ms: int | None = None,
) -> CoverRequest:
    """Return the request for payers, for a start of ``run`` at ``now_ms``.

    ``leases`` are the leases that the run has already, and keeps. Under an executor, a lease has to
    stop one grace period before its money ends. So a payer's window must stay open for longer than
    the grace period. The payer of a claim must be able to pay until the claim's end.
    """
    pool = view.pools[run.pool]
    duration_ms = hold_duration_ms(run, pool)
    outlast_ms = now_ms + (grace_ms(run, pool) if has_executor else 0)
    if run.sensitive:
        outlast_ms = now_ms + duration_ms - 1
    left = run.funding.borrow_gpus_max
    if left is not None:
        left -= sum(lease.gpus for lease in leases if lease.fact.tier is Tier.BORROWED)
    return CoverRequest(
        owner=run.owner,
        flavor=flavor,
        now_ms=now_ms,
        duration_ms=duration_ms,
        allow_borrow=run.funding.allow_borrow,
        borrow_gpus_left=left,
        sponsors=run.funding.sponsors,
        outlast_ms=outlast_ms,
        asked_ms=asked_ms,
        own_only=run.sensitive,
    )


def _attempt(
    view: StateView, run: Run, cover: CoverRequest, width: int, steps: SearchBudget
) -> _Attempt:
    request = pack_request(run, view.pools[run.pool], cover.flavor, width)
    return _attempt_at(view, request, cover, steps)


def _attempt_at(
    view: StateView, request: PackRequest, cover: CoverRequest, steps: SearchBudget
) -> _Attempt:
    phases = payer_phases(view, cover)
    sponsors = phases[-1][len(phases[0]) :]
    by_rack = family_of(view, cover.owner, cover.flavor).by_rack or names_racks(view, sponsors)
    domain_offers = DomainOffers(view, request, by_rack=by_rack)
    first = next(spreads(domain_offers, None, steps), None)
    return _Attempt(request, domain_offers, first, cover, phases, Headroom.of(view, cover.owner))


def _place_and_pay(
    view: StateView, attempt: _Attempt, payers: Payers, steps: SearchBudget
) -> Admitted | None:
    """Return the first placement in pack order that ``payers`` pay for."""
    if attempt.first is None:
        return None
    payer_list = PayerList(view, attempt.cover, payers)
    demands = demands_of(attempt.first)
    legs = pay(payer_list, demands, steps)
    if legs is not None:
        admitted = _admitted(attempt, attempt.first, demands, legs)
        if admitted is not None:
            return admitted
        payer_list.reset()
    gpus = sum(gpus for _, gpus in demands)
    if not payer_list.pays_anywhere(gpus) or _too_many_nodes(attempt):
        return None
    return _search(attempt, payer_list, steps)


def _too_many_nodes(attempt: _Attempt) -> bool:
    """Return whether the run exceeds a node limit, whatever nodes the search chooses.

    In this case the run cannot start. The result is False until a placement with payers has
    exceeded a limit.
    """
    if attempt.headroom is None or attempt.over_quota is None:
        return False
    islands = [domain_offer.island for domain_offer in attempt.domain_offers.most_free()]
    return attempt.headroom.refuses_wherever(islands, attempt.request.gpus) is not None


def _search(attempt: _Attempt, payer_list: PayerList, steps: SearchBudget) -> Admitted | None:
    """Return the first placement that can be paid for, in pack order.

    The caller has already tried the first placement without success. Once the payers cannot pay for
    a placement, the search skips placements that need the same numbers of GPUs from the same
    payers.
    """
    refused: set[tuple[object, ...]] = set()
    check = PaymentCheck(payer_list)
    for spread in spreads(attempt.domain_offers, check.could_pay, steps):
        demands = demands_of(spread)
        bill = tuple(
            (
                tuple(key for key, _ in payer_list.payers if payer_list.pays_at(key, place.labels)),
                gpus,
            )
            for place, gpus in demands
        )
        if bill in refused:
            continue
        legs = pay(payer_list, demands, steps)
        if legs is None:
            refused.add(bill)
            continue
        is_first_over = attempt.over_quota is None
        admitted = _admitted(attempt, spread, demands, legs)
        if admitted is not None:
            return admitted
        payer_list.reset()
        if is_first_over and _too_many_nodes(attempt):
            return None
    return None


def _admitted(
    attempt: _Attempt, spread: Spread, demands: Sequence[Demand], legs: Sequence[Leg]
) -> Admitted | None:
    """Return the placement with its slots and payers; None if it exceeds a node quota of the owner.

    Slots are first picked by the pool's placement rule. If the result exceeds a quota, slots are
    picked again, on as few new nodes as possible. If the second result exceeds a quota, too, slots
    are picked a third time. The third attempt prefers the nodes that the owner's present work uses
    at least until the new run ends.
    """
    plan, headroom = pick_slots(spread, attempt.request), attempt.headroom
    if headroom is not None and headroom.refuses(plan.nodes) is not None:
        plan = pick_slots(spread, attempt.request, headroom.kept)
        refusal = headroom.refuses(plan.nodes)
        if refusal is not None and headroom.view.holdings.kept_on:
            plan = pick_slots(spread, attempt.request, headroom.outlasting)
            refusal = headroom.refuses(plan.nodes)
        if refusal is not None:
            last_refusal = attempt.over_quota
            if last_refusal is None or refusal.short < last_refusal.short:
                attempt.over_quota = refusal
            return None
    return Admitted(plan.gpus, attempt.request.flavor, plan, demands, legs)


def _refusal(view: StateView, attempts: Sequence[_Attempt], steps: SearchBudget) -> Refusal:
    """Return the refusal with the least shortage.

    If a node quota ruled out a placement that could be paid, the result is a refusal by such a
    quota.
    """
    over = [attempt.over_quota for attempt in attempts if attempt.over_quota is not None]
    if over:
        return min(over, key=lambda found: found.short)
    return min(
        (_refusal_of(view, attempt, steps) for attempt in attempts),
        key=lambda found: max(found.short, 0 if found.also is None else found.also.short),
    )


def _refusal_of(view: StateView, attempt: _Attempt, steps: SearchBudget) -> Refusal:
    """Return why the run cannot start on the flavor of one attempt."""
    request = attempt.request
    if steps.exhausted:
        return Refusal(code=RefusalCode.SEARCH_LIMIT, wanted=request.gpus)
    payer_list = PayerList(view, attempt.cover, attempt.phases[-1])
    lines = {view.envelopes[key].spec.selector for key, _ in payer_list.payers}
    served, places, is_any = list[DomainOffer](), dict[str, Place](), False
    for domain_offer in attempt.domain_offers.most_free():
        is_any = True
        place = _paid_place(lines, domain_offer)
        if place is not None:
            served.append(domain_offer)
            places[domain_offer.domain] = place
            if is_enough(request, served):
                break
    if not is_any:
        return no_placement(request, served)
    if not served:
        return Refusal(
            code=RefusalCode.NO_ENVELOPE,
            subject=attempt.cover.owner,
            wanted=request.gpus,
            short=request.gpus,
        )
    return _least_short(payer_list, attempt, served, places, steps)


def _least_short(
    payer_list: PayerList,
    attempt: _Attempt,
    served: Sequence[DomainOffer],
    places: Mapping[str, Place],
    steps: SearchBudget,
) -> Refusal:
    """Return a refusal for lack of money, or one for lack of room if only room is lacking.

    If both money and room are lacking, the refusal for lack of room is in ``also``. ``served`` are
    the domains in which some envelope may pay for this run; the run cannot use room in other
    domains. ``best_slice`` chooses the domains of ``served`` that the run would use, and the
    shortage is computed for these domains. ``places`` has, for each domain, the place that an
    envelope pays for.
    """
    parts, _ = best_slice(attempt.request, served)
    demands = [(places[part.domain], part.wanted) for part in parts]
    no_room = no_placement(attempt.request, served)
    lacks_room = any(part.deficit for part in parts)
    if pay(payer_list, demands, steps) is None:
        unpaid = explain_uncovered(payer_list, demands, steps)
        return replace(unpaid, also=no_room if lacks_room else None)
    if lacks_room and attempt.first is not None:
        return replace(no_room, code=RefusalCode.FUNDS_ELSEWHERE, subject=attempt.cover.owner)
    return no_room


def _paid_place(lines: Iterable[Selector], domain_offer: DomainOffer) -> Place | None:
    """Return the first place of ``domain_offer`` that one of the selectors in ``lines`` matches."""
    for node_class in domain_offer.node_classes:
        if any(matches(line, node_class.place.labels) for line in lines):
            return node_class.place
    return None
