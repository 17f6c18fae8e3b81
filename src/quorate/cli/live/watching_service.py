"""Watching a service: it says when something was recorded, and only then is the picture new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.live.looking import Looking
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
"""How often in a row a cut connection is tried again: for some minutes."""
EVENTS_MAX: Final = 1_000
"""How many events are shown at once; more wait at the service."""
RETELL_S: Final = 30.0
"""How old a picture may be in which time is counted down."""
PROGRESS_S: Final = 5.0
"""How often the work of a run is asked for its last step, which is no event."""


def follow_service(
    settings: Settings, target: Target, watched: PictureRequest, looking: Looking
) -> None:
    """Show ``watched`` as the service reports it, until it is over."""
    check_typed(settings)
    with telling_why(target), _asker(settings, target) as client:
        view = _View(client, watched, looking)
        view.show()
        if looking.looks_max == 1 or view.is_over:
            return
        # Events come by a connection of their own, on which nothing else can be asked.
        with _asker(settings, target) as listening:
            _follow(view, listening)


@contextmanager
def _asker(settings: Settings, target: Target) -> Iterator[Asker]:
    """Open a client that tries again for some minutes."""
    driver = driver_for(target.place, timeout_s=settings.answer_timeout_s())
    with Asker(driver, Retrying(tries=TRIES_MAX)) as client:
        yield client


def _follow(view: _View, listening: Asker) -> None:
    """Look again whenever something was recorded or the interval is over."""
    watched, looking = view.watched, view.looking
    asked = WatchEvents(
        first=view.seq + 1,
        run=watched.run,
        pool=watched.pool,
        reservations=watched.reservations,
    )
    looks = 1
    found: list[Event] = []
    for event in listening.events(asked, tick_s=looking.interval_ms / 1_000):
        if event is not None:
            found.append(event)
            if len(found) < EVENTS_MAX:
                continue
        view.look(found)
        looks, found = looks + 1, []
        if looks == looking.looks_max or view.is_over:
            return


class _View:
    """What is seen of one service; ``seq`` is where it was when the picture was asked for."""

    def __init__(self, client: Asker, watched: PictureRequest, looking: Looking) -> None:
        self._client = client
        self.watched = watched
        self.looking = looking
        self.is_over = False
        self.seq = 0
        self._shown_s = 0.0
        self._is_running = False
        self._step: int | None = None
        self._asked_s = 0.0
        """When the last step that the work of the run has reported was asked for."""

    def show(self) -> None:
        """Print the present state."""
        # The cursor is read first: an event in between is printed twice, not left out.
        tree: dict[str, Any] = self._client.ask_json("picture", self.watched)
        told = self._client.ask_text("picture", self.watched)
        self.seq, self._shown_s = tree["sequence"], monotonic()
        self._enter(tree.get("forecast", {}).get("phase"))
        self._step, self._asked_s = tree.get("progress", {}).get("step"), monotonic()
        if self.looking.redraw:
            click.clear()
        for note in told.err:
            click.echo(note, err=True)
        print_lines(told.out)
        if self.looking.redraw:
            click.echo(f"{tree['asOf']}, sequence {self.seq}; Ctrl-C ends this")

    def look(self, found: Sequence[Event]) -> None:
        """Show what is new: ``found`` was recorded since the last look."""
        told = self._new_step()
        if self.looking.redraw:
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
        """Remember the phase of the run that is watched; None is that of no run."""
        self.is_over, self._is_running = phase in TERMINAL, phase == "Running"

    def _new_step(self) -> str:
        """Return a line about the last step of a run at work; empty where there was none since."""
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
    """Return an event as a line; one that only a newer Quorate knows, by its tag."""
    # Loaded with the first event: until then a watch needs nothing that reads the ledger.
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
