"""Grounds: on what a planned start depends, and the conflicts that may make room for it.

These are parts of a forecast (``start_plan.py``), computed from the state after all due changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from quorate.core.admission.domain_offer import DomainOffers
from quorate.core.admission.layout import pack_request
from quorate.core.admission.quota_holders import family_of, obstacles
from quorate.core.admission.target_slices import SlicePart, best_slice
from quorate.core.explain.explanation import without
from quorate.core.preemption.conflict_preview import Contest, foresee, foresee_declared
from quorate.core.preemption.conflict_scope import for_reservation
from quorate.core.preemption.disruption_rules import foresee_conflict, may_call
from quorate.core.preemption.lottery import DUMMY_DRAWS
from quorate.core.profile.firm_places import firm_profile
from quorate.core.profile.lease_ends import is_overdue
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.resource import Resource
from quorate.model.closed_words import Word
from quorate.model.events import Share, Slice
from quorate.model.refusal import Refusal
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.records import ReservationRecord, RunRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

DANGERS_MAX: Final = 8
"""How many conflicts that could end a running run are examined at most."""


class Confidence(Word):
    """How certain a planned start is."""

    CERTAIN = "certain"
    """The start waits for no running work whose end is only expected.

    The run starts now, when a window opens, or when a stop that has begun is complete.
    """
    EXPECTED = "expected"
    """The start depends on a conflict, or on runs that end within their expected duration."""
    ROUGH = "rough"
    """The start depends on overdue runs or on late stops, whose ends are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recourse:
    """Whether a run may call a conflict, and when the run would then start.

    ``why_not`` is the reason why the run may not call a conflict; it is empty if it may.
    ``lost_gpu_ms`` is the GPU time of other runs that the conflict may cost. ``covered_ms`` is when
    the disruption account of the run's owner will cover this cost; None if the run does not wait
    for the account.
    """

    start_ms: int | None = None
    why_not: str = ""
    lost_gpu_ms: int = 0
    covered_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """A conflict that could end a running run.

    ``reservation`` is the reservation for which the conflict makes room. The conflict is due at
    ``at_ms``. ``is_certain`` is true if the run is cut whatever tokens are drawn, as far as dummy
    draws show. ``odds`` is the probability that the run is drawn; None if it has no token. Of
    ``draws`` dummy draws, ``cut`` is the number of draws in which the run was cut.
    """

    conflict: str
    reservation: str
    at_ms: int
    is_certain: bool
    odds: Fraction | None
    cut: int
    draws: int


@dataclass(frozen=True, slots=True)
class Seen:
    """The state after all due changes, the instant, and whether there is an executor."""

    state: State
    now_ms: int
    has_executor: bool


def unpromised(seen: Seen, promise: ReservationRecord | None) -> State:
    """Return a state in which the reservation ``promise`` no longer keeps room and money."""
    if promise is None:
        return seen.state
    return without(seen.state, promise.made.reservation, seen.now_ms)


def planned(
    promise: ReservationRecord | None, natural: Entry | None
) -> tuple[int | None, Slice | None, tuple[Share, ...]]:
    """Return the start of ``promise``, else that of ``natural``, with its domains and payers."""
    if promise is not None and promise.planned_start_ms is not None:
        return promise.planned_start_ms, promise.slice, promise.payers
    if natural is not None:
        return natural.start_ms, natural.slice, natural.shares
    return None, None, ()


def least_short(view: StateView, run: Run) -> tuple[int, Slice | None]:
    """Return how many GPUs are missing now at least, and the domains in which they are missing."""
    pool, least = view.pools[run.pool], run.widths()[-1]
    found: tuple[int, Slice] | None = None
    for flavor in run.flavors:
        request = pack_request(run, pool, flavor, least)
        domain_offers = list(DomainOffers(view, request).most_free())
        parts: Sequence[SlicePart] = best_slice(request, domain_offers)[0] if domain_offers else ()
        deficit = sum(part.deficit for part in parts)
        if parts and (found is None or deficit < found[0]):
            domains = tuple((part.domain, part.wanted) for part in parts)
            found = deficit, Slice(flavor, request.gpus, domains)
    return (0, None) if found is None else found


# --- What a start depends on ----------------------------------------------------------------------


