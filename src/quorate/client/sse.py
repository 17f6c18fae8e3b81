"""A parser of server-sent events (HTML standard, section 9.2), fed with bytes as they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from quorate.client.errors import NotQuorateError

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximal length of one message. A block of the ledger is shorter."""


class Message(Struct, frozen=True, kw_only=True):
    """One message: its event type, its id, and its data."""

    kind: str
    id: str
    data: str

    def tree(self) -> Any:
        """Return the data as decoded JSON; None if there is no data."""
        if not self.data:
            return None
        try:
            return msgspec.json.decode(self.data)
        except msgspec.DecodeError:
            raise NotQuorateError(
                f"a message of the stream is not JSON: {self.data[:80]!r}"
            ) from None


class Messages(Struct):
    """Takes bytes as they arrive, and returns complete messages.

    If the connection is lost inside a message, the beginning of the message is dropped with this
    object: the service sends the whole message again.
    """

    _rest: bytearray = msgspec.field(default_factory=bytearray)
    _kind: str = ""
    _id: str = ""
    _has_id: bool = False
    _data: list[str] = msgspec.field(default_factory=list)
    _bytes: int = 0

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield the messages that ``chunk`` completes."""
        self._rest += chunk
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            found = self._line(bytes(line).rstrip(b"\r"))
            if found is not None:
                yield found
        if self._bytes + len(self._rest) > MESSAGE_BYTES_MAX:
            raise NotQuorateError(
                f"a message of the stream has over {MESSAGE_BYTES_MAX} bytes; "
                "is this a Quorate service?"
            )

    def _line(self, line: bytes) -> Message | None:
        self._bytes += len(line)
        if not line:
            return self._done()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id, self._has_id = value, True
        return None

    def _done(self) -> Message | None:
        found = None
        if self._data or self._kind or self._has_id:
            found = Message(kind=self._kind or "message", id=self._id, data="\n".join(self._data))
        self._kind, self._bytes, self._has_id = "", 0, False
        self._data = []
        return found
