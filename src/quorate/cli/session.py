"""Opens a ledger for one command: to read its current state, or to write.

Readers never take the writer's lock. For readers, holds that have run out since the last event are
settled in memory only, so that amounts are exact to the millisecond. The next command that writes
records these changes.
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
from quorate.model.state.state_view import StateView
from quorate.ports.clock_port import Clock
from quorate.ports.errors import LedgerNotFoundError
from quorate.ports.store_port import EventStore
from quorate.views.exits import CommandError, Exit
from quorate.views.runs.instant import Moment

if TYPE_CHECKING:
    from quorate.client.contexts import Target

NAMES_MAX: Final = 3
"""If the work of some runs keeps a command from writing, how many of them the error names."""


def clock_of(settings: Settings) -> Clock:
    """Return the clock to use."""
    return SystemClock() if settings.clock is None else settings.clock


def check_file(settings: Settings) -> None:
    """Raise ``CommandError`` if a service is chosen: the command works only on a ledger's file."""
    target = settings.service()
    if target is not None:
        raise CommandError(
            Exit.USAGE,
            f"this command needs a ledger's file, but {target.words} is chosen; name the file with "
            "--ledger PATH, or use --context file",
        )


def on_file(settings: Settings, command: str) -> Target | None:
    """Return the chosen service, and print a note that ``command`` uses a ledger's file.

    Raises ``CommandError`` if an option of this command chose the service. A faulty context is only
    reported, because ``command`` does not need a context.
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
            f"{target.why}: {command} works on a ledger's file, not on a service; remove this "
            "option",
        )
    click.echo(f"note: {command} works on a ledger's file, not on {target.words}", err=True)
    return target


def open_to_read(settings: Settings) -> EventStore:
    """Return the ledger, for reading only."""
    check_file(settings)
    with _advised(settings):
        return read_store(settings.ledger)


def open_to_write(settings: Settings) -> EventStore:
    """Return the ledger, for writing; waits for another writer up to the lock timeout."""
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
    """Raise ``CommandError`` while work of the ledger's service is still running.

    A command cannot see when this work ends, and would give its GPUs to other runs too early.
    """
    from quorate.adapters.executors.keepers import kept_runs, work_folder

    kept = kept_runs(work_folder(settings.ledger_path))
    if kept:
        raise CommandError(
            Exit.REFUSED,
            f"work of this ledger is still running ({counted(len(kept), 'run')}: "
            f"{', '.join(kept[:NAMES_MAX])}), and only the ledger's service can record its end; "
            "start the service: quorate serve --executor local",
        )


@contextmanager
def _advised(settings: Settings) -> Iterator[None]:
    """If the ledger does not exist, raise an error with the command that creates it."""
    try:
        yield
    except LedgerNotFoundError as error:
        command = shlex.join(["quorate", *settings.prefix, "init"])
        raise CommandError(
            Exit.UNUSABLE, f"there is no ledger at {error.path}; create one with: {command}"
        ) from None


def as_of(view: StateView, now_ms: int) -> Moment:
    """Return the state at ``now_ms``: ``view`` after all holds that have run out are settled."""
    log = DecisionLog(view, now_ms=now_ms, actor="reader")
    settle_holds(log)
    return Moment(log.view, now_ms, view.seq)