def waits_for(
    seen: Seen, run: Run, promise: ReservationRecord | None, natural: Entry | None
) -> Iterator[str]:
    """Yield the leases that have to end as expected so that a start is possible.

    A start needs the ends of leases in three cases: too few GPUs are free in its domains, its
    payers have too little concurrency left, or a hard quota leaves too little headroom. In the last
    case, leases of the tenant with this quota have to end. A start by a conflict waits for no
    lease.
    """
    start_ms, place, payers = planned(promise, natural)
    if start_ms is None or place is None or (promise is not None and promise.by_conflict):
        return
    state = unpromised(seen, promise)
    profile = firm_profile(state, seen.now_ms)
    names: dict[str, None] = {}
    for domain, gpus in place.domains:
        key = IslandKey(run.pool, place.flavor, domain)
        there = {name: end_ms for end_ms, _, name in profile.returns.island_ends(key)}
        names |= _counted_on(seen, profile.room(key), start_ms, gpus, there)
    for share in payers:
        theirs = {
            n: profile.returns.lease_end_ms(n) for n in state.payer_leases.get(share.payer, ())
        }
        names |= _counted_on(seen, profile.payer(share.payer), start_ms, share.gpus, theirs)
    for quota in obstacles(state, run, seen.now_ms).quotas:
        held = (n for o in family_of(state, quota.subject) for n in state.owner_leases.get(o, ()))
        names |= {name: None for name in held if profile.returns.lease_end_ms(name) <= start_ms}
    yield from names


def _counted_on(
    seen: Seen, resource: Resource, at_ms: int, gpus: int, ends_ms: Mapping[str, int]
) -> dict[str, None]:
    """Return the leases that have to end so that ``gpus`` are free at ``at_ms``.

    The result is empty if that many GPUs are free without any further end. If the leases that are
    expected to end by ``at_ms`` do not free enough GPUs, late leases are included, although they
    may be expected to end only after ``at_ms``.
    """
    free = resource.value(at_ms)
    if free - (resource.unplanned(at_ms) - resource.free_now) >= gpus:
        return {}
    return {
        name: None
        for name, end_ms in ends_ms.items()
        if end_ms <= at_ms or (free < gpus and _is_late(seen, name))
    }


def _is_late(seen: Seen, name: str) -> bool:
    """Return whether a lease's run is past its declared end, or the lease's stop is late."""
    lease = seen.state.leases[name]
    if lease.ending is not None:
        return seen.now_ms > lease.ending.deadline_ms
    return is_overdue(seen.state, seen.state.runs[lease.fact.run], seen.now_ms)


def overdue_runs(seen: Seen, leases: Sequence[str]) -> Iterator[str]:
    """Yield the runs of ``leases`` that are past their declared end, or whose stop is late."""
    late = (name for name in leases if _is_late(seen, name))
    yield from dict.fromkeys(seen.state.leases[name].fact.run for name in late)


def confidence_of(
    seen: Seen, promise: ReservationRecord | None, start_ms: int | None, leases: Sequence[str]
) -> Confidence | None:
    """Return how certain a start at ``start_ms`` is that depends on the ends of ``leases``."""
    if start_ms is None:
        return None
    if any(True for _ in overdue_runs(seen, leases)):
        return Confidence.ROUGH
    if promise is not None and promise.by_conflict:
        return Confidence.EXPECTED
    waits = any(seen.state.leases[name].ending is None for name in leases)
    return Confidence.EXPECTED if waits else Confidence.CERTAIN


def windows_closing(
    view: StateView, payers: Iterable[Share], end_ms: int
) -> tuple[tuple[EnvelopeId, int], ...]:
    """Return (payer, end of its window) for windows that end before ``end_ms``, earliest first."""
    closes_ms = {share.payer: view.envelopes[share.payer].spec.end_ms for share in payers}
    early = ((at_ms, payer) for payer, at_ms in closes_ms.items() if at_ms < end_ms)
    return tuple((payer, at_ms) for at_ms, payer in sorted(early))


# --- Room made by a conflict ----------------------------------------------------------------------


