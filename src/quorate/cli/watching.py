"""Watching a ledger: its head is asked for often, the rest is read only when that has moved."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import click

from quorate.answers.exits import CommandError, Exit
from quorate.answers.forecasts import forecast_lines
from quorate.answers.kind import Kind
from quorate.answers.kinds_plans import OUTCOME, RESERVATION
from quorate.answers.kinds_queue import QUEUE
from quorate.answers.kinds_work import RUN
from quorate.answers.moment import Moment
from quorate.answers.table import indented, table
from quorate.answers.timeline import Entry, conflict_of, entries, reservation_of, run_of, said
from quorate.cli.session import as_of, clock_of, open_to_read
from quorate.cli.settings import Settings
from quorate.core.plan import Forecast, foretell
from quorate.documents.times import time_text
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import ConflictDeclared, ConflictResolved, Event
from quorate.model.records import TERMINAL, Phase
from quorate.model.view import StateView
from quorate.ports.store import EventStore

RETELL_MS: Final = MINUTE_MS
"""How old a forecast may be that is only counted down."""
ROWS_MAX: Final = 20
"""How many rows of each table the picture of a pool shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is watched: one run; or reservations, or everything, of one pool or of all."""

    run: str | None = None
    reservations: bool = False
    pool: str | None = None

    def check(self, view: StateView) -> None:
        """Raise ``CommandError`` when there is no such run or pool."""
        if self.run is not None and self.run not in view.runs:
            raise CommandError(
                Exit.REFUSED, f"there is no run {self.run!r}; list them: quorate get runs"
            )
        if self.pool is not None and self.pool not in view.pools:
            raise CommandError(
                Exit.REFUSED, f"there is no pool {self.pool!r}; list them: quorate get pools"
            )

    def is_over(self, view: StateView) -> bool:
        """Return whether nothing will happen to it any more."""
        return self.run is not None and view.runs[self.run].phase in TERMINAL

    def concerns(self, event: Event, view: StateView) -> bool:
        """Return whether ``event`` is about it; ``view`` is the state after the event."""
        if self.run is not None:
            return self.run in _runs_of(event, view)
        if self.reservations and reservation_of(event) is None and conflict_of(event) is None:
            return False
        return self.pool is None or self.pool in _pools_of(event, view)


def _runs_of(event: Event, view: StateView) -> set[str]:
    """Return the runs that ``event`` touches, those that enter a conflict included."""
    name = run_of(event)
    found = set() if name is None else {name}
    match event:
        case ConflictDeclared():
            found |= {token.run for token in event.tokens}
            found.add(event.reservation.rpartition("@")[0])
        case ConflictResolved():
            found |= {cut.run for cut in event.cuts} | {each.run for each in event.draws}
            found.add(view.conflicts[event.conflict].declared.reservation.rpartition("@")[0])
        case _:
            pass
    return found


def _pools_of(event: Event, view: StateView) -> set[str]:
    conflict = conflict_of(event)
    if conflict is not None:
        return {view.conflicts[conflict].declared.scope.pool}
    name = run_of(event)
    return set() if name is None else {view.runs[name].spec.pool}


@dataclass(slots=True)
class _Eye:
    """Looks at one ledger; ``head`` is where it was when it was last read."""

    settings: Settings
    store: EventStore
    engine: Engine
    head: Head
    _told: Forecast | None = None
    _told_ms: int = 0

    @classmethod
    def open(cls, settings: Settings, store: EventStore) -> _Eye:
        engine = Engine.open(store, clock_of(settings))
        return cls(settings, store, engine, engine.head)

    def look(self) -> list[Entry]:
        """Return what was recorded since the last look, and read the state anew if anything was."""
        if self.store.head() == self.head:
            return []
        after, self.engine = self.head, Engine.open(self.store, clock_of(self.settings))
        self.head, self._told = self.engine.head, None
        new = entries(self.store.blocks(from_height=after.height + 1), after=after)
        return [entry for entry in new if entry.seq <= self.head.seq]

    def forecast(self, run: str, now_ms: int) -> Forecast:
        """Return the forecast of ``run``, found anew when something was recorded, or once a minute.

        Counting down needs no more than another time.
        """
        if self._told is None or now_ms - self._told_ms >= RETELL_MS:
            found = foretell(self.engine.view, self.engine.view.runs[run].spec, now_ms)
            assert isinstance(found, Forecast), found
            self._told, self._told_ms = found, now_ms
        return replace(self._told, now_ms=now_ms)

    @property
    def moment(self) -> Moment:
        """The state as of now."""
        return as_of(self.engine.view, self.engine.now_ms())


def follow(
    settings: Settings, watched: Watched, *, interval_ms: int, count: int | None, redraw: bool
) -> None:
    """Show ``watched`` until it is over, ``count`` times at most.

    With ``redraw`` the picture replaces the last one; otherwise it is printed once, and then a line
    for each new event.
    """
    with open_to_read(settings) as store:
        eye = _Eye.open(settings, store)
        watched.check(eye.engine.view)
        _show(settings, watched, eye, redraw=redraw)
        looks = 1
        while not watched.is_over(eye.engine.view) and looks != count:
            time.sleep(interval_ms / 1000)
            looks += 1
            new = eye.look()
            if redraw:
                _show(settings, watched, eye, redraw=True)
                continue
            view = eye.engine.view
            for entry in new:
                if watched.concerns(entry.event, view):
                    event = entry.event
                    click.echo(f"{entry.seq} {time_text(event.at_ms)} {said(event)}")


def _show(settings: Settings, watched: Watched, eye: _Eye, *, redraw: bool) -> None:
    moment = eye.moment
    lines = list(_picture(settings, watched, eye, moment))
    if redraw:
        click.clear()
        lines.append(f"{time_text(moment.now_ms)}, sequence {moment.seq}; Ctrl-C ends this")
    for line in lines:
        click.echo(line)


def _picture(settings: Settings, watched: Watched, eye: _Eye, moment: Moment) -> Iterator[str]:
    """Yield how ``watched`` stands now."""
    if watched.run is not None:
        yield from forecast_lines(eye.forecast(watched.run, moment.now_ms), settings.prefix)
        return
    view = moment.view
    pools = {
        name: view.runs[record.made.run].spec.pool for name, record in view.reservations.items()
    }
    promised = [n for n in RESERVATION.names(moment) if watched.pool in (None, pools[n])]
    open_ = [
        name
        for name in view.open_conflicts
        if watched.pool in (None, view.conflicts[name].declared.scope.pool)
    ]
    yield from _listing("reservations", RESERVATION, moment, promised)
    yield from _listing("open conflicts", OUTCOME, moment, open_)
    if not watched.reservations:
        running = [n for n, r in view.runs.items() if r.phase is Phase.RUNNING]
        for title, kind, names in (
            ("running", RUN, running),
            ("queue", QUEUE, QUEUE.names(moment)),
        ):
            here = [n for n in names if watched.pool in (None, view.runs[n].spec.pool)]
            yield from _listing(title, kind, moment, here)


def _listing(title: str, kind: Kind, moment: Moment, names: Sequence[str]) -> Iterator[str]:
    if not names:
        yield f"{title}: none"
        return
    yield f"{title}: {len(names)}"
    yield indented(table(kind.columns, kind.rows(moment, names[:ROWS_MAX])))
    if len(names) > ROWS_MAX:
        yield f"  and {len(names) - ROWS_MAX} more: quorate get {kind.plural}"
