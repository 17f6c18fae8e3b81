"""The effect of a decision on firm starts, filled spares and conflicts, as lines. Pure."""

from __future__ import annotations

from quorate.core.lifecycle.loan_terms import terms_of
from quorate.model.cause_text import cause_text
from quorate.model.closed_words import counted
from quorate.model.events import (
    BackfillNoted,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    Event,
    LoanRecalled,
    RecallWithdrawn,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    RunEnded,
    SpareFilled,
)
from quorate.views.kinds.kinds_plans import place_text, scope_text, shares_text
from quorate.views.runs.explanation_view import how_words
from quorate.views.runs.instant import Moment
from quorate.views.runs.loan_words import loan_lines
from quorate.views.runs.reason_words import bundle_words
from quorate.views.runs.tried_words import said
from quorate.views.word_forms import gpus, hours, until

_CUTS_MAX = 8
_RESULTS = {
    ConflictOutcome.CLEARED: "is settled",
    ConflictOutcome.NOT_NEEDED: "is settled: no more cuts are needed",
    ConflictOutcome.INSUFFICIENT: (
        "is settled: all allowed cuts would not be enough, so nothing is cut"
    ),
}


def plan_lines(  # noqa: PLR0911 - one answer per event
    event: Event, moment: Moment, *, ask: bool = True, dry_run: bool = False
) -> list[str]:
    """Return lines for an ``event`` about plans, spares or conflicts; empty for any other event.

    If ``ask`` is false, no command is suggested, because the run will not exist after the dry run.
    """
    now_ms = moment.now_ms
    match event:
        case ReservationMade():
            return _made(event, moment, ask=ask, dry_run=dry_run)
        case ReservationMoved():
            return _moved(event, now_ms)
        case ReservationClosed():
            name = f"reservation/{event.reservation}"
            if event.outcome is ReservationOutcome.ACTIVATED:
                return [f"{name} is closed: its run starts"]
            return [f"{name} is closed: its GPUs and held hours are free again"]
        case BackfillNoted():
            when = until(event.vacate_ms, now_ms)
            kept = f"GPUs are kept free for reservation/{event.reservation}"
            return [f"run/{event.run} has to end by {when}: {kept}"]
        case LoanRecalled():
            what = f"run/{event.run}: {bundle_words(event.bundle)} is recalled by {event.payer}"
            when = until(event.due_ms, now_ms)
            return [
                (
                    f"{what} for run/{event.waiting_run}; it continues until {when}, "
                    "then only with other payers"
                )
            ]
        case RecallWithdrawn():
            what = f"run/{event.run}: {bundle_words(event.bundle)}"
            return [f"{what} continues: it has payers, and no firm start needs its GPUs"]
        case SpareFilled():
            return [f"run/{event.filler} works on spares of {event.lease} until they are needed"]
        case ConflictDeclared() | ConflictResolved():
            return _conflict(event, now_ms)
        case _:
            return []


def _made(event: ReservationMade, moment: Moment, *, ask: bool, dry_run: bool) -> list[str]:
    now_ms = moment.now_ms
    when, natural_ms = until(event.planned_start_ms, now_ms), event.natural_start_ms
    how = how_words(by_conflict=event.by_conflict)
    lines = [f"run/{event.run} {said('has', dry_run=dry_run)} a firm start {when}, {how}"]
    if event.by_conflict and natural_ms is not None:
        lines.append(f"  without a conflict it would start {until(natural_ms, now_ms)}")
    where = f"{event.slice.gpus} {event.slice.flavor}: {place_text(event.slice, most=4)}"
    lines.append(
        f"  reservation/{event.reservation}: {where}; paid by {shares_text(event.payers, most=4)}"
    )
    loans = loan_lines(terms_of(moment.view, event.payers), now_ms)
    lines += [f"  {line}" for line in loans]
    return [*lines, f"  more: quorate plan {event.run}"] if ask else lines


def _moved(event: ReservationMoved, now_ms: int) -> list[str]:
    name = f"reservation/{event.reservation}"
    if event.planned_start_ms is None:
        return [f"{name} has no start any more, {event.status}: {cause_text(event.cause)}"]
    when = until(event.planned_start_ms, now_ms)
    return [f"{name} moves to {when}, {event.status}: {cause_text(event.cause)}"]


def _conflict(event: ConflictDeclared | ConflictResolved, now_ms: int) -> list[str]:
    name = f"conflict/{event.conflict}"
    if isinstance(event, ConflictDeclared):
        asked = f" for reservation/{event.reservation}" if event.reservation else ""
        short = f"{gpus(event.deficit)} short of {scope_text(event.scope)}"
        tokens, due = counted(len(event.tokens), "token"), until(event.due_ms, now_ms)
        return [f"{name} is declared{asked}: {short}, {tokens}, settled {due}"]
    lines = [f"{name} {_RESULTS[event.outcome]}"]
    if event.cuts:
        cut = ", ".join(f"{c.run} ({gpus(c.gpus)}, {c.step})" for c in event.cuts[:_CUTS_MAX])
        more = len(event.cuts) - _CUTS_MAX
        cut += f" and {more} more" if more > 0 else ""
        lost = f"{hours(event.lost_gpu_ms)} GPU-hours of work are lost"
        lines = [f"{name} {_RESULTS[event.outcome]}: cut {cut}; {lost}"]
    if event.seed:
        lines.append(f"  seed {event.seed}; check the draw: quorate lottery verify")
    return [*lines, f"  details: quorate describe resolveroutcome {event.conflict}"]


def barred_lines(event: RunEnded, moment: Moment) -> list[str]:
    """Return a line if the end of this run bars its owner from conflicts for a while."""
    run = moment.view.runs[event.run].spec
    until_ms = moment.view.barred.get(run.owner, 0)
    if until_ms != event.at_ms + moment.view.pools[run.pool].pause_ms:
        return []
    when = until(until_ms, moment.now_ms)
    return [f"  other runs were cut for it: {run.owner} may not call a conflict before {when}"]
