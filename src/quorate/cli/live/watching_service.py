"""Watching a service: it says when something was recorded, and only then is the picture new."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import click

from quorate.cli.live.watch_file import Looking
from quorate.cli.remote import check_typed
from quorate.cli.service_errors import telling_why
from quorate.cli.settings import Settings
from quorate.client.async_client import AsyncClient
from quorate.client.client_flows import TERMINAL
from quorate.client.contexts import Target
from quorate.client.watched_events import Event
from quorate.documents.times import time_text
from quorate.ledger.codec import event_from_json
from quorate.operations.fleet.looking_operations import RunReports
from quorate.operations.ledger.plan_operations import PictureRequest
from quorate.operations.ledger.watch_handlers import Watched
from quorate.ports.errors import QuorateError
from quorate.views.runs.event_text import format_event

TRIES_MAX: Final = 20
"""How often in a row a cut connection is tried again: for some minutes."""
EVENTS_MAX: Final = 1_000
"""How many events wait to be shown; more wait at the service."""
RETELL_S: Final = 30.0
"""How old a picture may be in which time is counted down."""
PROGRESS_S: Final = 5.0
"""How often the work of a run is asked for its last step, which is no event."""


def follow_service(settings: Settings, target: Target, watched: Watched, looking: Looking) -> None:
    """Show ``watched`` as the service reports it, until it is over."""
    check_typed(settings)
    with telling_why(target):
        asyncio.run(_follow(target, settings.answer_timeout_s(), watched, looking))


async def _follow(target: Target, timeout_s: float, watched: Watched, looking: Looking) -> None:
    async with AsyncClient.at(target.place, tries=TRIES_MAX, timeout_s=timeout_s) as client:
        view = _View(client, watched, looking)
        await view.show()
        async with view.listening():
            looks = 1
            while looks != looking.count and not view.is_over:
                looks += 1
                await view.look()


@dataclass(slots=True)
class _View:
    """What is seen of one service; ``seq`` is where it was when the picture was asked for."""

    client: AsyncClient
    watched: Watched
    looking: Looking
    is_over: bool = False
    seq: int = 0
    _shown_s: float = 0.0
    _is_running: bool = False
    _step: int | None = None
    """The last step that the work of the run has reported, as of ``_asked_s``."""
    _asked_s: float = 0.0
    _events: asyncio.Queue[Event | BaseException] = field(
        default_factory=lambda: asyncio.Queue(EVENTS_MAX)
    )

    async def show(self) -> None:
        """Print the present state."""
        watched = self.watched
        asked = PictureRequest(
            run=watched.run, pool=watched.pool, reservations=watched.reservations
        )
        # The cursor is read first: an event in between is printed twice, not left out.
        tree: dict[str, Any] = await self.client.ask_json("picture", asked)
        told = await self.client.ask_text("picture", asked)
        self.seq, self._shown_s = tree["sequence"], monotonic()
        self._enter(tree.get("forecast", {}).get("phase"))
        self._step, self._asked_s = tree.get("progress", {}).get("step"), monotonic()
        if self.looking.redraw:
            click.clear()
        for note in told.err:
            click.echo(note, err=True)
        for line in told.out:
            click.echo(line)
        if self.looking.redraw:
            click.echo(f"{tree['asOf']}, sequence {self.seq}; Ctrl-C ends this")

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Have the service report what is recorded, within a ``with`` block."""
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _listen(self) -> None:
        watched = self.watched
        try:
            async for event in self.client.watch(
                self.seq + 1,
                run=watched.run,
                pool=watched.pool,
                reservations=watched.reservations,
            ):
                await self._events.put(event)
        except Exception as error:  # noqa: BLE001 - raised again by the reader
            await self._events.put(error)

    async def look(self) -> None:
        """Wait until something is recorded or the interval is over, and show what is new."""
        found = await self._next()
        told = await self._new_step()
        if self.looking.redraw:
            if found or told or monotonic() - self._shown_s >= RETELL_S:
                await self.show()
            return
        for event in found:
            click.echo(_line(event))
        if told:
            click.echo(told)
        if found and self.watched.run is not None:
            self._enter(await self.client.run(self.watched.run).phase())

    def _enter(self, phase: str | None) -> None:
        """Remember the phase of the run that is watched; None is that of no run."""
        self.is_over, self._is_running = phase in TERMINAL, phase == "Running"

    async def _new_step(self) -> str:
        """Return a line about the last step of a run at work; empty where there was none since."""
        now_s, run = monotonic(), self.watched.run
        if run is None or not self._is_running or now_s - self._asked_s < PROGRESS_S:
            return ""
        self._asked_s = now_s
        asked = RunReports(run=run)
        tree: dict[str, Any] = await self.client.ask_json("run-reports", asked)
        if tree["step"] == self._step:
            return ""
        self._step = tree["step"]
        told = await self.client.ask_text("run-reports", asked)
        return f"{tree['at']} {told.out[0]}" if told.out else ""

    async def _next(self) -> list[Event]:
        """Return the events that have come; none where the interval was over first."""
        found: list[Event | BaseException] = []
        try:
            async with asyncio.timeout(self.looking.interval_ms / 1_000):
                found.append(await self._events.get())
        except TimeoutError:
            return []
        while not self._events.empty():
            found.append(self._events.get_nowait())
        events: list[Event] = []
        for each in found:
            if isinstance(each, BaseException):
                raise each
            events.append(each)
        return events


def _line(event: Event) -> str:
    """Return an event as a line; one that only a newer Quorate knows, by its tag."""
    try:
        _, known = event_from_json(event.tree())
        words = format_event(known)
    except QuorateError:
        words = event.tag
    return f"{event.seq} {time_text(event.at_ms)} {words}"
