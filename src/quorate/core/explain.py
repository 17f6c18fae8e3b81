"""Explain: what holds a run, with the numbers, and which single changes would start it now.

Everything is computed for this instant: holds that have run out are settled first, as any command
would, and the queue is tried again. "Why is my run waiting" is answered here as data; the CLI only
prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.admit import Admitted
from quorate.core.beside import admit_beside
from quorate.core.budget_remedies import budget_remedies
from quorate.core.commands import Tick
from quorate.core.contest import Ordeal, ordeals_of
from quorate.core.decide import decide
from quorate.core.end_remedies import end_remedies
from quorate.core.fill import fill_beside
from quorate.core.follow import waits_for_upstream
from quorate.core.remedy import ACTOR, Remedy, RemedyKind
from quorate.core.run_remedies import follow_remedies, run_remedies
from quorate.model.apply import apply, apply_all
from quorate.model.events import ReservationClosed, ReservationOutcome
from quorate.model.records import Phase, ReservationRecord, RunRecord
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state import State
from quorate.model.view import StateView

__all__ = ["Explanation", "Remedy", "RemedyKind", "explain", "refused_now", "without"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where a run stands at one instant, why, and what would start it.

    ``phase`` is what holds now; ``recorded_phase`` is what the ledger says so far, and the two
    differ when time has made something due that the next command will record. ``since_ms`` is when
    the run came to where it is: submitted, started or ended. ``refusal``, since when it is for this
    reason, and the queue position (from 1) are there while it waits, and ``reservation`` where it
    was promised a start. ``ordeals`` are the conflicts it entered or was cut by.
    """

    run: str
    phase: Phase
    recorded_phase: Phase
    since_ms: int
    refusal: Refusal | None = None
    refused_since_ms: int | None = None
    queue_position: int | None = None
    queue_length: int = 0
    reservation: ReservationRecord | None = None
    ordeals: tuple[Ordeal, ...] = ()
    remedies: tuple[Remedy, ...] = ()


def explain(view: StateView, run_name: str, now_ms: int) -> Explanation | Refusal:
    """Return why ``run_name`` is where it is at ``now_ms``; a refusal when there is no such run."""
    record = view.runs.get(run_name)
    if record is None:
        return Refusal(
            code=RefusalCode.UNKNOWN_NAME,
            subject=f"no run {run_name!r}",
            remedy="list them: quorate get runs",
        )
    now_ms = max(now_ms, view.at_ms)
    settled = view.overlay()
    apply_all(settled, decide(view, Tick(), now_ms=now_ms, actor=ACTOR).events)
    current = settled.runs[run_name]
    ordeals = tuple(ordeals_of(settled, run_name))
    if current.phase is not Phase.PENDING:
        return Explanation(
            run=run_name,
            phase=current.phase,
            recorded_phase=record.phase,
            since_ms=_since_ms(current),
            ordeals=ordeals,
        )
    refusal = _refusal_now(settled, current, now_ms)
    promised = current.reservation
    queue = sorted(settled.pending, key=lambda name: settled.pending[name])
    return Explanation(
        run=run_name,
        phase=current.phase,
        recorded_phase=record.phase,
        since_ms=record.submitted_ms,
        refusal=refusal,
        refused_since_ms=_same_since_ms(record, refusal, now_ms),
        queue_position=queue.index(run_name) + 1,
        queue_length=len(queue),
        reservation=None if promised is None else settled.reservations[promised],
        ordeals=ordeals,
        remedies=_remedies(view, settled, current, refusal, now_ms),
    )


def _same_since_ms(record: RunRecord, refusal: Refusal, now_ms: int) -> int:
    """Return since when the run is refused for this reason, as far as the ledger tells."""
    known = record.refusal
    return record.refused_since_ms if known is not None and known.code is refusal.code else now_ms


def _since_ms(record: RunRecord) -> int:
    if record.ended_ms is not None:
        return record.ended_ms
    return record.submitted_ms if record.started_ms is None else record.started_ms


def _refusal_now(settled: StateView, record: RunRecord, now_ms: int) -> Refusal:
    """Return what holds a run that the settled queue could not start."""
    answer = refused_now(settled, record, now_ms)
    if answer is not None:
        return answer
    # A search that was too long in its turn can be shorter once runs behind it have started.
    assert record.refusal is not None, record.spec.name
    return record.refusal


def refused_now(
    view: StateView, record: RunRecord, now_ms: int, *, has_executor: bool = False
) -> Refusal | None:
    """Return why a waiting run cannot start at ``now_ms`` beside what others were promised.

    None when nothing holds it. Its own reservation does not stand in its way; one that is due goes
    before those made later.
    """
    run, own = record.spec, record.reservation
    waits = waits_for_upstream(view, run)
    if waits is not None:
        return waits
    before_seq = None
    if own is not None:
        promise = view.reservations[own]
        if promise.planned_start_ms is not None and promise.planned_start_ms <= now_ms:
            before_seq = promise.seq
        view = without(view, own, now_ms)
    answer = admit_beside(view, run, now_ms, before_seq=before_seq, has_executor=has_executor)
    if isinstance(answer, Admitted):
        return None
    filled = fill_beside(view, run, now_ms, before_seq=before_seq, has_executor=has_executor)
    return answer if filled is None else None


def without(view: StateView, reservation: str, now_ms: int) -> State:
    """Return the view in which what a reservation holds is free again."""
    trial = view.overlay()
    apply(
        trial,
        ReservationClosed(
            at_ms=now_ms,
            actor=ACTOR,
            reservation=reservation,
            outcome=ReservationOutcome.CANCELLED,
        ),
    )
    return trial


def _remedies(
    view: StateView, settled: State, record: RunRecord, refusal: Refusal, now_ms: int
) -> tuple[Remedy, ...]:
    """Return what would start the run: changes of it, then of budgets, then ends of others."""
    run = record.spec
    if refusal.code in (RefusalCode.WAITING_FOR_UPSTREAM, RefusalCode.UPSTREAM_FAILED):
        # Nothing else is even looked at while it waits for others.
        return follow_remedies(view, run, now_ms)
    if record.reservation is not None:
        # What is held for the run itself is there for it.
        settled = without(settled, record.reservation, now_ms)
    return (
        *run_remedies(view, run, now_ms),
        *budget_remedies(view, settled, run, now_ms),
        *end_remedies(view, settled, run, now_ms),
    )
