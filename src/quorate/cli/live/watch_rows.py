"""``quorate get -w``: prints a table, and then each row that changes, until Ctrl-C."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import Callable
from typing import Final

import click
from msgspec import Struct

from quorate.cli.live.changed_rows import ChangedRows
from quorate.cli.remote import CSV_TYPE, check_typed
from quorate.cli.service_errors import telling_why
from quorate.cli.settings import Settings
from quorate.client.async_client import AsyncClient
from quorate.client.contexts import Target
from quorate.operations.resources.resource_operations import GetSystem
from quorate.views.exits import CommandError, Exit
from quorate.views.kinds.kind_table import KIND_OF

TRIES_MAX: Final = 20
"""How many times in a row the client tries to reconnect; the tries take some minutes."""
TOGETHER_S: Final = 0.2
"""How long to collect events before the list is requested again."""
LOOK_S: Final = 1.0
"""The interval between two reads of the head of a ledger's file."""
NOTHING: Final = "-"


def follow_rows(settings: Settings, kind: str, operation: str, asked: Struct) -> None:
    """Print the requested list, and then each row that changes, until Ctrl-C."""
    rows = ChangedRows(kind, KIND_OF[kind].columns, show_wide=settings.wide)
    target = settings.service()
    try:
        if target is None:
            _follow_file(settings, operation, asked, lambda text: _print(rows, text))
        else:
            check_typed(settings)
            with telling_why(target):
                asyncio.run(_follow_service(settings, target, (operation, asked), rows))
    except KeyboardInterrupt:
        raise CommandError(Exit.INTERRUPTED) from None


def _print(rows: ChangedRows, text: str) -> None:
    _, *found = csv.reader(io.StringIO(text))
    for line in rows.lines([[cell or NOTHING for cell in row] for row in found]):
        click.echo(line)


async def _follow_service(
    settings: Settings, target: Target, question: tuple[str, Struct], rows: ChangedRows
) -> None:
    async with AsyncClient.at(
        target.place, tries=TRIES_MAX, timeout_s=settings.answer_timeout_s()
    ) as client:
        moved = asyncio.Event()
        system = await client.ask_json("get-system", GetSystem())
        listening = asyncio.create_task(_listen(client, system["status"]["sequence"], moved))
        try:
            while not listening.done():
                moved.clear()
                text, _ = await client.ask_json_and_notes(*question, accept=CSV_TYPE)
                _print(rows, text)
                waiting = asyncio.create_task(moved.wait())
                await asyncio.wait({waiting, listening}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                await asyncio.sleep(TOGETHER_S)
            listening.result()
        finally:
            listening.cancel()


async def _listen(client: AsyncClient, seq: int, moved: asyncio.Event) -> None:
    """Set ``moved`` at each new event after ``seq`` that the caller may see."""
    async for _ in client.watch(seq + 1):
        moved.set()


def _follow_file(
    settings: Settings, operation: str, asked: Struct, show: Callable[[str], None]
) -> None:
    from quorate.cli.ask_and_print import answered
    from quorate.cli.session import open_to_read

    with open_to_read(settings) as store:
        while True:
            head = store.head()
            with answered(settings, operation, asked) as found:
                assert found.csv is not None, operation
                show(found.csv())
            while store.head() == head:
                time.sleep(LOOK_S)
