"""Watches a service, which sends events.

The state is requested after an event, and when the printed state is old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.live.watch_options import WatchOptions
from quorate.cli.printing import print_lines
from quorate.cli.remote import check_typed
from quorate.cli.service_errors import telling_why
from quorate.cli.settings import Settings
from quorate.client.asker import Asker
from quorate.client.client_flows import TERMINAL
from quorate.client.contexts import Target
from quorate.client.plain_http import driver_for
from quorate.client.retrying import Retrying
from quorate.operations.ledger.ledger_operations import WatchEvents
from quorate.operations.ledger.plan_operations import PictureRequest

if TYPE_CHECKING:
    from quorate.client.watched_events import Event

TRIES_MAX: Final = 20
"""How many times in a row the client tries to reconnect; the tries take some minutes."""
EVENTS_MAX: Final = 1_000
"""The maximal number of events that are shown at once; further events wait at the service."""
RETELL_S: Final = 30.0
"""The age, in seconds, at which a printed state is requested again, because it has countdowns."""
PROGRESS_S: Final = 5.0
"""The time between two requests for a run's progress, which no events report."""


def follow_service(
    settings: Settings, target: Target, watched: PictureRequest, options: WatchOptions
) -> None:
    """Show a run, the reservations or a pool until the run is over or the last redraw is done."""
    check_typed(settings)
    with telling_why(target), _asker(settings, target) as client:
        view = _View(client, watched, options)
        view.show()
        if options.redraws_max == 1 or view.is_over:
            return
        # Events have their own connection, which cannot carry other requests.
        with _asker(settings, target) as listening:
            _follow(view, listening)


@contextmanager
def _asker(settings: Settings, target: Target) -> Iterator[Asker]:
    """Open a client that retries a failed request for some minutes."""
    driver = driver_for(target.place, timeout_s=settings.answer_timeout_s())
    with Asker(driver, Retrying(tries=TRIES_MAX)) as client:
        yield client


def _follow(view: _View, listening: Asker) -> None:
    """Redraw whenever events arrive or the interval is over."""
    watched, options = view.watched, view.options
    asked = WatchEvents(
        first=view.seq + 1,
        run=watched.run,
        pool=watched.pool,
        reservations=watched.reservations,
    )
    redraws = 1
    found: list[Event] = []
    for event in listening.events(asked, tick_s=options.interval_ms / 1_000):
        if event is not None:
            found.append(event)
            if len(found) < EVENTS_MAX:
                continue
        view.look(found)
        redraws, found = redraws + 1, []
        if redraws == options.redraws_max or view.is_over:
            return


class _View:
    """The state of one watch; ``seq`` is the head at the last request."""

    def __init__(self, client: Asker, watched: PictureRequest, options: WatchOptions) -> None:
        self._client = client
        self.watched = watched
        self.options = options
        self.is_over = False
        self.seq = 0
        self._shown_s = 0.0
        self._is_running = False
        self._step: int | None = None
        self._asked_s = 0.0
        """When the progress of the run was last requested."""

    def show(self) -> None:
        """Print the current state."""
        # The cursor is read before the text: an event in between is printed twice, not lost.
        tree: dict[str, Any] = self._client.ask_json("picture", self.watched)
        told = self._client.ask_text("picture", self.watched)
        self.seq, self._shown_s = tree["sequence"], monotonic()
        self._enter(tree.get("forecast", {}).get("phase"))
        self._step, self._asked_s = tree.get("progress", {}).get("step"), monotonic()
        if self.options.redraw:
            click.clear()
        for note in told.err:
            click.echo(note, err=True)
        print_lines(told.out)
        if self.options.redraw:
            click.echo(f"{tree['asOf']}, sequence {self.seq}; Ctrl-C ends this")

    def look(self, found: Sequence[Event]) -> None:
        """Print the news; ``found`` are the events since the last call."""
        told = self._new_step()
        if self.options.redraw:
            if found or told or monotonic() - self._shown_s >= RETELL_S:
                self.show()
            return
        for event in found:
            click.echo(_line(event))
        if told:
            click.echo(told)
        if found and self.watched.run is not None:
            from quorate.operations.resources.resource_operations import GetThing

            run = self._client.ask_json("get-run", GetThing(name=self.watched.run))
            self._enter(run["status"]["phase"])

    def _enter(self, phase: str | None) -> None:
        """Store the phase of the watched run; None if no run is watched."""
        self.is_over, self._is_running = phase in TERMINAL, phase == "Running"

    def _new_step(self) -> str:
        """Return a line about the last step of a running run; empty if there is no new step."""
        now_s, run = monotonic(), self.watched.run
        if run is None or not self._is_running or now_s - self._asked_s < PROGRESS_S:
            return ""
        from quorate.operations.fleet.observe_operations import RunReports

        self._asked_s = now_s
        asked = RunReports(run=run)
        tree: dict[str, Any] = self._client.ask_json("run-reports", asked)
        if tree["step"] == self._step:
            return ""
        self._step = tree["step"]
        told = self._client.ask_text("run-reports", asked)
        return f"{tree['at']} {told.out[0]}" if told.out else ""


def _line(event: Event) -> str:
    """Return an event as a line; if a newer Quorate has written the event, show only its tag."""
    # These modules read the ledger; they are imported with the first event, to start faster.
    from quorate.documents.times import time_text
    from quorate.ledger.codec import event_from_json
    from quorate.ports.errors import QuorateError
    from quorate.views.runs.event_text import format_event

    try:
        _, known = event_from_json(event.tree())
        words = format_event(known)
    except QuorateError:
        words = event.tag
    return f"{event.seq} {time_text(event.at_ms)} {words}"
