"""Explain: why a run waits, with the numbers, and which single changes would start it now.

The explanation describes one instant. Before it is computed, all due changes are made on a copy of
the state, as in every decision, and the waiting runs are tried again. The result is data; the CLI
only prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.admission.quota_holders import (
    Obstacles,
    QuotaInTheWay,
    obstacles,
    quotas_in_the_way,
)
from quorate.core.explain.budget_remedies import budget_remedies
from quorate.core.explain.end_remedies import end_remedies
from quorate.core.explain.quota_remedies import quota_remedies
from quorate.core.explain.remedies import ACTOR, Remedy, RemedyKind
from quorate.core.explain.run_remedies import follow_remedies, run_remedies
from quorate.core.explain.state_outlook import Outlook
from quorate.core.explain.wipe_remedies import wipe_remedies
from quorate.core.lifecycle.loan_terms import LoanTerms, loans_of, terms_of
from quorate.core.planning.foresight import Foreseen
from quorate.core.planning.no_firm_start import parked_words
from quorate.core.planning.why_waiting import is_news
from quorate.core.preemption.conflict_preview import Ordeal, ordeals_of
from quorate.core.rounds.round_outlook import between_rounds, share_words
from quorate.core.tenancy.queue_position import Standing, standing_of
from quorate.model.events import ReservationClosed, ReservationOutcome
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.apply_event import apply
from quorate.model.state.records import Phase, ReservationRecord, RunRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

__all__ = ["Explanation", "Remedy", "RemedyKind", "explain", "without"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The state of a run at one instant, its reasons, and the changes that would start the run.

    ``phase`` is the phase now, and ``recorded_phase`` is the phase in the ledger. They differ if a
    change of the phase is due that the next decision will record. ``since_ms`` is when the run was
    submitted, or, if later, when it started or ended.

    While the run waits, ``refusal`` is the reason, and ``refused_since_ms`` is when this reason
    began. ``queue_position`` counts from 1, and ``standing`` gives the reasons for the position.
    ``reservation`` is set if the run's planned start is firm. ``plan`` is the planned start, and
    ``parked`` says why the run has no firm start. ``quotas`` are the hard quotas that the run waits
    for.

    ``ordeals`` are the conflicts in whose lottery the run was, or that cut the run. ``note`` says
    why the run failed. For a run in a pool of discipline ``rounds``, ``share`` describes its share,
    and ``refusal`` says why it has no GPUs at present. ``loans`` are the loans that the run has, or
    those of its planned start, with their terms.
    """

    run: str
    phase: Phase
    recorded_phase: Phase
    since_ms: int
    refusal: Refusal | None = None
    refused_since_ms: int | None = None
    queue_position: int | None = None
    queue_length: int = 0
    standing: Standing | None = None
    quotas: tuple[QuotaInTheWay, ...] = ()
    reservation: ReservationRecord | None = None
    plan: Foreseen | None = None
    parked: str = ""
    ordeals: tuple[Ordeal, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    note: str = ""
    share: str = ""
    loans: tuple[LoanTerms, ...] = ()


def explain(
    view: StateView,
    run_name: str,
    now_ms: int,
    *,
    outlook: Outlook | None = None,
    is_exact: bool = False,
) -> Explanation | Refusal:
    """Return the explanation of ``run_name`` at ``now_ms``; a refusal if there is no such run.

    ``outlook`` is the outlook on ``view`` at ``now_ms``, if the caller has computed it already.
    Usually only the first runs of the queue are planned, up to a certain depth. If ``is_exact`` is
    true and the run is beyond this depth, the run and all runs before it are planned, too.
    """
    record = view.runs.get(run_name)
    if record is None:
        return Refusal(
            code=RefusalCode.UNKNOWN_NAME,
            subject=f"there is no run {run_name!r}",
            remedy="list them: quorate get runs",
        )
    outlook = outlook or Outlook(view, now_ms)
    now_ms, settled = outlook.now_ms, outlook.settled
    current = settled.runs[run_name]
    ordeals = tuple(ordeals_of(settled, run_name))
    if run_name in settled.in_rounds:
        return _in_rounds(settled, current, record.phase, ordeals, now_ms)
    if current.phase is not Phase.PENDING:
        return Explanation(
            run=run_name,
            phase=current.phase,
            recorded_phase=record.phase,
            since_ms=_since_ms(current),
            ordeals=ordeals,
            note=current.note if current.phase is Phase.FAILED else "",
            loans=loans_of(settled, current),
        )
    foresight = outlook.after_due.plan
    refusal = foresight.refusal_of(current) or current.refusal
    # When the refusal was recorded, the search may have run out of steps, and may succeed now. In
    # this case ``refusal_of`` returns None, and the recorded refusal is used.
    assert refusal is not None, run_name
    foreseen = outlook.after_due.plan_for(run_name, is_exact=is_exact).start_of(current)
    promised = current.reservation
    in_the_way = _obstacles(settled, current, refusal, now_ms)
    standing = standing_of(settled, run_name, now_ms, lambda: outlook.after_due.queue)
    remedies = _remedies(view, settled, current, refusal, now_ms, in_the_way=in_the_way)
    return Explanation(
        run=run_name,
        phase=current.phase,
        recorded_phase=record.phase,
        since_ms=record.submitted_ms,
        refusal=refusal,
        refused_since_ms=_same_since_ms(record, refusal, now_ms),
        queue_position=standing.position,
        queue_length=standing.length,
        standing=standing,
        quotas=quotas_in_the_way(settled, in_the_way.quotas),
        reservation=None if promised is None else settled.reservations[promised],
        plan=foreseen,
        parked=""
        if promised is not None
        else parked_words(settled, current.spec, foreseen, now_ms, has_remedies=bool(remedies)),
        ordeals=ordeals,
        remedies=remedies,
        loans=() if foreseen.entry is None else terms_of(settled, foreseen.entry.shares),
    )


def _in_rounds(
    settled: StateView,
    record: RunRecord,
    recorded: Phase,
    ordeals: tuple[Ordeal, ...],
    now_ms: int,
) -> Explanation:
    """Return the explanation of a run in a pool of discipline ``rounds``, which has no queue."""
    refusal = between_rounds(settled, record, now_ms)
    return Explanation(
        run=record.spec.name,
        phase=record.phase,
        recorded_phase=recorded,
        since_ms=_since_ms(record),
        refusal=refusal,
        refused_since_ms=None if refusal is None else record.refused_since_ms,
        ordeals=ordeals,
        share=share_words(settled, record),
    )


def _same_since_ms(record: RunRecord, refusal: Refusal, now_ms: int) -> int:
    """Return when the run was first refused for its present reason, as recorded in the ledger."""
    return now_ms if is_news(record.refusal, refusal) else record.refused_since_ms


def _since_ms(record: RunRecord) -> int:
    if record.ended_ms is not None:
        return record.ended_ms
    return record.submitted_ms if record.started_ms is None else record.started_ms


def without(view: StateView, reservation: str, now_ms: int) -> State:
    """Return a state in which ``reservation`` no longer keeps room and money."""
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


def _obstacles(settled: State, record: RunRecord, refusal: Refusal, now_ms: int) -> Obstacles:
    """Return the hard quotas that the run waits for."""
    if refusal.code is not RefusalCode.WAITING_FOR_QUOTA:
        return Obstacles()
    found = obstacles(_own_room(settled, record, now_ms), record.spec, now_ms)
    if not found.quotas and refusal.also is not None:
        # The refusal was recorded when the run was last tried. Since then, other changes have left
        # room under the quota.
        return Obstacles((refusal.also,))
    return found


def _own_room(settled: State, record: RunRecord, now_ms: int) -> State:
    """Return a state in which the run may use the room and money of its own reservation."""
    return settled if record.reservation is None else without(settled, record.reservation, now_ms)


def _remedies(  # noqa: PLR0913 - the remedies depend on all of these
    view: StateView,
    settled: State,
    record: RunRecord,
    refusal: Refusal,
    now_ms: int,
    *,
    in_the_way: Obstacles,
) -> tuple[Remedy, ...]:
    """Return the remedies: changes of the run, then of budgets and quotas, then ends of runs."""
    run = record.spec
    if refusal.code in (RefusalCode.WAITING_FOR_UPSTREAM, RefusalCode.UPSTREAM_FAILED):
        # While the run waits for its upstreams, no other condition is checked.
        return follow_remedies(view, run, now_ms)
    settled = _own_room(settled, record, now_ms)
    return (
        *run_remedies(view, run, now_ms),
        *quota_remedies(view, run, in_the_way, now_ms),
        *budget_remedies(view, settled, run, now_ms),
        *wipe_remedies(view, run, now_ms),
        *end_remedies(view, settled, run, now_ms),
    )
