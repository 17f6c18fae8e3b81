"""Many clients of one service in one event loop: bare streams, which cost little."""

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
"""How much of a stream waits in this process to be read."""


async def closed(writer: asyncio.StreamWriter) -> None:
    """Return when a connection is closed; the other side may have been faster."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@dataclass(frozen=True)
class Place:
    """Where a service answers, and who asks it."""

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
        """Return a good answer, asked for on a connection of its own."""
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
    """What the watchers were told, event by event: the same bytes for all of them."""

    frames: dict[int, bytes] = field(default_factory=dict)

    def check(self, seq: int, frame: bytes) -> None:
        """Raise unless everybody before was told the same."""
        assert self.frames.setdefault(seq, frame) == frame, (frame, self.frames[seq])


class Watcher:
    """One who follows everything from after ``cursor`` on; a gap or a repeat is an error."""

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
        """Ask to follow, on a connection on which little waits to be read if that is wanted."""
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
        """Return when it is being told."""
        head = await self._reader.readuntil(HEAD_END)
        assert head.startswith(b"HTTP/1.1 200 "), head + await self._reader.read(1_000)

    async def read_to(self, seq: int) -> None:
        """Read on until event ``seq`` was seen, or the other side has said why it ends."""
        while self.cursor < seq and self.parting is None:
            await self._read_part()

    async def read_on(self) -> None:
        """Read on until the other side has said why it ends."""
        while self.parting is None:
            await self._read_part()

    async def _read_part(self) -> None:
        size = int(await self._reader.readline(), 16)
        self._take((await self._reader.readexactly(size + 2))[:-2])

    async def close(self) -> None:
        """Go."""
        if self._writer is not None:
            await closed(self._writer)

    def _take(self, part: bytes) -> None:
        *frames, self._rest = (self._rest + part).split(FRAME_END)
        for frame in frames:
            if not frame.startswith(b"id: "):
                # A beat, which may not move the cursor beyond what was told.
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
