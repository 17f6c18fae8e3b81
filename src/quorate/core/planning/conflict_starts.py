"""Plans starts by a conflict, and declares the conflict of a start that is due.

A start by a conflict is a firm start for which running work will be cut. Such a start is at least
one notice period from now. A run can get a start by a conflict under two conditions: the run's
owner may call conflicts, and without the conflict the run would start later. The conflict is
declared when the start is due. Once the conflict is settled, the start waits for the ends of the
cut leases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.admit import cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.admission.domain_offer import DomainOffers
from quorate.core.admission.layout import pack_request
from quorate.core.admission.payers import PayerList
from quorate.core.admission.target_slices import least_deficit
from quorate.core.decision_log import DecisionLog
from quorate.core.preemption.conflict_scope import for_reservation
from quorate.core.preemption.conflicts import declare_conflict
from quorate.core.preemption.disruption_account import note_deferral
from quorate.core.preemption.disruption_rules import (
    CallBar,
    CallRefusal,
    foresee_conflict,
    is_for_headroom,
    may_call,
)
from quorate.core.profile.firm_places import is_void, place_of
from quorate.core.profile.lease_ends import lease_end_ms
from quorate.core.profile.node_quota import counted
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.reservations import is_cleared
from quorate.model.events import (
    ConflictDeclared,
    MoveCause,
    MoveCode,
    Slice,
)
from quorate.model.selector import contradicts
from quorate.model.specs import Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.records import ReservationRecord, RunRecord
from quorate.model.state.state_view import StateView

PLACES_MAX: Final = 4
"""How many sets of domains of each flavor are examined for a conflict."""


def start_by_conflict(log: DecisionLog, record: RunRecord, natural_ms: int) -> Entry | None:
    """Return the start of a waiting run by a conflict, at least one notice period from now.

    ``natural_ms`` is the run's start without a conflict. Return None if no conflict gives a sooner
    start, or if the run's owner may not call a conflict.
    """
    view, run = log.view, record.spec
    pool = view.pools[run.pool]
    first_ms = log.now_ms + pool.notice_ms
    if natural_ms <= first_ms:
        return None
    refused = may_call(view, record, log.now_ms)
    if refused is not None:
        _note(log, run.name, refused)
        return None
    if view.lottery.next_index > view.lottery.length:
        return None  # The lottery's chain is used up, so no conflict can be declared.
    best: Entry | None = None
    best_ms = natural_ms
    deferred: CallRefusal | None = None
    # With an executor, the leases that are cut may take their grace to stop before the start.
    lead_ms = pool.grace_max_ms if log.has_executor else 0
    for place in _places(view, run, first_ms, has_executor=log.has_executor):
        found = foresee_conflict(
            view,
            run,
            place,
            made_ms=log.now_ms,
            now_ms=first_ms,
            has_executor=log.has_executor,
            reservation=record.reservation or "",
            if_short=True,  # Leases that stop without the conflict may leave enough room.
        )
        if found is None or found.start_ms + lead_ms >= best_ms:
            continue
        planned_ms = found.start_ms + lead_ms
        entry = counted(view, place_of(view, run, planned_ms, found.slice, found.shares))
        if is_void(view, entry):
            continue
        lost_gpu_ms, flavor = found.lost_gpu_ms, found.slice.flavor
        refused = may_call(view, record, log.now_ms, lost_gpu_ms=lost_gpu_ms, flavor=flavor)
        if refused is not None:
            deferred = _sooner(deferred, refused)
            continue
        best_ms, best = planned_ms, replace(entry, by_conflict=True, keeps=())
        if found.start_ms == first_ms:
            break  # No further domains give a sooner start.
    if best is None:
        _note(log, run.name, deferred)
    return best


def _note(log: DecisionLog, run: str, refused: CallRefusal | None) -> None:
    """Write that ``run`` waits for its owner's disruption account, if ``refused`` says so."""
    if refused is not None and refused.account is not None:
        note_deferral(log, run, refused.account, refused.costs_gpu_ms)


def _sooner(one: CallRefusal | None, other: CallRefusal) -> CallRefusal | None:
    """Return the refusal whose cost the owner's disruption account will cover sooner.

    The cost is the lost work that the refused conflict would cause. Return None if the account will
    never cover either cost.
    """
    found = [each for each in (one, other) if each is not None and each.covered_ms is not None]
    return min(found, key=lambda each: each.covered_ms or 0, default=None)


