"""A ledger, open for one command: to read as of now, or to write.

Readers never take the writer's lock. What time has made due since the last event (holds that ran
out) is settled for them in an overlay, so that amounts are right to the millisecond; it is recorded
by the next command that writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.store_sqlite import SqliteStore
from quorate.cli.settings import Settings
from quorate.core.lifecycle import settle_holds
from quorate.core.scribe import Scribe
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.model.specs import DEFAULT_POOL
from quorate.model.view import StateView
from quorate.ports.clock import Clock
from quorate.ports.store import EventStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The state at ``now_ms``. ``recorded`` is what the ledger says, ``view`` has holds settled."""

    view: StateView
    recorded: StateView
    now_ms: int
    head: Head
    store: EventStore


def clock_of(settings: Settings) -> Clock:
    """Return the clock to ask."""
    return SystemClock() if settings.clock is None else settings.clock


@contextmanager
def reading(settings: Settings, *, quiet: bool = False) -> Iterator[Reading]:
    """Open the ledger for reading; unless ``quiet``, stderr says what is due and not recorded."""
    with SqliteStore.read(Path(settings.ledger)) as store:
        engine = Engine.open(store, clock_of(settings))
        now_ms = engine.now_ms()
        view, due = as_of(engine.view, now_ms)
        if due and not quiet:
            click.echo(
                f"note: {due} changes are due by now and shown, but not yet recorded; "
                "record them: quorate tick",
                err=True,
            )
        yield Reading(view=view, recorded=engine.view, now_ms=now_ms, head=engine.head, store=store)


def as_of(view: StateView, now_ms: int) -> tuple[StateView, int]:
    """Return ``view`` with holds settled as of ``now_ms``, and how many events that would take."""
    scribe = Scribe(view, now_ms=now_ms, actor="reader")
    settle_holds(scribe)
    settled = scribe.view
    _place_nodes(settled)
    return settled, len(scribe.events)


@contextmanager
def writing(settings: Settings, *, dry_run: bool) -> Iterator[Engine]:
    """Open the ledger for writing; a dry run opens it for reading, and so cannot write."""
    path = Path(settings.ledger)
    with SqliteStore.read(path) if dry_run else SqliteStore.open(path) as store:
        engine = Engine.open(store, clock_of(settings))
        _place_nodes(engine.view)
        yield engine


def _place_nodes(view: StateView) -> None:
    """Let nodes that were read from the log join the topology, which is done when it is asked for."""
    view.domain_order(DEFAULT_POOL, "")
