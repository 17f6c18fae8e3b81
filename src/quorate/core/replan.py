"""Replanning: a promised start moves earlier when it can, and later only with a recorded cause.

What was promised later gives way to what was promised before, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quorate.core.activate import in_order, is_due, look_ms, try_reserved, without_hold
from quorate.core.conflicts import declare_conflict
from quorate.core.disruption import NO_HEADROOM, foresee_conflict, is_for_headroom, may_call
from quorate.core.expected import is_overdue
from quorate.core.forecast import Found, find_start
from quorate.core.holds import expected_ms
from quorate.core.intent import Intent, with_conflict
from quorate.core.outlook import Outlook, plan_of
from quorate.core.promises import plan_levels
from quorate.core.question import for_reservation
from quorate.core.quota import HARD, waiting
from quorate.core.scribe import Scribe
from quorate.model.events import ConflictDeclared, ReservationMoved, ReservationStatus
from quorate.model.island import IslandKey
from quorate.model.records import Phase, ReservationRecord
from quorate.model.refusal import Refusal, sentence
from quorate.model.view import StateView

_NAMED_MAX: Final = 3


def replan(scribe: Scribe, *, changed: bool) -> None:
    """Give every reservation that is due and has not started another start, and say why.

    Where something changed, those without a start are looked at again too, and a few of the others
    may come sooner: not always the same ones, or the first could keep all others from it.
    """
    for name, record in in_order(scribe.view):
        if is_due(record, scribe.now_ms):
            # Before anybody else moves: they are planned around it.
            _wait_for_cuts(scribe, scribe.view.reservations[name])
    hastened = _hastened(scribe) if changed else set()
    for name, _ in in_order(scribe.view):
        record = scribe.view.reservations[name]
        is_blocked = record.planned_start_ms is None
        look = look_ms(scribe.view, record, has_executor=scribe.has_executor)
        is_asked = look is not None and look <= scribe.now_ms
        lacking = _make_room(scribe, record) if is_asked else ""
        if lacking is None:
            continue
        if is_asked or (changed and is_blocked):
            _defer(scribe, scribe.view.reservations[name], lacking)
        elif name in hastened and record.status is not ReservationStatus.CLEARING:
            # One for which room is being made has its start: asking anew would only put it off.
            _hasten(scribe, record)


def _hastened(scribe: Scribe) -> set[str]:
    """Return the reservations that are looked at for an earlier start in this decision."""
    names = [name for name, _ in in_order(scribe.view)]
    if not names:
        return set()
    # The first, and another one each time; whose turn it is follows from the ledger alone.
    return {names[0], names[scribe.view.seq % len(names)]}


def _find(
    scribe: Scribe,
    record: ReservationRecord,
    *,
    before_seq: int | None = None,
    not_before_ms: int = 0,
    after_ms: int | None = None,
) -> Found | None:
    """Return the next start of a reservation; those made from ``before_seq`` on give way."""
    name = record.made.reservation
    return find_start(
        without_hold(scribe, name),
        scribe.view.runs[record.made.run].spec,
        scribe.now_ms,
        exempt=name,
        before_seq=before_seq,
        own_seq=record.seq,
        not_before_ms=not_before_ms,
        after_ms=after_ms,
        has_executor=scribe.has_executor,
    )


def _make_room(scribe: Scribe, record: ReservationRecord) -> str | None:
    """Have room made for a reservation that is due, if it may; return why not, None where it is.

    An empty text where it does not count on that.
    """
    view, name = scribe.view, record.made.reservation
    if any(view.conflicts[key].declared.reservation == name for key in view.open_conflicts):
        return None
    going = _going_ms(view, record)
    if not record.by_conflict or going is not None:
        return ""
    if any(
        view.conflicts[key].declared.tokens and view.conflicts[key].declared.due_ms <= scribe.now_ms
        for key in view.open_conflicts
    ):
        return None  # One lottery after the other: each takes the next link and has its cost.
    return _call_conflict(scribe, record)


def _call_conflict(scribe: Scribe, record: ReservationRecord) -> str | None:
    """Declare the conflict that a reservation counts on; return why not, None where it is."""
    view, name = scribe.view, record.made.reservation
    run = view.runs[record.made.run]
    foreseen = foresee_conflict(
        view,
        run.spec,
        record.slice,
        made_ms=record.made.at_ms,
        now_ms=scribe.now_ms,
        has_executor=scribe.has_executor,
        reservation=name,
        before_seq=record.seq,
    )
    if foreseen is None or foreseen.start_ms > scribe.now_ms:
        return _why_no_room(scribe, record)
    lost_gpu_ms, flavor = foreseen.lost_gpu_ms, record.slice.flavor
    refused = may_call(view, run, scribe.now_ms, lost_gpu_ms=lost_gpu_ms, flavor=flavor)
    if refused is not None:
        return refused.text
    answer = declare_conflict(scribe, for_reservation(view, name))
    if isinstance(answer, ConflictDeclared):
        return None
    return "none is needed" if answer is None else sentence(answer)


def _why_no_room(scribe: Scribe, record: ReservationRecord) -> str:
    """Return why no conflict starts a reservation now: no promise is one of headroom."""
    view = scribe.view
    if is_for_headroom(
        view,
        view.runs[record.made.run].spec,
        record.slice,
        now_ms=scribe.now_ms,
        has_executor=scribe.has_executor,
        reservation=record.made.reservation,
        before_seq=record.seq,
    ):
        return NO_HEADROOM
    return "none would make room now"


def _wait_for_cuts(scribe: Scribe, record: ReservationRecord) -> None:
    """Time a start by what was cut for it: with an executor that takes its grace to go."""
    going_ms = _going_ms(scribe.view, record)
    if going_ms is None or going_ms <= scribe.now_ms:
        return
    natural = Found(going_ms, record.slice, record.payers)
    place = Intent(natural, going_ms, record.slice, by_conflict=True)
    before = _fitting(scribe, _touched(scribe, record, place))
    cause = f"conflict {record.conflict} makes room for it"
    _move(scribe, record, place, ReservationStatus.CLEARING, cause)
    _push_later(scribe, record, before)


def _going_ms(view: StateView, record: ReservationRecord) -> int | None:
    """Return when the last lease that was cut for a reservation has to be gone."""
    if not record.conflict:
        return None
    resolved = view.conflicts[record.conflict].resolved
    assert resolved is not None, record
    cut = [name for each in resolved.cuts for name in each.leases if name in view.leases]
    if not cut:
        return None
    # What was going there anyway counted as room, and may have longer.
    pool, flavor = view.runs[record.made.run].spec.pool, record.slice.flavor
    known = view.domains(pool, flavor).numbers
    beside = (
        name
        for domain, _ in record.slice.domains
        if domain in known
        for node in view.island(IslandKey(pool, flavor, domain)).nodes
        for name in view.node_leases.get(node.name, ())
    )
    endings = (view.leases[name].ending for name in {*cut, *beside})
    return max((ending.deadline_ms for ending in endings if ending is not None), default=None)


def _is_cleared(view: StateView, record: ReservationRecord, asking: ReservationRecord) -> bool:
    """Return whether room is being made for ``record`` in the pool of ``asking``, another one."""
    pools = {view.runs[each.made.run].spec.pool for each in (record, asking)}
    if record.seq == asking.seq or len(pools) > 1:
        return False
    name = record.made.reservation
    is_open = any(view.conflicts[key].declared.reservation == name for key in view.open_conflicts)
    return is_open or _going_ms(view, record) is not None


def _hasten(scribe: Scribe, record: ReservationRecord) -> None:
    """Move a reservation to an earlier start, if there is one now that delays nobody."""
    found = _find(scribe, record)
    planned_ms = record.planned_start_ms
    if found is None or planned_ms is None:
        return
    others = scribe.view.reservations.values()
    intent = _intent(scribe, record, found, goes_first=False)
    if intent.by_conflict and any(_is_cleared(scribe.view, other, record) for other in others):
        return  # Room is being made for another, and is not to be taken from it.
    if intent.by_conflict and _puts_off(scribe, record, intent):
        intent = Intent(found, found.start_ms, found.slice, by_conflict=False)
    if intent.start_ms < planned_ms and (
        intent.by_conflict or not _puts_off(scribe, record, intent)
    ):
        why = "it may ask for a conflict" if intent.by_conflict else "room is expected sooner"
        _move(scribe, record, intent, ReservationStatus.PLANNED, why)


def _intent(
    scribe: Scribe, record: ReservationRecord, found: Found, *, goes_first: bool = True
) -> Intent:
    """Return the start of a reservation that ``found`` is the natural one of.

    While what was cut for it is going no other conflict is called for it, so none is counted on:
    it would be put off each time that one is due.
    """
    if _going_ms(scribe.view, record) is not None:
        return Intent(found, found.start_ms, found.slice, by_conflict=False)
    name = record.made.reservation
    return with_conflict(scribe, record.made.run, found, name, goes_first=goes_first)


def _puts_off(scribe: Scribe, record: ReservationRecord, intent: Intent) -> bool:
    """Return whether an earlier start leaves another, which was promised later, without its own.

    One that fits may still take a whole domain from the others: by who pays for it now. Until a
    conflict the room that it will make is not there, and nobody can be sure of it; from then on
    numbers tell nothing.
    """
    view = scribe.view
    others = [
        name
        for name in _touched(scribe, record, intent)
        if not intent.by_conflict
        or (view.reservations[name].planned_start_ms or 0) <= intent.start_ms
    ]
    before = _fitting(scribe, others)
    if not before:
        return False
    trial = Scribe(view, now_ms=scribe.now_ms, actor=scribe.actor, has_executor=scribe.has_executor)
    _move(trial, record, intent, ReservationStatus.PLANNED, "")
    return _fitting(trial, before) != before


def _defer(scribe: Scribe, record: ReservationRecord, lacking: str) -> None:
    """Give a reservation the next start there is, or none, with the cause.

    ``lacking`` is why there is no conflict, where it counted on one.
    """
    planned_ms = record.planned_start_ms
    found = None if planned_ms is None else _find(scribe, record)
    if found is None or planned_ms is None or found.start_ms > planned_ms:
        # Sooner than it was promised it comes only where that delays nobody.
        later_ms = 0 if planned_ms is None else planned_ms
        found = _find(scribe, record, before_seq=record.seq, not_before_ms=later_ms)
    if found is not None and planned_ms is not None and found.start_ms <= scribe.now_ms:
        if planned_ms >= scribe.now_ms:
            return  # What it waits for is expected to end at this very instant.
        # By numbers it fits, and it did not start: a quota of nodes forbids the slots there are.
        # Only when something else has happened may that be otherwise.
        found = _find(scribe, record, before_seq=record.seq, after_ms=scribe.now_ms)
    if found is None and planned_ms is None:
        return
    answer = _why(scribe, record)
    intent = None
    if found is not None:
        intent = _intent(scribe, record, found)
    cause = "it can start sooner" if answer is None else sentence(answer)
    overdue = list(_overdue(scribe.view, record, scribe.now_ms))
    if overdue:
        cause += f"; overdue: {', '.join(overdue[:_NAMED_MAX])}"
    if lacking:
        cause += f"; no conflict: {lacking}"
    before = _fitting(scribe, _touched(scribe, record, intent))
    status = ReservationStatus.BLOCKED if found is None else ReservationStatus.DEFERRED
    if found is not None and planned_ms is None:
        status = ReservationStatus.PLANNED
    _move(scribe, record, intent, status, cause)
    _push_later(scribe, record, before)


def _why(scribe: Scribe, record: ReservationRecord) -> Refusal | None:
    """Return why a reserved run does not start now, or None if it could.

    Where its owner had no headroom when it was due, that is why: others may have its place since.
    """
    run = record.made.run
    if run in scribe.lacked_headroom:
        return scribe.lacked_headroom[run]
    answer = try_reserved(scribe, record)
    if not isinstance(answer, Refusal):
        return None
    return (
        waiting(scribe.view, scribe.view.runs[run].spec, answer) if answer.code in HARD else answer
    )


def _move(
    scribe: Scribe,
    record: ReservationRecord,
    intent: Intent | None,
    status: ReservationStatus,
    cause: str,
) -> None:
    scribe.write(
        ReservationMoved(
            at_ms=scribe.now_ms,
            actor=scribe.actor,
            reservation=record.made.reservation,
            status=status,
            slice=record.slice if intent is None else intent.place,
            payers=() if intent is None else intent.natural.shares,
            planned_start_ms=None if intent is None else intent.start_ms,
            natural_start_ms=None if intent is None else intent.natural.start_ms,
            by_conflict=intent is not None and intent.by_conflict,
            cause=cause,
        )
    )


def _touched(scribe: Scribe, moving: ReservationRecord, intent: Intent | None) -> list[str]:
    """Return the reservations made after ``moving`` that its new start may leave without theirs."""
    view = scribe.view
    if intent is None:
        return []
    run = view.runs[moving.made.run].spec
    places = {domain for domain, _ in intent.place.domains}
    payers = {share.payer for share in intent.natural.shares}
    end_ms = intent.start_ms + expected_ms(run, view.pools[run.pool])
    found = []
    for name, record in in_order(view):
        if record.seq <= moving.seq or record.planned_start_ms is None:
            continue
        other = view.runs[record.made.run].spec
        shares_room = other.pool == run.pool and any(d in places for d, _ in record.slice.domains)
        if not shares_room and not any(share.payer in payers for share in record.payers):
            continue
        other_end_ms = record.planned_start_ms + expected_ms(other, view.pools[other.pool])
        if record.planned_start_ms < end_ms and intent.start_ms < other_end_ms:
            found.append(name)
    return found


def _push_later(scribe: Scribe, moved: ReservationRecord, fitted: Sequence[str]) -> None:
    """Move what was made after ``moved`` and, because of its move, does not fit any more."""
    for name in fitted:
        if _fitting(scribe, [name]):
            continue
        record = scribe.view.reservations[name]
        found = _find(scribe, record, before_seq=record.seq)
        cause = f"reservation {moved.made.reservation}, made before it, has moved"
        status = ReservationStatus.BLOCKED if found is None else ReservationStatus.DEFERRED
        intent = None
        if found is not None:
            intent = Intent(found, found.start_ms, found.slice, by_conflict=False)
        _move(scribe, record, intent, status, cause)


def _fitting(scribe: Scribe, names: Sequence[str]) -> list[str]:
    """Return those of ``names`` that fit beside the reservations made before them."""
    view, found = scribe.view, []
    for name in names:
        record = view.reservations[name]
        plan = plan_of(view, record, scribe.now_ms)
        assert plan is not None, record
        outlook = Outlook.of(view, scribe.now_ms, exempt=name, before_seq=record.seq)
        levels = plan_levels(outlook, plan)
        if all(level.least(plan.start_ms, plan.end_ms) >= gpus for level, gpus in levels):
            found.append(name)
    return found


def _overdue(view: StateView, record: ReservationRecord, now_ms: int) -> Iterator[str]:
    """Yield the runs in a reservation's domains that take longer than they said."""
    pool = view.runs[record.made.run].spec.pool
    index = view.domains(pool, record.slice.flavor)
    seen: set[str] = set()
    for domain, _ in record.slice.domains:
        if domain not in index.numbers:
            continue
        for node in view.island(IslandKey(pool, record.slice.flavor, domain)).nodes:
            for lease in view.node_leases.get(node.name, ()):
                run = view.runs[view.leases[lease].fact.run]
                if run.spec.name not in seen and run.phase is Phase.RUNNING:
                    seen.add(run.spec.name)
                    if is_overdue(view, run, now_ms):
                        yield run.spec.name