def _places(view: StateView, run: Run, at_ms: int, *, has_executor: bool) -> Iterator[Slice]:
    """Yield sets of domains where a conflict could make room, with the fewest missing GPUs first.

    No two of these sets have a common domain. Flavors whose payers cannot pay at ``at_ms`` are left
    out, because a conflict frees GPUs but no money.
    """
    for flavor in run.flavors:
        cover = cover_request(view, run, flavor, at_ms, has_executor=has_executor)
        payer_list = PayerList(view, cover, payer_phases(view, cover)[-1])
        if not payer_list.pays_anywhere(run.widths()[-1]):
            continue
        tried: set[str] = set()
        for _ in range(PLACES_MAX):
            place = _least_short(view, run, flavor, at_ms, tried)
            if place is None:
                break
            yield place
            tried.update(domain for domain, _ in place.domains)


def _least_short(
    view: StateView, run: Run, flavor: str, at_ms: int, tried: Collection[str]
) -> Slice | None:
    """Return the domains that lack the fewest GPUs for ``run`` at its least width, and have payers.

    Domains in ``tried`` are left out. Return None if no domains with payers are left.
    """
    request = pack_request(run, view.pools[run.pool], flavor, run.widths()[-1])
    payers = payer_phases(view, cover_request(view, run, flavor, at_ms))[-1]
    lines = {view.envelopes[key].spec.selector for key, _ in payers}
    domain_offers = [
        domain_offer
        for domain_offer in DomainOffers(view, request).most_free()
        if domain_offer.domain not in tried
        and any(not contradicts(line, domain_offer.island.labels) for line in lines)
    ]
    parts = least_deficit(request, domain_offers)
    if parts is None:
        return None
    return Slice(flavor, request.gpus, tuple((part.domain, part.wanted) for part in parts))


def look_ms(view: StateView, record: ReservationRecord, *, has_executor: bool) -> int | None:
    """Return when a reservation has to be examined: at its planned start, or earlier.

    With an executor, leases that are cut for a start by a conflict may take their grace to stop. So
    the reservation is examined earlier than its planned start, by the longest grace of its pool.
    Once these leases are cut, their room is kept for the start, so the reservation is examined only
    at its planned start.
    """
    planned_ms = record.planned_start_ms
    if planned_ms is None or not record.by_conflict or not has_executor:
        return planned_ms
    if is_cleared(view, record):
        return planned_ms
    return planned_ms - view.pools[view.runs[record.made.run].spec.pool].grace_max_ms


_BARS: Final = {
    CallBar.HEADROOM: MoveCode.CONFLICT_NO_HEADROOM,
    CallBar.THREW_AWAY: MoveCode.CONFLICT_BARRED,
    CallBar.COOL_DOWN: MoveCode.CONFLICT_COOL_DOWN,
    CallBar.UNSTARTED: MoveCode.CONFLICT_UNSTARTED,
    CallBar.NO_CONFLICTS: MoveCode.CONFLICT_RATE_ZERO,
    CallBar.ACCOUNT: MoveCode.CONFLICT_NOT_COVERED,
    CallBar.SOFT_QUOTA: MoveCode.CONFLICT_SOFT_QUOTA,
}


def call_conflict(log: DecisionLog, record: ReservationRecord) -> MoveCause | None:
    """Declare the conflict of a due reservation, or return the cause why it cannot be declared.

    Return None if the conflict is declared now or already open. Return None, too, if another due
    conflict has to be drawn first. Conflicts are drawn one after the other: each takes the next
    link of the lottery's chain, and is charged to the owner that calls it.
    """
    view, name = log.view, record.made.reservation
    for key in view.open_conflicts:
        declared = view.conflicts[key].declared
        if declared.reservation == name or (declared.tokens and declared.due_ms <= log.now_ms):
            return None
    run = view.runs[record.made.run]
    foreseen = foresee_conflict(
        view,
        run.spec,
        record.slice,
        made_ms=record.made.at_ms,
        now_ms=log.now_ms,
        has_executor=log.has_executor,
        reservation=name,
        is_firm=True,
    )
    if foreseen is None or foreseen.start_ms > log.now_ms:
        code = MoveCode.CONFLICT_NO_ROOM
        if _waits_for_headroom(log, record):
            code = MoveCode.CONFLICT_NO_HEADROOM
        return _called_off(code, run.spec, record.slice)
    lost_gpu_ms, flavor = foreseen.lost_gpu_ms, record.slice.flavor
    refused = may_call(view, run, log.now_ms, lost_gpu_ms=lost_gpu_ms, flavor=flavor)
    if refused is not None:
        return _called_off(_BARS[refused.bar], run.spec, record.slice)
    answer = declare_conflict(log, for_reservation(view, name))
    if isinstance(answer, ConflictDeclared):
        return None
    code = MoveCode.CONFLICT_NOT_NEEDED
    if answer is not None:
        is_used_up = view.lottery.next_index > view.lottery.length
        code = MoveCode.CONFLICT_NO_LOTTERY if is_used_up else MoveCode.CONFLICT_NO_ROOM
    return _called_off(code, run.spec, record.slice)


