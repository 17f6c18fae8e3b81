"""Announces planned conflicts to the owners whose runs may be drawn.

The last announcements, which are in the state, are compared with the present plan, and the
differences are written. When a conflict is planned, or its instant or scope changes, it is
announced to every owner whose runs have a token. A conflict is announced again to an owner when
another run of the owner gets a token, or when the odds of one of the owner's runs change by ten
percentage points. The odds are checked in the first decision of each minute. The odds are counted
over a fixed number of dummy draws, so the same state gives the same odds.
See docs/adr/0031-disruption-accounts-and-notices.md.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from quorate.core.decision_log import DecisionLog
from quorate.core.preemption.conflict_preview import foresee
from quorate.core.preemption.conflict_scope import for_reservation
from quorate.core.profile.reservations import is_cleared
from quorate.model.amounts import MINUTE_MS, PPM
from quorate.model.events import (
    ConflictAnnounced,
    ConflictWithdrawn,
    Event,
    HoldExtended,
    RequestKept,
    ReservationMade,
    ReservationMoved,
    RunOdds,
    RunRefused,
    Scope,
    StepsCounted,
    ThresholdCrossed,
    TokenIssued,
    TokenRevoked,
)
from quorate.model.refusal import Refusal
from quorate.model.state.records import AnnouncedConflict, ReservationRecord
from quorate.model.state.state_view import StateView

DRAWS: Final = 32
"""The number of trial lotteries from which the odds of each run are estimated."""
NEWS_PPM: Final = PPM // 10
"""If the odds of a run change by this much, they are announced to its owner again."""
LOOKED_AT_MAX: Final = 4
"""How many planned conflicts, the soonest first, are checked in one decision."""
_CHANGES_NO_ODDS: Final = (
    HoldExtended,
    RequestKept,
    RunRefused,
    StepsCounted,
    ThresholdCrossed,
    TokenIssued,
    TokenRevoked,
    ConflictAnnounced,
    ConflictWithdrawn,
)
"""Events that change neither the planned conflicts nor the runs that these conflicts may end."""


def announce_conflicts(log: DecisionLog) -> None:
    """Write announcements of planned conflicts that are new, have changed, or are called off."""
    if not log.any_reservation and not log.before.announced:
        return  # No conflict is planned, and no announced conflict has to be called off.
    if not any(map(_matters, log.events)):
        return
    view = log.view
    planned = _planned(view)
    for name in [name for name in view.announced if name not in planned]:
        announced = view.announced[name]
        runs = tuple(run for run in announced.runs if view.runs[run].leases)
        log.write(
            ConflictWithdrawn(
                at_ms=log.now_ms,
                actor=log.actor,
                reservation=name,
                due_ms=announced.due_ms,
                scope=announced.scope,
                runs=runs,
            )
        )
    soonest = sorted(planned.values(), key=lambda record: (record.planned_start_ms, record.seq))
    is_new_minute = log.now_ms // MINUTE_MS != log.began_ms // MINUTE_MS
    new = _in_turn(log, [r for r in soonest if not _is_announced(view, r, log.now_ms)])
    again = [record for record in soonest if record not in new] if is_new_minute else []
    for record in (*new, *again)[:LOOKED_AT_MAX]:
        _announce(log, record)


def _in_turn(log: DecisionLog, new: list[ReservationRecord]) -> list[ReservationRecord]:
    """Return the conflicts to announce: first those that this decision plans, then others in turn.

    A conflict for which no run has a token is never announced, so it is checked again and again.
    Each decision begins with another conflict, so that such a conflict does not delay the others.
    """
    plans = (e for e in log.events if isinstance(e, ReservationMade | ReservationMoved))
    planned = {event.reservation for event in plans}
    fresh = [record for record in new if record.made.reservation in planned]
    others = [record for record in new if record.made.reservation not in planned]
    first = first_in_turn(log.view.seq, len(others)) if others else 0
    return [*fresh, *others[first:], *others[:first]]


def first_in_turn(seq: int, count: int) -> int:
    """Return which of ``count`` conflicts is checked first after event ``seq``, as an index.

    If every decision records the same number of events, sequence numbers rise in equal steps, and
    the remainder ``seq % count`` has only a few values. Therefore the sequence number is hashed
    first.
    """
    return crc32(str(seq).encode()) % count


def _is_announced(view: StateView, record: ReservationRecord, now_ms: int) -> bool:
    """Return whether a reservation's conflict was announced for the instant now planned for it."""
    known = view.announced.get(record.made.reservation)
    return known is not None and known.due_ms == max(record.planned_start_ms or 0, now_ms)


def _matters(event: Event) -> bool:
    return not isinstance(event, _CHANGES_NO_ODDS)


def _planned(view: StateView) -> dict[str, ReservationRecord]:
    """Return the reservations whose conflict is planned, but neither declared nor settled."""
    declared = {view.conflicts[name].declared.reservation for name in view.open_conflicts}
    return {
        name: record
        for name, record in view.reservations.items()
        if record.by_conflict
        and record.planned_start_ms is not None
        and not is_cleared(view, record)
        and name not in declared
    }


def _announce(log: DecisionLog, record: ReservationRecord) -> None:
    """Write an announcement of the conflict planned for a reservation, if there is any change."""
    view, name = log.view, record.made.reservation
    assert record.planned_start_ms is not None, record
    due_ms = max(record.planned_start_ms, log.now_ms)
    question = for_reservation(view, name)
    contest = foresee(view, question, due_ms, has_executor=log.has_executor, draws=DRAWS)
    if isinstance(contest, Refusal):
        return  # The conflict cannot be called in this state, but perhaps in a later one.
    entrants = () if contest is None else contest.entrants
    odds = {entrant.run: entrant.cut * PPM // DRAWS for entrant in entrants}
    runs = _runs_to_announce(view, view.announced.get(name), odds, due_ms, question.scope)
    if runs:
        log.write(
            ConflictAnnounced(
                at_ms=log.now_ms,
                actor=log.actor,
                reservation=name,
                due_ms=due_ms,
                scope=question.scope,
                runs=runs,
            )
        )


def _runs_to_announce(
    view: StateView,
    known: AnnouncedConflict | None,
    odds: dict[str, int],
    due_ms: int,
    scope: Scope,
) -> tuple[RunOdds, ...]:
    """Return the runs whose odds are announced to their owners, with the odds.

    The odds of a run that has lost its token are 0. If the odds of one run have changed by
    ``NEWS_PPM``, all runs of its owner are announced.
    """
    before = {} if known is None else known.runs
    gone = [run for run in before if run not in odds and view.runs[run].leases]
    stands = odds | dict.fromkeys(gone, 0)
    is_new = known is None or (known.due_ms, known.scope) != (due_ms, scope)
    owners = {
        view.runs[run].spec.owner
        for run, ppm in stands.items()
        if is_new or run not in before or abs(ppm - before[run]) >= NEWS_PPM
    }
    return tuple(
        RunOdds(owner, run, stands[run])
        for owner, run in sorted((view.runs[run].spec.owner, run) for run in stands)
        if owner in owners
    )
