"""A small HTTP client that takes little CPU beside the service: keep-alive, one event loop.

In a *closed* load, each client sends its next request after the response to the last one, which
shows the highest rate of requests. In an *open* load, requests are sent at fixed instants, whether
or not earlier requests were answered. Its latencies count from the instant at which a request
should be sent, so a service that stalls cannot hide the delay of later requests.
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
    """The address of a service, and the token of a caller."""

    host: str
    port: int
    token: str

    def get(self, path: str) -> bytes:
        """Return the bytes of a GET request."""
        head = (
            f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\nAccept: application/json\r\n\r\n"
        )
        return head.encode()

    def post(self, path: str, body: bytes) -> bytes:
        """Return the bytes of a POST request."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(slots=True)
class Load:
    """The result of a load: its total seconds, and the seconds of each response."""

    seconds: float = 0.0
    latencies_s: list[float] = field(default_factory=list)


class Connection:
    """One kept-alive connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the response."""
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
    """Return the body of the response to ``request``, which must succeed."""
    async with connected(target, 1) as (connection,):
        status, body = await connection.ask(request)
        assert status == 200, body[:500]
        return body


async def closed_load(target: Target, requests: Sequence[bytes], clients: int) -> Load:
    """Send ``requests`` by ``clients`` clients in a closed load; return the result."""
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
    """Send ``requests`` at ``per_s`` requests per second; return the result."""
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