def recourse_of(
    seen: Seen, record: RunRecord, promise: ReservationRecord | None, natural: Entry | None
) -> Recourse | None:
    """Return whether the run may call a conflict, and when the run would start by it.

    Return None if the run needs no conflict. It needs none if it can start within a notice period
    anyway, or if a conflict already makes room for it.
    """
    state, now_ms = seen.state, seen.now_ms
    pool = state.pools[record.spec.pool]
    if promise is not None and (promise.by_conflict or promise.conflict):
        return Recourse(start_ms=promise.planned_start_ms) if promise.by_conflict else None
    first_ms = now_ms + pool.notice_ms
    if natural is None or natural.start_ms <= first_ms:
        return None
    refused = may_call(state, record, now_ms)
    if refused is not None:
        return Recourse(why_not=refused.text, covered_ms=refused.covered_ms)
    _, place = least_short(state, record.spec)
    if place is None:
        return None
    foreseen = foresee_conflict(
        state,
        record.spec,
        place,
        made_ms=now_ms if promise is None else promise.made.at_ms,
        now_ms=first_ms,
        has_executor=seen.has_executor,
        reservation="" if promise is None else promise.made.reservation,
    )
    if foreseen is None:
        return Recourse(why_not="ending all work that may be ended would not free enough GPUs")
    lost_gpu_ms, flavor = foreseen.lost_gpu_ms, foreseen.slice.flavor
    refused = may_call(state, record, now_ms, lost_gpu_ms=lost_gpu_ms, flavor=flavor)
    why_not = "" if refused is None else refused.text
    covered_ms = None if refused is None else refused.covered_ms
    if foreseen.short and state.lottery.next_index > state.lottery.length:
        why_not = "a lottery would be needed, and this ledger's lottery chain is used up"
        covered_ms = None
    elif foreseen.start_ms >= natural.start_ms:
        why_not = "it can start without a conflict before any run may be drawn"
        covered_ms = None
    return Recourse(
        start_ms=foreseen.start_ms,
        why_not=why_not,
        lost_gpu_ms=foreseen.lost_gpu_ms,
        covered_ms=covered_ms,
    )


def contest_for(
    seen: Seen, promise: ReservationRecord | None, *, draws: int = DUMMY_DRAWS
) -> Contest | Refusal | None:
    """Return the lottery of the conflict that makes room for ``promise``; None if there is none.

    ``draws`` dummy draws are made, to count how often each run is a victim. The odds do not depend
    on this number.
    """
    state = seen.state
    if promise is None:
        return None
    name = promise.made.reservation
    for key in state.open_conflicts:
        declared = state.conflicts[key].declared
        if declared.reservation == name:
            return foresee_declared(
                state, declared, seen.now_ms, has_executor=seen.has_executor, draws=draws
            )
    if not promise.by_conflict or promise.planned_start_ms is None:
        return None
    at_ms = max(promise.planned_start_ms, seen.now_ms)
    question = for_reservation(state, name)
    return foresee(state, question, at_ms, has_executor=seen.has_executor, draws=draws)


def dangers_of(seen: Seen, record: RunRecord) -> Iterator[Danger]:
    """Yield the conflicts that could end a running run, the earliest first."""
    state, run = seen.state, record.spec
    contests: list[tuple[int, str, Contest | Refusal | None]] = []
    for key in list(state.open_conflicts)[:DANGERS_MAX]:
        declared = state.conflicts[key].declared
        if declared.scope.pool == run.pool:
            contest = foresee_declared(state, declared, seen.now_ms, has_executor=seen.has_executor)
            contests.append((declared.due_ms, declared.reservation, contest))
    declared_for = {state.conflicts[key].declared.reservation for key in state.open_conflicts}
    for name, promise in state.reservations.items():
        if len(contests) >= DANGERS_MAX:
            break
        is_here = state.runs[promise.made.run].spec.pool == run.pool
        if promise.by_conflict and is_here and name not in declared_for:
            at_ms = max(promise.planned_start_ms or 0, seen.now_ms)
            contests.append((at_ms, name, contest_for(seen, promise)))
    for at_ms, reservation, contest in sorted(contests, key=lambda each: each[:2]):
        if isinstance(contest, Contest):
            yield from _danger(run.name, at_ms, reservation, contest)


def _danger(run: str, at_ms: int, reservation: str, contest: Contest) -> Iterator[Danger]:
    is_cut = any(cut.run == run for cut in contest.cuts)
    entrant = next((each for each in contest.entrants if each.run == run), None)
    if is_cut or entrant is not None:
        yield Danger(
            conflict=contest.conflict,
            reservation=reservation,
            at_ms=at_ms,
            is_certain=run in contest.sure,
            odds=None if entrant is None else entrant.odds,
            cut=0 if entrant is None else entrant.cut,
            draws=contest.draws,
        )
