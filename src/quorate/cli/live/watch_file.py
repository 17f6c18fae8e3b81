"""Watches a ledger's file: polls the head, and reads new blocks only if the head has moved."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

import click

from quorate.cli.ask_and_print import kept_logs_beside
from quorate.cli.live.watch_options import WatchOptions
from quorate.cli.printing import print_lines
from quorate.cli.session import as_of, clock_of, open_to_read
from quorate.cli.settings import Settings
from quorate.core.explain.start_plan import Forecast, foretell
from quorate.documents.times import time_text
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.model.amounts import MINUTE_MS
from quorate.operations.caller import Caller
from quorate.operations.ledger.plan_operations import PictureRequest
from quorate.operations.ledger.watch_handlers import Watched, picture_lines, watched_of
from quorate.ports.store_port import EventStore
from quorate.views.runs.event_text import Entry, entries, format_event
from quorate.views.runs.instant import Moment
from quorate.views.runs.progress_view import Progress, progress_of

RETELL_MS: Final = MINUTE_MS
"""The age at which a forecast is computed again; until then, only its countdown changes."""


@dataclass(slots=True)
class _LedgerWatch:
    """Reads one ledger; ``head`` is the head at the last read."""

    settings: Settings
    store: EventStore
    engine: Engine
    head: Head
    caller: Caller
    _told: Forecast | None = None
    _told_ms: int = 0

    @classmethod
    def open(cls, settings: Settings, store: EventStore) -> _LedgerWatch:
        engine = Engine.open(store, clock_of(settings))
        caller = Caller.owner_of_file(settings.actor())
        return cls(settings, store, engine, engine.head, caller)

    def look(self) -> list[Entry]:
        """Return the events since the last call; read the state again if there are any."""
        if self.store.head() == self.head:
            return []
        after, self.engine = self.head, Engine.open(self.store, clock_of(self.settings))
        self.head, self._told = self.engine.head, None
        new = entries(self.store.blocks(from_height=after.height + 1), after=after)
        return [entry for entry in new if entry.seq <= self.head.seq]

    def forecast(self, run: str, now_ms: int) -> Forecast:
        """Return the forecast of ``run``.

        The forecast is computed again after new events, and once a minute. In between, only its
        countdown changes.
        """
        if self._told is None or now_ms - self._told_ms >= RETELL_MS:
            found = foretell(self.engine.view, self.engine.view.runs[run].spec, now_ms)
            assert isinstance(found, Forecast), found
            self._told, self._told_ms = found, now_ms
        return replace(self._told, now_ms=now_ms)

    def progress(self, run: str) -> Progress | None:
        """Return the progress that ``run`` has reported on this machine, if there is any."""
        logs = kept_logs_beside(self.settings.ledger_path)
        return None if logs is None else progress_of(logs.reports(run), None)

    @property
    def moment(self) -> Moment:
        """The state at the present time."""
        return as_of(self.engine.view, self.engine.now_ms())


def follow(settings: Settings, asked: PictureRequest, options: WatchOptions) -> None:
    """Show a run, the reservations or a pool until the run is over or the last redraw is done."""
    watched, count, redraw = watched_of(asked), options.redraws_max, options.redraw
    with open_to_read(settings) as store:
        ledger = _LedgerWatch.open(settings, store)
        watched.check(ledger.engine.view, ledger.caller)
        _show(settings, watched, ledger, redraw=redraw)
        redraws = 1
        while not watched.is_over(ledger.engine.view) and redraws != count:
            time.sleep(options.interval_ms / 1000)
            redraws += 1
            new = ledger.look()
            if redraw:
                _show(settings, watched, ledger, redraw=True)
                continue
            view = ledger.engine.view
            for entry in new:
                if watched.concerns(entry.event, view):
                    event = entry.event
                    click.echo(f"{entry.seq} {time_text(event.at_ms)} {format_event(event)}")


def _show(settings: Settings, watched: Watched, ledger: _LedgerWatch, *, redraw: bool) -> None:
    moment = ledger.moment
    picture = picture_lines(
        watched,
        moment,
        ledger.caller,
        prefix=settings.prefix,
        forecast=lambda run: ledger.forecast(run, moment.now_ms),
        progress=ledger.progress,
    )
    lines = list(picture)
    if redraw:
        click.clear()
        lines.append(f"{time_text(moment.now_ms)}, sequence {moment.seq}; Ctrl-C ends this")
    print_lines(lines)
