"""TCP links that a test controls: each can be slowed, cut in one or both directions, or reset.

A link leads from a source to a target, both given by names. Bytes on a cut link wait until the link
is mended, like lost packets that are sent again; new connections get no answer until then. A
listener belongs to one source, or finds out which process has connected.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self, TypeVar

from tests.bounds import WAIT_S

T = TypeVar("T")

_CHUNK: Final = 1 << 16
_WAITING_MAX: Final = 100

Source = str | Callable[[int], str]
"""The name of the only source of a listener, or a function from the port of a connection to it."""


@dataclass(slots=True)
class Link:
    """What happens to bytes in transit; ``there`` is the way from the source to the target."""

    delay_s: float = 0.0
    there: asyncio.Event = field(default_factory=asyncio.Event)
    back: asyncio.Event = field(default_factory=asyncio.Event)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Let all bytes pass."""
        self.there.set()
        self.back.set()


class Links:
    """All links of a test, on a separate thread that runs until the end of the block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="links")
        self._links: dict[tuple[str, str], Link] = {}
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def listen(self, source: Source, target: str, port: int) -> int:
        """Return the port of a new listener that forwards connections to ``port`` of ``target``."""
        # The connection is accepted here and not by a server of asyncio, which leaves sockets open
        # that it accepted just before it is closed.
        listening = socket.create_server(("127.0.0.1", 0), backlog=_WAITING_MAX)
        listening.settimeout(0.0)

        def accept() -> None:
            accepted, (_, caller) = listening.accept()
            name = source if isinstance(source, str) else source(caller)
            task = self._loop.create_task(self._join(self._link(name, target), accepted, port))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            # A task that is cancelled before its first step closes nothing by itself.
            task.add_done_callback(lambda _: accepted.close())

        async def begin() -> int:
            self._listening.append(listening)
            self._loop.add_reader(listening, accept)
            number: int = listening.getsockname()[1]
            return number

        return self._do(begin())

    def cut(
        self, pairs: Iterable[tuple[str, str]], *, there: bool = True, back: bool = True
    ) -> None:
        """Stop the bytes from these sources to these targets, or ``back``, or both."""

        async def change() -> None:
            for source, target in pairs:
                link = self._link(source, target)
                if there:
                    link.there.clear()
                if back:
                    link.back.clear()

        self._do(change())

    def slow(self, pairs: Iterable[tuple[str, str]], delay_s: float) -> None:
        """Delay all bytes on these links by ``delay_s``, in both directions."""

        async def change() -> None:
            for source, target in pairs:
                self._link(source, target).delay_s = delay_s

        self._do(change())

    def reset(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Close every connection of these links at once; new connections are possible."""

        async def change() -> None:
            for source, target in pairs:
                for writer in self._link(source, target).writers:
                    writer.transport.abort()

        self._do(change())

    def count(self, source: str, target: str) -> int:
        """Return the number of open connection ends of the link."""

        async def look() -> int:
            return len(self._link(source, target).writers)

        return self._do(look())

    def mend(self, pairs: Iterable[tuple[str, str]] | None = None) -> None:
        """Remove cuts and delays from these links, by default from all links."""

        async def change() -> None:
            for source, target in list(self._links) if pairs is None else pairs:
                link = self._link(source, target)
                link.delay_s = 0.0
                link.there.set()
                link.back.set()

        self._do(change())

    def _link(self, source: str, target: str) -> Link:
        return self._links.setdefault((source, target), Link())

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(WAIT_S)

    async def _join(self, link: Link, accepted: socket.socket, port: int) -> None:
        """Carry bytes between a connection and the target until one of them closes."""
        ends: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=accepted)
            ends.append(writer)
            await link.there.wait()
            there, back = await asyncio.open_connection("127.0.0.1", port)
            ends.append(back)
            link.writers.update(ends)
            async with asyncio.TaskGroup() as both:
                both.create_task(_carry(link, link.there, reader, back))
                both.create_task(_carry(link, link.back, there, writer))
        except* OSError:
            pass  # The target or one end is closed; the other is closed below.
        finally:
            link.writers.difference_update(ends)
            for each in ends:
                each.transport.abort()
            for each in ends:
                with suppress(OSError):
                    await each.wait_closed()

    async def _close(self) -> None:
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        while self._tasks:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(
    link: Link, is_open: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while chunk := await reader.read(_CHUNK):
        if link.delay_s:
            await asyncio.sleep(link.delay_s)
        await is_open.wait()
        writer.write(chunk)
        await writer.drain()
    raise ConnectionAbortedError


def process_of(port: int, pids: Iterable[int]) -> int | None:
    """Return which of the processes ``pids`` has the local end of a connection from ``port``."""
    inode = _inode_of(port)
    if inode is None:
        return None
    for pid in pids:
        with suppress(OSError):
            for opened in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if str(opened.readlink()) == f"socket:[{inode}]":
                        return pid
    return None


def _inode_of(port: int) -> str | None:
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1] == f"0100007F:{port:04X}":
            return fields[9]
    return None
