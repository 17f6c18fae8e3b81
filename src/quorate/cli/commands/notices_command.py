"""``quorate notices``: the notices of the caller, past and new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.operations.notices.notice_operations import WatchNotices

_LOOK_S: Final = 1.0
"""The interval between two reads of the ledger's file."""


@click.command(
    epilog=examples(
        "quorate notices",
        "quorate notices --kind run-cut --kind lottery-lost -o json",
        "quorate notices --from 1 --limit 5",
        "quorate notices -f --from 1 --count 1",
    )
)
@click.option("-f", "--follow", is_flag=True, help="Print new notices as they are recorded.")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind.  May be repeated."
)
@click.option(
    "--owner", metavar="NAME", help="Only notices of this owner.", shell_complete=names_of("owner")
)
@click.option("--from", "first", metavar="SEQ", type=click.IntRange(min=1), help="Begin here.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1, max=1_000),
    help="At most N notices: the first N after --from, else the last N.  [default: 50]",
)
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), help="With -f: end after N notices."
)
@reader
@click.pass_obj
def notices(
    settings: Settings,
    *,
    follow: bool,
    kinds: tuple[str, ...],
    owner: str | None,
    first: int | None,
    limit: int | None,
    count: int | None,
) -> None:
    """Show your notices.

    Notices report starts, cuts, lotteries, thresholds, lost nodes and exhausted budgets. Each
    notice has its numbers, and the next command to type. Notices are derived from the ledger, so
    that past notices can be read at any time. With -f, new notices are printed as they are
    recorded, one per line (with -o json one JSON object per line), until Ctrl-C or --count.
    """
    from quorate.operations.notices.notice_operations import (
        NOTICES_SHOWN,
        ListNotices,
        WatchNotices,
    )

    if follow:
        if limit is not None:
            raise click.UsageError("-f has no limit; remove --limit, or use --count N")
        if settings.output == "yaml":
            raise click.UsageError("-f prints one notice per line; use -o json, or remove -o")
        _follow(settings, WatchNotices(first=first, kinds=kinds, owner=owner), count)
        return
    if count is not None:
        raise click.UsageError("--count is for -f; add -f, or use --limit N")
    from quorate.cli.ask_and_print import ask

    asked = ListNotices(first=first, kinds=kinds, owner=owner, limit=limit or NOTICES_SHOWN)
    ask(settings, "list-notices", asked)


def _follow(settings: Settings, asked: WatchNotices, count: int | None) -> None:
    from itertools import islice

    target = settings.service()
    try:
        if target is None:
            for tree in islice(_of_file(settings, asked), count):
                _print(settings, tree)
            return
        from msgspec import to_builtins

        from quorate.cli.remote import service

        with service(settings, target) as client:
            for notice in islice(client.notices(asked), count):
                _print(settings, to_builtins(notice))
    except KeyboardInterrupt:
        # Ctrl-C is the usual way to stop following, so it is not an error.
        raise CommandError(Exit.INTERRUPTED) from None


def _of_file(settings: Settings, asked: WatchNotices) -> Iterator[dict[str, Any]]:
    """Yield the notices in the ledger's file, then each new notice; never ends."""
    from time import sleep

    from quorate.cli.session import clock_of, open_to_read
    from quorate.loop.engine import Engine
    from quorate.operations.caller import Caller
    from quorate.operations.notices.notice_handlers import watch_notices
    from quorate.operations.request_context import RequestContext
    from quorate.operations.table import OPERATIONS

    cursor = None if asked.first is None else asked.first - 1
    with open_to_read(settings) as store:
        while True:
            engine = Engine.open(store, clock_of(settings))
            context = RequestContext(engine, Caller.owner_of_file(settings.actor()))
            from_here = _from(asked, cursor)
            reading = watch_notices(context, from_here, OPERATIONS["watch-notices"])
            while reading.is_behind:
                for shown in reading.read(100):
                    yield shown.tree
            cursor = reading.cursor
            while store.head().seq == cursor:
                sleep(_LOOK_S)


def _from(asked: WatchNotices, cursor: int | None) -> WatchNotices:
    from msgspec.structs import replace

    return asked if cursor is None else replace(asked, first=cursor + 1)


def _print(settings: Settings, tree: dict[str, Any]) -> None:
    """Print one notice, and flush."""
    import json

    if settings.is_table:
        click.echo(f"{tree['seq']} {tree['at']} {tree['kind']}: {tree['text']}")
    else:
        click.echo(json.dumps(tree, ensure_ascii=False))
