"""A ledger, open for one command: to read as of now, or to write.

Readers never take the writer's lock. What time has made due since the last event (holds that ran
out) is settled for them in an overlay, so that amounts are right to the millisecond; it is recorded
by the next command that writes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_urls import open_store, read_store
from quorate.cli.settings import Settings
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.settle import settle_holds
from quorate.model.closed_words import counted
from quorate.model.events import RunRequeued
from quorate.model.state.state_view import StateView
from quorate.ports.clock_port import Clock
from quorate.ports.errors import LedgerNotFoundError
from quorate.ports.store_port import EventStore
from quorate.views.exits import CommandError, Exit
from quorate.views.runs.instant import Moment

if TYPE_CHECKING:
    from quorate.client.contexts import Target

NAMES_MAX: Final = 3
"""How many runs are named that keep a command from writing."""


def clock_of(settings: Settings) -> Clock:
    """Return the clock to ask."""
    return SystemClock() if settings.clock is None else settings.clock


def check_file(settings: Settings) -> None:
    """Raise ``CommandError`` where a service is chosen: this works on a ledger's file alone."""
    target = settings.service()
    if target is not None:
        raise CommandError(
            Exit.USAGE,
            f"this works on a ledger's file, and {target.words} is chosen; say which file with "
            "--ledger PATH, or leave the service with --context file",
        )


def on_file(settings: Settings, command: str) -> Target | None:
    """Return the service that is chosen, and say that ``command`` works on a ledger's file.

    Raises ``CommandError`` where it was chosen for this very command. A context that cannot be used
    is none of this command's business: it is named, and the command goes on.
    """
    try:
        target = settings.service()
    except CommandError as error:
        if error.code is Exit.USAGE or settings.context_option is not None:
            raise
        for line in error.lines:
            click.echo(f"note: {command} needs no context; {line}", err=True)
        return None
    if target is None:
        return None
    if target.why in ("--context", "--server"):
        raise CommandError(
            Exit.USAGE,
            f"{target.why}: {command} works on a ledger's file, not on a service; leave this "
            "option out",
        )
    click.echo(f"note: {command} works on a ledger's file; {target.words} is not asked", err=True)
    return target


def open_to_read(settings: Settings) -> EventStore:
    """Return the ledger, for reading only."""
    check_file(settings)
    with _advised(settings):
        return read_store(settings.ledger)


def open_to_write(settings: Settings) -> EventStore:
    """Return the ledger, for writing; another writer is waited for as long as the settings say."""
    check_file(settings)
    wait_s = settings.lock_timeout_s()
    with _advised(settings):
        store = open_store(settings.ledger, wait_s=wait_s)
    try:
        _check_kept(settings)
    except BaseException:
        store.close()
        raise
    return store


def _check_kept(settings: Settings) -> None:
    """Raise ``CommandError`` while work runs that the ledger's service has started.

    This command could not see its processes end, and their GPUs would be given away.
    """
    from quorate.adapters.executors.keepers import kept_runs, work_folder

    kept = kept_runs(work_folder(settings.ledger_path))
    if kept:
        raise CommandError(
            Exit.REFUSED,
            f"work of this ledger goes on here ({counted(len(kept), 'run')}: "
            f"{', '.join(kept[:NAMES_MAX])}), and only its service sees it go; start it: quorate "
            "serve --executor local",
        )


@contextmanager
def _advised(settings: Settings) -> Iterator[None]:
    """Tell how to make the ledger that was named, where there is none."""
    try:
        yield
    except LedgerNotFoundError as error:
        command = shlex.join(["quorate", *settings.prefix, "init"])
        raise CommandError(
            Exit.UNUSABLE, f"there is no ledger at {error.path}; create one with: {command}"
        ) from None


def as_of(view: StateView, now_ms: int, *, notify: bool = False) -> Moment:
    """Return the state at ``now_ms``: ``view`` with the holds settled that ran out by then."""
    log = DecisionLog(view, now_ms=now_ms, actor="reader")
    settle_holds(log)
    settled = log.view
    stopped = [event.run for event in log.events if isinstance(event, RunRequeued)]
    if stopped and notify:
        click.echo(
            f"note: the money of {', '.join(stopped)} has ended, which is shown and not yet "
            "recorded; record it: quorate tick",
            err=True,
        )
    return Moment(settled, now_ms, view.seq)
