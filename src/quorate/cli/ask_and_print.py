"""Requests an operation, from the ledger's file or from a service, and prints the response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec import Struct

from quorate.cli.printing import Printouts, print_lines, print_tree, telling
from quorate.cli.settings import CSV, Settings
from quorate.cli.typed_keys import with_keys
from quorate.operations.caller import Caller
from quorate.operations.operation import DRY_RUN, Effect, Operation
from quorate.operations.table import OPERATIONS
from quorate.views.exits import UNKNOWN_NAME, CommandError

if TYPE_CHECKING:
    from pathlib import Path

    from quorate.operations.answer_types import Answer
    from quorate.operations.request_context import AnyContext
    from quorate.ports.log_port import Logs


def ask(settings: Settings, name: str, asked: Struct) -> None:
    """Request the operation ``name`` and print its response."""
    ask_each(settings, name, [asked])


def ask_each(
    settings: Settings,
    name: str,
    questions: Sequence[Struct],
    line_of: Callable[[Any], str] | None = None,
) -> None:
    """Request one operation several times, and print each response.

    Tables are separated by empty lines. If ``line_of`` is given, the line that it returns for a
    request is printed instead of the response's table. An operation that writes is requested for
    each of ``questions``, even if the output was closed or a request was refused.
    """
    operation = OPERATIONS[name]
    questions, key = with_keys(settings, operation, questions)
    target = settings.service()
    if target is not None:
        from quorate.cli.remote import ask_service

        ask_service(settings, target, name, questions, line_of, key=key)
        return
    from dataclasses import replace

    from quorate.operations.answering import answer

    printouts = Printouts(goes_on=operation.effect is Effect.WRITE)
    with ledger_context(settings, operation, questions[0]) as context:
        for position, asked in enumerate(questions):
            try:
                found = answer(context, operation, asked)
            except CommandError as error:
                printouts.refuse(error)
                continue
            if line_of is not None and settings.is_table:
                found = replace(found, lines=partial(_only, line_of(asked)))
            is_apart = bool(position) and settings.is_table and line_of is None
            printouts.add(found.done, partial(_print_next, settings, found, is_apart=is_apart))
        printouts.check()


def _only(line: str, _wide: bool) -> list[str]:
    return [line]


def _print_next(settings: Settings, found: Answer, *, is_apart: bool) -> None:
    if is_apart:
        click.echo()
    _print(settings, found)


def tree_asked(settings: Settings, name: str, asked: Struct) -> Any:
    """Return the response of an operation as a tree, with all pages of a list; print nothing."""
    (asked,), key = with_keys(settings, OPERATIONS[name], [asked])
    target = settings.service()
    if target is not None:
        from quorate.cli.remote import all_pages, service
        from quorate.cli.service_errors import interruptible

        with service(settings, target) as client, interruptible(OPERATIONS[name], asked, key):
            return all_pages(client, name, asked)[0]
    from quorate.operations.answering import answer

    operation = OPERATIONS[name]
    with ledger_context(settings, operation, asked) as context:
        return answer(context, operation, asked).tree()


class OwnRuns(NamedTuple):
    """Identifies the caller's own runs by user and owner.

    In a ledger's file, and also if the caller has no owner, the user alone identifies the runs.
    """

    user: str
    owner: str | None

    def has(self, user: str, owner: str) -> bool:
        """Return whether a run of ``user`` and ``owner`` is the caller's.

        Users of different owners may have the same name.
        """
        return user == self.user and self.owner in (None, owner)


def own_runs(settings: Settings, *, to_cancel: bool = False) -> OwnRuns:
    """Return the user and the owner that identify the caller's own runs.

    With ``to_cancel``, raises ``UsageError`` if the caller of a service has no owner. Otherwise the
    command would cancel the runs of all users who have the caller's name, under any owner.
    """
    from quorate.operations.common_requests import Nothing

    caller = tree_asked(settings, "whoami", Nothing())
    user, tenant = caller["user"], caller.get("tenant") or None
    if to_cancel and tenant is None and settings.service() is not None:
        raise click.UsageError(
            f"your token has no owner, and several owners may have a user {user!r}; to cancel the "
            f"runs of all of them, write: --user {user}"
        )
    return OwnRuns(user, None if settings.service() is None else tenant)


@contextmanager
def answered(settings: Settings, name: str, asked: Struct) -> Iterator[Answer]:
    """Request the operation ``name``; its response can be read inside the ``with`` block."""
    operation = OPERATIONS[name]
    target = settings.service()
    if target is not None:
        from quorate.cli.remote import service, service_answer

        with service(settings, target) as client:
            yield service_answer(client, operation, asked)
        return
    from quorate.operations.answering import answer

    with ledger_context(settings, operation, asked) as context:
        yield answer(context, operation, asked)


@contextmanager
def ledger_context(settings: Settings, operation: Operation, asked: Struct) -> Iterator[AnyContext]:
    """Open the ledger's file to read or to write, as the operation needs; a dry run only reads.

    An error about an unknown name gets a note with the ledger's path.
    """
    try:
        with _opened(settings, operation, asked) as context:
            yield context
    except CommandError as error:
        if error.fault == UNKNOWN_NAME:
            error.add_note(f"searched: the ledger {settings.ledger}")
        raise


@contextmanager
def _opened(settings: Settings, operation: Operation, asked: Struct) -> Iterator[AnyContext]:
    # These modules decide. A command for a service decides nothing, so it does not import them.
    from quorate.adapters.key_file import key_path, load_lottery_secret, lottery_path
    from quorate.adapters.lottery_seal import KeyFileSeal
    from quorate.cli.session import clock_of, open_to_read, open_to_write
    from quorate.cli.signing import file_signer
    from quorate.loop.engine import Engine
    from quorate.operations.request_context import BlocksContext, RequestContext

    caller = Caller.owner_of_file(settings.actor())
    clock, secret = clock_of(settings), None
    if operation.of_blocks:
        signer = file_signer(settings.ledger_path)
        with open_to_read(settings) as store:
            yield BlocksContext(
                store=store, clock=clock, caller=caller, name=settings.ledger, signer=signer
            )
        return
    if operation.effect is not Effect.WRITE or getattr(asked, DRY_RUN):
        opened = open_to_read(settings)
    else:
        lottery = lottery_path(settings.ledger_path)
        # If the lottery's secret is beside the ledger, conflicts that are due are settled, too.
        secret = load_lottery_secret(lottery) if lottery.exists() else None
        opened = open_to_write(settings)
    with opened as store:
        seal = KeyFileSeal(key_path(settings.ledger_path))
        engine = Engine.open(store, clock, lottery_secret=secret, lottery_seal=seal)
        yield RequestContext(
            engine,
            caller,
            settings.prefix,
            settings.ledger,
            logs=kept_logs_beside(settings.ledger_path),
        )


def kept_logs_beside(ledger: Path) -> Logs | None:
    """Return the stored output of the ledger's runs; None if no service has run any of them."""
    from quorate.adapters.executors.keepers import work_folder
    from quorate.adapters.executors.logs_local import LocalLogs

    folder = work_folder(ledger)
    return LocalLogs(folder) if folder.is_dir() else None


def print_answer(settings: Settings, found: Answer) -> None:
    """Print a response in the requested format; its notes go to stderr."""
    with telling(found.done) if found.done else nullcontext():
        _print(settings, found)


def _print(settings: Settings, found: Answer) -> None:
    for note in found.notes:
        click.echo(note, err=True)
    if settings.output == CSV:
        assert found.csv is not None, "only commands with a CSV response offer -o csv"
        click.echo(found.csv(), nl=False)
        return
    if not settings.is_table:
        print_tree(settings, found.tree())
        return
    print_lines(found.lines(settings.wide))
