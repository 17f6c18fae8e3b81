"""What a watch shows: the picture (present state) of a run, of reservations or of a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quorate.core.explain.start_plan import Forecast
from quorate.documents.times import time_text
from quorate.model.events import (
    ConflictAnnounced,
    ConflictDeclared,
    ConflictResolved,
    ConflictWithdrawn,
    Event,
)
from quorate.model.state.records import TERMINAL, Phase
from quorate.model.state.state_view import StateView
from quorate.operations.answer_types import Answer
from quorate.operations.caller import Caller
from quorate.operations.fleet.run_reports import progress_in
from quorate.operations.ledger.plan_handlers import forecast_of
from quorate.operations.ledger.plan_operations import PictureRequest
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.unknown_names import unknown
from quorate.operations.visibility import visible
from quorate.operations.visible_events import Sight
from quorate.views.exits import CommandError, Exit
from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kinds_plans import OUTCOME, RESERVATION, reservation_run
from quorate.views.kinds.kinds_queue import QUEUE
from quorate.views.kinds.kinds_work import RUN
from quorate.views.runs.event_text import conflict_of, reservation_of, run_of
from quorate.views.runs.forecast_view import forecast_lines, forecast_tree
from quorate.views.runs.instant import Moment
from quorate.views.runs.progress_view import Progress, progress_lines, progress_tree
from quorate.views.table import indented, table

ROWS_MAX: Final = 20
"""The most rows of each table in the picture of a pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The target of a watch: a run, a pool, all pools, or only the reservations of pools."""

    run: str | None = None
    reservations: bool = False
    pool: str | None = None

    def check(self, view: StateView, caller: Caller) -> None:
        """Raise ``CommandError`` if ``caller`` sees no such run or pool."""
        if self.run is not None and not Sight(view, caller).sees_run(self.run):
            raise unknown(view, caller, "run", self.run)
        if self.pool is not None and self.pool not in view.pools:
            raise unknown(view, caller, "pool", self.pool)

    def is_over(self, view: StateView) -> bool:
        """Return whether the target is over, so that no further event can be about it."""
        return self.run is not None and view.runs[self.run].phase in TERMINAL

    def concerns(self, event: Event, view: StateView) -> bool:
        """Return whether ``event`` is about the target. ``view`` is the state after ``event``."""
        if self.run is not None:
            return self.run in _runs_of(event, view)
        if self.reservations and reservation_of(event) is None and conflict_of(event) is None:
            return False
        return self.pool is None or self.pool in _pools_of(event, view)


def watched_of(asked: PictureRequest) -> Watched:
    """Return the target to watch; raise ``CommandError`` if the request names two targets."""
    run = None if asked.run is None else asked.run.removeprefix("run/")
    if run is not None and (asked.pool is not None or asked.reservations):
        raise CommandError(
            Exit.USAGE, "a run is in one pool; give either run, or pool and reservations"
        )
    return Watched(run=run, reservations=asked.reservations, pool=asked.pool)


def _runs_of(event: Event, view: StateView) -> set[str]:
    """Return the runs that ``event`` concerns, including the entrants of a conflict."""
    name = run_of(event)
    found = set() if name is None else {name}
    match event:
        case ConflictDeclared():
            found |= {token.run for token in event.tokens}
            found.add(event.reservation.rpartition("@")[0])
        case ConflictResolved():
            found |= {cut.run for cut in event.cuts} | {each.run for each in event.draws}
            found.add(view.conflicts[event.conflict].declared.reservation.rpartition("@")[0])
        case ConflictAnnounced():
            found |= {odds.run for odds in event.runs} | {event.reservation.rpartition("@")[0]}
        case ConflictWithdrawn():
            found |= {*event.runs, event.reservation.rpartition("@")[0]}
        case _:
            pass
    return found


def _pools_of(event: Event, view: StateView) -> set[str]:
    if isinstance(event, ConflictAnnounced | ConflictWithdrawn):
        return {event.scope.pool}
    conflict = conflict_of(event)
    if conflict is not None:
        return {view.conflicts[conflict].declared.scope.pool}
    name = run_of(event)
    return set() if name is None else {view.runs[name].spec.pool}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """One table of the picture: the resources of one kind."""

    title: str
    key: str
    kind: Kind
    names: Sequence[str]

    def lines(self, moment: Moment) -> Iterator[str]:
        if not self.names:
            yield f"{self.title}: none"
            return
        yield f"{self.title}: {len(self.names)}"
        rows = self.kind.rows(moment, self.names[:ROWS_MAX])
        yield indented(table(self.kind.columns, rows))
        if len(self.names) > ROWS_MAX:
            yield f"  and {len(self.names) - ROWS_MAX} more: quorate get {self.kind.plural}"

    def tree(self, moment: Moment) -> dict[str, Any]:
        items = self.kind.trees(moment, self.names[:ROWS_MAX])
        return {"count": len(self.names), "items": items}


def _tables(watched: Watched, moment: Moment, caller: Caller) -> list[_Table]:
    """Return the tables of reservations or of a pool, with resources that ``caller`` may see."""
    view, pool = moment.view, watched.pool
    runs = view.runs
    conflicts = [
        name
        for name in view.open_conflicts
        if pool in (None, view.conflicts[name].declared.scope.pool)
    ]
    promised = [
        name
        for name in visible(view, caller, RESERVATION, RESERVATION.names(moment))
        if pool in (None, runs[reservation_run(name)].spec.pool)
    ]
    found = [
        _Table(title="reservations", key="reservations", kind=RESERVATION, names=promised),
        _Table(title="open conflicts", key="openConflicts", kind=OUTCOME, names=conflicts),
    ]
    if watched.reservations:
        return found
    running = [name for name, record in runs.kept() if record.phase is Phase.RUNNING]
    for title, kind, names in (("running", RUN, running), ("queue", QUEUE, QUEUE.names(moment))):
        here = [
            name
            for name in visible(view, caller, kind, names)
            if pool in (None, runs[name].spec.pool)
        ]
        found.append(_Table(title=title, key=title, kind=kind, names=here))
    return found


def picture_lines(  # noqa: PLR0913 - what is shown, to whom, and what is asked for it
    watched: Watched,
    moment: Moment,
    caller: Caller,
    *,
    prefix: Sequence[str],
    forecast: Callable[[str], Forecast],
    progress: Callable[[str], Progress | None],
) -> Iterator[str]:
    """Yield the state of ``watched`` for people.

    If the target is a run, ``forecast`` returns its forecast, and ``progress`` returns its reported
    progress.
    """
    if watched.run is not None:
        yield from forecast_lines(forecast(watched.run), prefix)
        reported = progress(watched.run)
        if reported is not None:
            yield from progress_lines(reported, moment.now_ms)
        return
    for each in _tables(watched, moment, caller):
        yield from each.lines(moment)


def picture(context: RequestContext, asked: PictureRequest, operation: Operation) -> Answer:
    """Return the present state of a run, the reservations or a pool."""
    del operation
    watched, moment = watched_of(asked), context.moment
    watched.check(context.recorded, context.caller)

    def progress(run: str) -> Progress | None:
        return progress_in(context, context.recorded.runs[run])

    def tree() -> dict[str, Any]:
        found: dict[str, Any] = {"asOf": time_text(moment.now_ms), "sequence": moment.seq}
        if watched.run is not None:
            told = forecast_tree(forecast_of(context, watched.run), context.prefix)
            reported = progress_tree(watched.run, progress(watched.run))
            return found | {"forecast": told, "progress": reported}
        tables = _tables(watched, moment, context.caller)
        return found | {each.key: each.tree(moment) for each in tables}

    def lines(wide: bool) -> Iterator[str]:  # noqa: FBT001 - as every answer is asked
        del wide
        return picture_lines(
            watched,
            moment,
            context.caller,
            prefix=context.prefix,
            forecast=lambda run: forecast_of(context, run),
            progress=progress,
        )

    return Answer(tree=tree, lines=lines, notes=tuple(context.notes))
