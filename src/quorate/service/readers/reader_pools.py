"""The readers of one service: a pool for pages and lists, and a pool for answers made in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quorate.operations.answered_by import Place
from quorate.service.readers.read_pool import AnyReader, ReadPool
from quorate.service.readers.reader_process import ProcessConfig, RemoteReader
from quorate.service.readers.state_reader import Question, Reader, ReaderConfig
from quorate.service.reply import Form, Reply

PART_BYTES: Final = 64 * 1024
"""The size of one part of a long answer, after which other requests are answered."""


class ReaderPools:
    """The reader pools.

    Separate processes answer pages and lists if ``ledger``, the URL of the store, is given.
    """

    def __init__(self, config: ReaderConfig, ledger: str | None) -> None:
        # Answers in parts are made in this process, as their callers read them.
        self._streams = ReadPool(lambda: Reader(config))
        self._pages = ReadPool(_maker(config, ledger))

    def open(self) -> None:
        """Start accepting questions."""
        self._streams.open()
        self._pages.open()

    def close(self) -> None:
        """Accept no more questions, and end the readers."""
        self._pages.close()
        self._streams.close()

    async def ask(self, question: Question, place: Place) -> Reply:
        """Return the answer of a reader.

        Raises ``CommandError`` if the reader refuses the request, or if no reader is free.
        """
        room = self._streams if question.form is Form.LINES else self._pages
        return await room.ask(
            question.caller,
            lambda reader: reader.reply(question),
            is_long=place is not Place.PAGE,
            is_apart=question.operation.is_apart,
        )

    async def part_of(self, lines: Iterator[str]) -> bytes:
        """Return the next part of a long answer; empty at its end."""
        return await self._streams.run(lambda _: next_part(lines), goes_on=True)


def _maker(config: ReaderConfig, ledger: str | None) -> Callable[[], AnyReader]:
    """Return a function that makes readers."""
    if ledger is None:
        return lambda: Reader(config)
    process = ProcessConfig(ledger=ledger, beside=config.beside, is_executed=config.is_executed)
    return lambda: RemoteReader(process, config.clock)


def next_part(lines: Iterator[str]) -> bytes:
    """Return the next lines, about ``PART_BYTES`` bytes; empty at the end."""
    found: list[str] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if size >= PART_BYTES:
            break
    return "".join(found).encode()
