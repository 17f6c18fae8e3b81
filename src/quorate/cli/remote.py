"""Sends requests to a service, and prints the responses as for a ledger's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from msgspec import Struct
from msgspec.structs import replace

from quorate.cli.answer_age import AgeKeeper
from quorate.cli.printing import Printouts, print_lines, print_tree
from quorate.cli.service_errors import command_error, interruptible, telling_why, uncertain_error
from quorate.cli.settings import CSV, Settings
from quorate.client.asker import Asker
from quorate.client.contexts import Target
from quorate.client.errors import RefusedError, UncertainError
from quorate.client.plain_http import driver_for
from quorate.client.retrying import Retrying
from quorate.operations.common_requests import MORE
from quorate.operations.operation import JSON_LINES, Effect, Operation
from quorate.operations.table import OPERATIONS
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.operations.answer_types import Answer

TRIES_MAX: Final = 4
"""How often a request is tried: enough for a restart of the service, but not too long for users."""
CSV_TYPE: Final = "text/csv"


def check_typed(settings: Settings) -> None:
    """Raise ``CommandError`` for an option that has no effect with a service."""
    typed = {"--actor": settings.actor_option, "--lock-timeout": settings.lock_timeout_option}
    for name, given in typed.items():
        if given is not None:
            raise CommandError(
                Exit.USAGE,
                f"{name}: is only for a ledger's file; leave it out: a service identifies the "
                "caller by its token",
            )


@contextmanager
def service(settings: Settings, target: Target, *, tries: int = TRIES_MAX) -> Iterator[Asker]:
    """Open a client of ``target``; turn the client's errors into errors that end the command."""
    check_typed(settings)
    with telling_why(target):
        driver = AgeKeeper(driver_for(target.place, timeout_s=settings.answer_timeout_s()))
        # After a timeout the user gets an error instead of another wait.
        with Asker(driver, Retrying(tries=tries, waits_again=False)) as client:
            try:
                yield client
            finally:
                driver.note()


def ask_service(
    settings: Settings,
    target: Target,
    name: str,
    questions: Sequence[Struct],
    line_of: Callable[[Any], str] | None,
    *,
    key: str | None,
) -> None:
    """Request one operation several times, and print each response.

    Tables are separated by empty lines. If ``line_of`` is given, the line that it returns for a
    request is printed instead of the response's table. ``key`` is the idempotency key of the whole
    command, or None if the operation takes no key.
    """
    printouts = Printouts(goes_on=OPERATIONS[name].effect is Effect.WRITE)
    with service(settings, target) as client:
        for position, asked in enumerate(questions):
            try:
                with interruptible(OPERATIONS[name], asked, key):
                    told = _told(settings, client, name, asked)
            except RefusedError as error:
                printouts.refuse(command_error(error, target))
                continue
            except UncertainError as error:
                raise uncertain_error(error, key or error.idempotency_key) from None
            if line_of is not None and settings.is_table:
                told = told._replace(shown=[line_of(asked)])
            is_apart = bool(position) and settings.is_table and line_of is None
            printouts.add(told.done, partial(_print, settings, told, is_apart=is_apart))
    printouts.check()


def service_answer(client: Asker, operation: Operation, asked: Struct) -> Answer:
    """Return the response of a service; the request is sent when the response is read."""
    from quorate.operations.answer_types import Answer

    name = operation.name
    return Answer(
        tree=lambda: client.ask_json(name, asked),
        lines=lambda wide: client.ask_text(name, asked, wide=wide).out,
        stream=(lambda: client.ask_lines(name, asked)) if operation.media == JSON_LINES else None,
    )


class _Told(NamedTuple):
    """A response: ``shown`` has the lines of a table, the text of CSV, or a tree."""

    shown: Any
    notes: Sequence[str]
    done: str = ""


def _told(settings: Settings, client: Asker, name: str, asked: Struct) -> _Told:
    """Return the response of a service in the requested format."""
    if settings.output == CSV:
        return _Told(*client.ask_json_and_notes(name, asked, accept=CSV_TYPE))
    if settings.is_table:
        text = client.ask_text(name, asked, wide=settings.wide)
        return _Told(text.out, text.err, text.done)
    tree, notes = all_pages(client, name, asked)
    return _Told(tree, notes, _done(tree))


def _print(settings: Settings, told: _Told, *, is_apart: bool) -> None:
    """Print a response, after an empty line if ``is_apart``; its notes go to stderr."""
    _aside(told.notes)
    if is_apart:
        click.echo()
    if settings.output == CSV:
        click.echo(told.shown, nl=False)
    elif settings.is_table:
        print_lines(told.shown)
    else:
        print_tree(settings, told.shown)


def _aside(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(note, err=True)


def all_pages(client: Asker, name: str, asked: Struct) -> tuple[Any, Sequence[str]]:
    """Return a response as a tree, with all pages of a list that was requested without a limit."""
    tree, notes = client.ask_json_and_notes(name, asked)
    if getattr(asked, "limit", 0) is not None or not hasattr(asked, "cursor"):
        return tree, notes
    while "next" in tree:
        more, notes = client.ask_json_and_notes(name, replace(asked, cursor=tree.pop("next")))
        tree["items"] += more.pop("items")
        tree |= more
    return tree, [note for note in notes if note != MORE]


def _done(tree: Any) -> str:
    """Return the recorded changes as text for an error message; empty if there are none."""
    head = tree.get("head") if isinstance(tree, dict) and "changes" in tree else None
    if not isinstance(head, dict) or not tree.get("events"):
        return ""
    return f"recorded up to sequence {head.get('sequence')}, receipt {head.get('receipt')}"
