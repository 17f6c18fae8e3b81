"""A small HTTP client that costs little beside the service it loads: keep-alive, one event loop.

A *closed* load sends the next request of a client when the last one was answered, and finds how
many a second there can be. An *open* load sends them at fixed instants, answered or not, and a
latency counts from the instant at which a request was to be sent: a service that stalls cannot
make the requests it kept waiting look quick.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter

HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go, and by whom."""

    host: str
    port: int
    token: str

    def get(self, path: str) -> bytes:
        """Return the bytes of a request without a body."""
        head = (
            f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\nAccept: application/json\r\n\r\n"
        )
        return head.encode()

    def post(self, path: str, body: bytes) -> bytes:
        """Return the bytes of a request."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(slots=True)
class Load:
    """The result of a load: the seconds it took in all, and those of each response."""

    seconds: float = 0.0
    latencies_s: list[float] = field(default_factory=list)


class Connection:
    """One connection, kept alive; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        self._writer.write(request)
        head = await self._reader.readuntil(HEAD_END)
        lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await self._reader.readexactly(int(fields["content-length"]))
        return int(lines[0].split(" ", 2)[1]), body


@asynccontextmanager
async def connected(target: Target, count: int) -> AsyncIterator[list[Connection]]:
    """Yield ``count`` open connections."""
    pairs = [await asyncio.open_connection(target.host, target.port) for _ in range(count)]
    try:
        yield [Connection(*pair) for pair in pairs]
    finally:
        for _, writer in pairs:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in pairs))


async def ask_once(target: Target, request: bytes) -> bytes:
    """Return the body of a good answer to one request."""
    async with connected(target, 1) as (connection,):
        status, body = await connection.ask(request)
        assert status == 200, body[:500]
        return body


async def closed_load(target: Target, requests: Sequence[bytes], clients: int) -> Load:
    """Return what sending ``requests`` by so many clients came to."""
    load, waiting = Load(), deque(requests)

    async def client(connection: Connection) -> None:
        while waiting:
            request = waiting.popleft()
            start = perf_counter()
            status, body = await connection.ask(request)
            load.latencies_s.append(perf_counter() - start)
            assert status == 200, body[:500]

    async with connected(target, clients) as connections:
        start = perf_counter()
        await asyncio.gather(*map(client, connections))
        load.seconds = perf_counter() - start
    return load


async def open_load(target: Target, requests: Sequence[bytes], clients: int, per_s: float) -> Load:
    """Return what sending ``requests`` at so many a second came to."""
    load = Load()
    async with connected(target, clients) as connections:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in connections:
            free.put_nowait(connection)

        async def send(request: bytes, due: float) -> None:
            connection = await free.get()
            status, body = await connection.ask(request)
            load.latencies_s.append(perf_counter() - due)
            assert status == 200, body[:500]
            free.put_nowait(connection)

        start = perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number, request in enumerate(requests):
                due = start + number / per_s
                await asyncio.sleep(due - perf_counter())
                tasks.create_task(send(request, due))
        load.seconds = perf_counter() - start
    return load
