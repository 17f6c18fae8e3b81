"""Activation: promised starts, in the order in which they were promised.

One that is due goes before those promised later; one that is not may start early where that delays
nobody.
"""

from __future__ import annotations

from quorate.core.admit import Admitted
from quorate.core.beside import admit_beside, write_beside
from quorate.core.fill import Filled, fill_beside, write_fill
from quorate.core.glance import still_no_room
from quorate.core.lifecycle import is_news
from quorate.core.quota import HARD, waiting
from quorate.core.scribe import Scribe
from quorate.model.apply import apply
from quorate.model.events import (
    ReservationClosed,
    ReservationOutcome,
    ReservationStatus,
    RunRefused,
    Slice,
)
from quorate.model.records import ReservationRecord
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state import State
from quorate.model.view import StateView


def start_reserved(scribe: Scribe) -> None:
    """Start every reserved run that can, in the order in which the reservations were made.

    One that is due goes before those made later; one that is not may delay nobody.
    """
    for name in [name for name, _ in in_order(scribe.view)]:
        record = scribe.view.reservations[name]
        run = scribe.view.runs[record.made.run]
        if still_no_room(scribe, run.spec, run.refusal, promised=False):
            continue
        answer = try_reserved(scribe, record)
        if isinstance(answer, Refusal) and answer.code in HARD:
            answer = waiting(scribe.view, run.spec, answer)
        if isinstance(answer, Admitted):
            scribe.write(_closed(scribe, name, ReservationOutcome.ACTIVATED))
            write_beside(
                scribe,
                run.spec,
                answer,
                leases_ever=run.leases_ever,
                before_seq=record.seq,
            )
            continue
        over_quota = answer.code is RefusalCode.WAITING_FOR_QUOTA
        if over_quota and is_due(record, scribe.now_ms):
            scribe.lacked_headroom.setdefault(run.spec.name, answer)
        filled = _fill(scribe, record) if scribe.view.spares and not over_quota else None
        if filled is not None:
            scribe.write(_closed(scribe, name, ReservationOutcome.ACTIVATED))
            write_fill(scribe, run.spec, filled, leases_ever=run.leases_ever, before_seq=record.seq)
        elif is_news(run.refusal, answer):
            # Why it waits may change while it does.
            at_ms, actor, who = scribe.now_ms, scribe.actor, run.spec.name
            scribe.write(RunRefused(at_ms=at_ms, actor=actor, run=who, refusal=answer))


def in_order(view: StateView) -> list[tuple[str, ReservationRecord]]:
    """Return the reservations in the order in which they were made."""
    if not view.reservations:
        return []
    return sorted(view.reservations.items(), key=lambda entry: entry[1].seq)


def try_reserved(scribe: Scribe, record: ReservationRecord) -> Admitted | Refusal:
    """Return how a reserved run starts now, its own hold let go, or why it cannot.

    One that is due starts where it was planned if it can: the others were planned around that. What
    it waits for may still end at this very instant; elsewhere it goes only when it is late.
    """
    view = without_hold(scribe, record.made.reservation)
    run = view.runs[record.made.run].spec
    answer: Admitted | Refusal | None = None
    if is_due(record, scribe.now_ms):
        # Who pays is found anew: not with what others count on, if there is another way.
        answer = _beside(scribe, view, run, record, record.slice, yields=True)
        if not isinstance(answer, Admitted):
            answer = _beside(scribe, view, run, record, record.slice)
    if not isinstance(answer, Admitted) and record.planned_start_ms != scribe.now_ms:
        answer = _beside(scribe, view, run, record)
    assert answer is not None, record
    return answer


def _fill(scribe: Scribe, record: ReservationRecord) -> Filled | None:
    """Return how a reserved run starts on spares now, its own hold let go, or None."""
    return fill_beside(
        without_hold(scribe, record.made.reservation),
        scribe.view.runs[record.made.run].spec,
        scribe.now_ms,
        has_executor=scribe.has_executor,
        exempt=record.made.reservation,
        before_seq=record.seq if is_due(record, scribe.now_ms) else None,
    )


def _beside(  # noqa: PLR0913 - whose start, and beside which promises
    scribe: Scribe,
    view: StateView,
    run: Run,
    record: ReservationRecord,
    place: Slice | None = None,
    *,
    yields: bool = False,
) -> Admitted | Refusal:
    """Return how a reserved run starts; one that is due ``yields`` to those made later, or not."""
    goes_first = is_due(record, scribe.now_ms) and not yields
    return admit_beside(
        view,
        run,
        scribe.now_ms,
        exempt=record.made.reservation,
        before_seq=record.seq if goes_first else None,
        place=place,
        has_executor=scribe.has_executor,
    )


def look_ms(view: StateView, record: ReservationRecord, *, has_executor: bool) -> int | None:
    """Return when a reservation has to be looked at: when it starts.

    One that is to start by a conflict, earlier by the longest grace of its pool: with an executor
    what is cut for it takes that long to go.
    """
    planned_ms = record.planned_start_ms
    if planned_ms is None or not record.by_conflict or not has_executor:
        return planned_ms
    if record.status is ReservationStatus.CLEARING:
        return planned_ms
    return planned_ms - view.pools[view.runs[record.made.run].spec.pool].grace_max_ms


def is_due(record: ReservationRecord, now_ms: int) -> bool:
    """Return whether a reservation was to start by now."""
    return record.planned_start_ms is not None and record.planned_start_ms <= now_ms


def _closed(scribe: Scribe, name: str, outcome: ReservationOutcome) -> ReservationClosed:
    return ReservationClosed(
        at_ms=scribe.now_ms, actor=scribe.actor, reservation=name, outcome=outcome
    )


def without_hold(scribe: Scribe, name: str) -> State:
    """Return the view in which what a reservation holds is free again."""
    trial = scribe.view.overlay()
    apply(trial, _closed(scribe, name, ReservationOutcome.CANCELLED))
    return trial