def _called_off(code: MoveCode, run: Run, place: Slice) -> MoveCause:
    """Return a cause with ``code`` and the objects concerned, for a conflict that is not called."""
    owner, pool = ("owner", run.owner), ("pool", run.pool)
    match code:
        case (
            MoveCode.CONFLICT_NO_HEADROOM | MoveCode.CONFLICT_BARRED | MoveCode.CONFLICT_SOFT_QUOTA
        ):
            return MoveCause(code, (owner,))
        case MoveCode.CONFLICT_COOL_DOWN | MoveCode.CONFLICT_UNSTARTED:
            return MoveCause(code, (("run", run.name),))
        case MoveCode.CONFLICT_RATE_ZERO:
            return MoveCause(code, (pool,))
        case MoveCode.CONFLICT_NOT_COVERED:
            return MoveCause(code, (owner, pool))
        case MoveCode.CONFLICT_NO_ROOM:
            return MoveCause(code, tuple(("domain", domain) for domain, _ in place.domains))
        case _:
            return MoveCause(code)


def _waits_for_headroom(log: DecisionLog, record: ReservationRecord) -> bool:
    """Return whether a hard quota of the run's owner keeps a reservation from starting."""
    view = log.view
    return is_for_headroom(
        view,
        view.runs[record.made.run].spec,
        record.slice,
        now_ms=log.now_ms,
        has_executor=log.has_executor,
        reservation=record.made.reservation,
    )


def goes_first(view: StateView, record: ReservationRecord, now_ms: int) -> bool:
    """Return whether a firm start is tried before the queue, because a conflict made room for it.

    When the leases that were cut for the start have ended, the start is tried first, even if its
    planned instant is later. Otherwise a run that was cut could take the room back, and be drawn
    again.
    """
    if not record.by_conflict or not record.conflict or record.planned_start_ms is None:
        return False
    if record.planned_start_ms <= now_ms:
        return True
    return is_cleared(view, record) and cleared_ms(view, record, now_ms) is None


def cleared_ms(view: StateView, record: ReservationRecord, now_ms: int) -> int | None:
    """Return when the last lease that was cut for a reservation is expected to end.

    Return None if no lease was cut for the reservation, or if all cut leases have ended.
    """
    ends = (lease_end_ms(view, view.leases[n], now_ms) for n in clearing_leases(view, record))
    return max(ends, default=None)


def clearing_leases(view: StateView, record: ReservationRecord) -> frozenset[str]:
    """Return the open leases whose ends a start by a conflict still waits for.

    These are the leases that were cut for the reservation, and the leases in its domains that were
    already stopping when the conflict was resolved. If all cut leases have ended, the result is
    empty.
    """
    if not record.conflict:
        return frozenset()
    resolved = view.conflicts[record.conflict].resolved
    assert resolved is not None, record
    cut = [name for each in resolved.cuts for name in each.leases if name in view.leases]
    if not cut:
        return frozenset()
    # When the conflict was resolved, leases that were stopping in the reservation's domains were
    # treated as ended. They may end later than the cut leases. Leases that were stopped later do
    # not matter: the start does not need their GPUs.
    pool, flavor = view.runs[record.made.run].spec.pool, record.slice.flavor
    known = view.domains(pool, flavor).numbers
    beside = (
        name
        for domain, _ in record.slice.domains
        if domain in known
        for node in view.island(IslandKey(pool, flavor, domain)).nodes
        for name in view.node_leases.get(node.name, ())
    )
    return frozenset(
        name
        for name in (*cut, *beside)
        if (ending := view.leases[name].ending) is not None and ending.at_ms <= resolved.at_ms
    )
