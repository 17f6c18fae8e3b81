"""Many clients of one service in one event loop: plain streams, which cost little."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

HEAD_END: Final = b"\r\n\r\n"
FRAME_END: Final = b"\n\n"
PART_BYTES: Final = 64 * 1024
"""The most bytes of a stream that wait in this process to be read."""


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection; the other side may have closed it before."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@dataclass(frozen=True)
class Place:
    """The address of a service, and the caller's token."""

    host: str
    port: int
    token: str

    def request(self, method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
        """Return the bytes of a request."""
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {self.token}",
            *headers,
            *([f"Content-Length: {len(body)}", "Content-Type: application/json"] if body else []),
        ]
        return "\r\n".join(lines).encode() + HEAD_END + body

    async def ask(self, method: str, path: str, tree: object = None, *headers: str) -> Any:
        """Return the JSON of a successful answer, over a separate connection."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        body = b"" if tree is None else json.dumps(tree).encode()
        writer.write(self.request(method, path, body, "Connection: close", *headers))
        try:
            head, _, answer = (await reader.read()).partition(HEAD_END)
        finally:
            await closed(writer)
        assert head.startswith(b"HTTP/1.1 200 "), (head, answer)
        return json.loads(answer)


@dataclass
class Told:
    """What watchers received, event by event: all of them must receive the same bytes."""

    frames: dict[int, bytes] = field(default_factory=dict)

    def check(self, seq: int, frame: bytes) -> None:
        """Raise an error if an earlier watcher received other bytes."""
        assert self.frames.setdefault(seq, frame) == frame, (frame, self.frames[seq])


class Watcher:
    """A watcher of everything after ``cursor``; a gap or a repeated event is an error."""

    def __init__(self, place: Place, told: Told, cursor: int) -> None:
        self._place = place
        self._told = told
        self.cursor = cursor
        self.events = 0
        self.parting: tuple[str, dict[str, Any]] | None = None
        self._rest = b""
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, receive_bytes: int | None = None) -> None:
        """Begin to watch, with a small receive buffer if requested."""
        await self.close()
        self.parting, self._rest = None, b""
        bare = socket.socket()
        if receive_bytes is not None:
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        bare.setblocking(False)  # noqa: FBT003 - as sockets are told
        place = (self._place.host, self._place.port)
        await asyncio.get_running_loop().sock_connect(bare, place)
        self._reader, self._writer = await asyncio.open_connection(sock=bare, limit=PART_BYTES)
        path = f"/api/v1/watch?from={self.cursor + 1}"
        self._writer.write(self._place.request("GET", path))

    async def begin(self) -> None:
        """Return when the service has begun to send."""
        head = await self._reader.readuntil(HEAD_END)
        assert head.startswith(b"HTTP/1.1 200 "), head + await self._reader.read(1_000)

    async def read_to(self, seq: int) -> None:
        """Read until event ``seq`` has arrived, or the service has said why it ends the watch."""
        while self.cursor < seq and self.parting is None:
            await self._read_part()

    async def read_on(self) -> None:
        """Read until the service has said why it ends the watch."""
        while self.parting is None:
            await self._read_part()

    async def _read_part(self) -> None:
        size = int(await self._reader.readline(), 16)
        self._take((await self._reader.readexactly(size + 2))[:-2])

    async def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            await closed(self._writer)

    def _take(self, part: bytes) -> None:
        *frames, self._rest = (self._rest + part).split(FRAME_END)
        for frame in frames:
            if not frame.startswith(b"id: "):
                # A heartbeat, which must not move the cursor beyond the events that were sent.
                assert frame == b": at %d\nid: %d" % (self.cursor, self.cursor), frame
                continue
            head, _, data = frame.partition(b"\ndata: ")
            number, _, kind = head.removeprefix(b"id: ").partition(b"\nevent: ")
            if kind in (b"dropped", b"stopping"):
                self.parting = (kind.decode(), json.loads(data))
                assert int(number) == self.cursor, (number, self.cursor)
                continue
            assert int(number) == self.cursor + 1, f"{number!r} came after {self.cursor}"
            self.cursor += 1
            self.events += 1
            self._told.check(self.cursor, frame)
