"""Reads the ledger's data for custom resources repeatedly; reuses runs that have not changed.

The status of a run without new events is the same as before, except for figures that change with
time. The status of a waiting run also depends on other runs, so a waiting run is read every few
seconds. A run in a pool with rounds is read each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Final

from quorate.model.events import (
    BackfillNoted,
    ConflictAnnounced,
    ConflictDeclared,
    ConflictDeferred,
    ConflictResolved,
    ConflictWithdrawn,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    LoanRecalled,
    PledgeClosed,
    RecallWithdrawn,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunResized,
    RunStopping,
    RunSubmitted,
    SpareFilled,
    ThresholdCrossed,
)
from quorate.model.state.records import Phase
from quorate.operations.cursor import Cursor, cursor_at
from quorate.operations.request_context import RequestContext
from quorate.ports.executor_port import Readiness
from quorate.service.custom_resources.ledger_picture import (
    LedgerPicture,
    RunPicture,
    Wanted,
    read_picture,
)
from quorate.views.runs.event_text import run_of

WAITING_S: Final = 3.0
"""How long the last read of a waiting run is used if the run has no new events."""
ALL_S: Final = 30.0
"""How long until every run is read again, even without events."""
EVENTS_MAX: Final = 5_000
"""The most new events that are examined to find the runs that changed.

If there are more, every run is read, because examining the events would cost more.
"""


class PictureReader:
    """Reads the data for one operator, on the ledger thread."""

    def __init__(self) -> None:
        self._cursor: Cursor | None = None
        self._runs: dict[str, tuple[float, RunPicture]] = {}
        self._all_s = -ALL_S

    def read(
        self,
        context: RequestContext,
        wanted: Wanted,
        readiness: Callable[[Collection[str]], Mapping[str, Readiness]],
    ) -> LedgerPicture:
        """Return the ledger's data for ``wanted``.

        ``readiness`` says whether the work of runs has begun, which no event records.
        """
        now_s = monotonic()
        kept = self._kept(context, wanted, now_s)
        picture = read_picture(context, wanted, kept)
        runs = with_readiness(picture.runs, readiness)
        self._runs = {
            name: (self._runs[name][0] if name in kept else now_s, run)
            for name, run in runs.items()
        }
        return replace(picture, runs=runs)

    def _kept(
        self, context: RequestContext, wanted: Wanted, now_s: float
    ) -> Mapping[str, RunPicture]:
        """Return the runs that have not changed since they were read."""
        touched = self._touched(context)
        if touched is None or now_s >= self._all_s + ALL_S:
            self._all_s = now_s
            return {}
        in_rounds = context.engine.view.in_rounds
        found: dict[str, RunPicture] = {}
        for name in wanted.runs:
            read_s, run = self._runs.get(name, (0.0, None))
            if run is None or name in touched or name in in_rounds:
                continue
            if run.status["phase"] != Phase.PENDING.value or now_s < read_s + WAITING_S:
                found[name] = run
        return found

    def _touched(self, context: RequestContext) -> set[str] | None:
        """Return the runs of the events since the last read; None if all runs may have changed."""
        cursor, end = self._cursor, context.engine.head.seq
        if cursor is None or end - cursor.seq > EVENTS_MAX:
            self._cursor = cursor_at(context, None)
            return None
        found: set[str] = set()
        has_touched_all = False
        while cursor.seq < end:
            page = cursor.page()
            runs = touched_runs(page.events[cursor.seq + 1 - page.first_seq :])
            has_touched_all |= runs is None
            found |= runs or set()
            cursor.seq = page.head.seq
        return None if has_touched_all else found


def with_readiness(
    runs: Mapping[str, RunPicture],
    readiness: Callable[[Collection[str]], Mapping[str, Readiness]],
) -> dict[str, RunPicture]:
    """Return ``runs`` with their readiness; an unchanged run is returned as the same object.

    While the readiness of a running run is unknown, its last known readiness is kept.
    """
    running = {name for name, run in runs.items() if run.status["phase"] == Phase.RUNNING.value}
    known = readiness(running) if running else {}
    found: dict[str, RunPicture] = {}
    for name, run in runs.items():
        ready = known.get(name, run.ready) if name in running else None
        found[name] = run if run.ready == ready else replace(run, ready=ready)
    return found


def touched_runs(events: Iterable[Event]) -> set[str] | None:
    """Return the runs whose status ``events`` may change; None if any run may change."""
    found: set[str] = set()
    for event in events:
        runs = _touched_by(event)
        if runs is None:
            return None
        found |= runs
    return found


def _touched_by(event: Event) -> set[str] | None:  # noqa: PLR0911 - one answer per kind
    match event:
        case LoanRecalled():
            return {event.run, event.waiting_run}
        case SpareFilled():
            return {event.lease.partition("/")[0], event.filler}
        case PledgeClosed():
            # A pledge's name begins with its lease's name, which begins with the run's name.
            return {event.pledge.partition("/")[0]}
        case ConflictDeclared():
            return {event.reservation.rpartition("@")[0], *(each.run for each in event.tokens)}
        case ConflictResolved():
            return {*(each.run for each in event.cuts), *(each.run for each in event.draws)}
        case ConflictAnnounced():
            return {event.reservation.rpartition("@")[0], *(each.run for each in event.runs)}
        case ConflictWithdrawn():
            return {event.reservation.rpartition("@")[0], *event.runs}
        case ThresholdCrossed():
            return set()
        case (
            BackfillNoted()
            | ConflictDeferred()
            | HoldExtended()
            | LeaseEnded()
            | LeaseEnding()
            | LeaseStarted()
            | RecallWithdrawn()
            | ReservationClosed()
            | ReservationMade()
            | ReservationMoved()
            | RunEnded()
            | RunRefused()
            | RunRequeued()
            | RunResized()
            | RunStopping()
            | RunSubmitted()
        ):
            name = run_of(event)
            assert name is not None, event
            return {name}
        case _:
            return None
