"""A small HTTP/1.1 client over one socket, for a command that sends one request.

Importing http.client also imports the mail parser and TLS. This takes longer than the service takes
to respond.
Redirects, cookies and compression are not supported, because the service does not use them.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from msgspec import Struct

if TYPE_CHECKING:
    import ssl

LINE_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 100
CHUNK_BYTES: Final = 64 * 1024
_BODILESS: Final = (204, 304)
_FIRST_FINAL: Final = 200
_DEFAULT_PORTS: Final = (80, 443)


class NotHttpError(Exception):
    """The response is not HTTP, or is incomplete."""


class Response(Struct):
    """Status and headers of a response, and a reader of its body; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: Iterator[bytes]


class Exchange:
    """A connection to one service; ``sock`` is None while it is not connected."""

    def __init__(
        self, host: str, port: int | None, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self._host, self._tls, self._timeout_s = host, tls, timeout_s
        self._port = port or _DEFAULT_PORTS[tls is not None]
        self._reader: BinaryIO | None = None
        self.sock: socket.socket | None = None

    def connect(self) -> None:
        """Connect; raises ``OSError``."""
        # As bytes, an ASCII host name needs no IDNA codec, whose import takes milliseconds.
        host = self._host.encode() if self._host.isascii() else self._host
        address: Any = (host, self._port)
        sock = socket.create_connection(address, self._timeout_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise
        self.sock, self._reader = sock, sock.makefile("rb")

    def wait_at_most(self, silence_s: float) -> None:
        """From now on raise ``TimeoutError`` if no data arrives for ``silence_s``."""
        assert self.sock is not None, "connect first"
        self.sock.settimeout(silence_s)

    def is_ready(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s``, and return whether more of the response can be read."""
        sock, reader = self.sock, self._reader
        if sock is None or reader is None:
            return True  # At the end of the body, the reader returns at once.
        before_s = sock.gettimeout()
        sock.settimeout(0.0)
        try:
            # The buffer of the reader, or of TLS, may hold data that the socket has already
            # received.
            if reader.peek(1):  # type: ignore[attr-defined]  # a BufferedReader
                return True
        except OSError:
            pass  # TLS has no complete record yet. Any other error shows up at the next read.
        finally:
            sock.settimeout(before_s)
        return bool(select.select([sock], [], [], timeout_s)[0])

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._reader is not None:
            self._reader.close()
        if self.sock is not None:
            self.sock.close()
        self.sock = self._reader = None

    def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        """Send a request, read status and headers, and return the response.

        Raises ``OSError`` if the connection fails, ``NotHttpError`` if the response is not HTTP.
        """
        assert self.sock is not None, "connect first"
        self.sock.sendall(self._head(method, target, headers, body) + (body or b""))
        return self._answer(method)

    def _head(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        if self._port != _DEFAULT_PORTS[self._tls is not None]:
            host = f"{host}:{self._port}"
        sent = {"Host": host, "Accept-Encoding": "identity", **headers}
        if body is not None or method in ("POST", "PUT", "PATCH"):
            sent["Content-Length"] = str(len(body or b""))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {sent[name]}" for name in sent)]
        for line in lines:
            if not line.isprintable() or " " in target:
                raise ValueError(f"not valid in a header line of HTTP: {line!r}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _answer(self, method: str) -> Response:
        while True:
            version, status = self._status()
            headers = self._headers()
            if status >= _FIRST_FINAL:
                break
        is_kept = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if method == "HEAD" or status in _BODILESS:
            body = self._sized(0, is_kept=is_kept)
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunked(is_kept=is_kept)
        elif "content-length" in headers:
            length = headers["content-length"]
            if not (length.isascii() and length.isdecimal()):
                raise NotHttpError(f"the response has the length {length!r}")
            body = self._sized(int(length), is_kept=is_kept)
        else:
            body = self._to_the_end()
        return Response(status, headers, body)

    def _status(self) -> tuple[str, int]:
        line = self._line()
        version, _, rest = line.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdecimal()):
            raise NotHttpError(f"the response begins with {line[:60]!r}")
        return version, int(code)

    def _headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while line := self._line():
            name, colon, value = line.partition(":")
            if not colon or len(found) >= HEADERS_MAX:
                raise NotHttpError("the response has malformed or too many headers")
            name = name.strip().lower()
            value = value.strip()
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    def _line(self) -> str:
        """Return the next line; raises ``NotHttpError`` if the line is incomplete."""
        assert self._reader is not None, "connect first"
        line = self._reader.readline(LINE_BYTES_MAX + 1)
        if not line.endswith(b"\n"):
            raise NotHttpError("the answer broke off" if line else "the connection was closed")
        return line.rstrip(b"\r\n").decode("latin-1")

    def _sized(self, left: int, *, is_kept: bool) -> Iterator[bytes]:
        while left:
            part = self._part(left)
            left -= len(part)
            yield part
        self._done(is_kept=is_kept)

    def _chunked(self, *, is_kept: bool) -> Iterator[bytes]:
        while left := self._chunk_size():
            while left:
                part = self._part(left)
                left -= len(part)
                # Reads the data and the line end of the chunk together.
                if not left and self._line():
                    raise NotHttpError("a chunk of the response is longer than its stated size")
                yield part
        self._headers()  # Trailers may follow the last chunk.
        self._done(is_kept=is_kept)

    def _chunk_size(self) -> int:
        text = self._line().partition(";")[0].strip()
        try:
            size = int(text, 16)
        except ValueError:
            size = -1
        if size < 0:
            raise NotHttpError(f"a chunk of the response has the size {text[:20]!r}")
        return size

    def _to_the_end(self) -> Iterator[bytes]:
        assert self._reader is not None, "connect first"
        while part := self._read_some(CHUNK_BYTES):
            yield part
        self._done(is_kept=False)

    def _part(self, left: int) -> bytes:
        part = self._read_some(min(left, CHUNK_BYTES))
        if not part:
            raise NotHttpError("the answer broke off")
        return part

    def _read_some(self, most: int) -> bytes:
        """Return at most ``most`` bytes of the body that have arrived; empty at its end."""
        reader = self._reader
        assert reader is not None, "connect first"
        return reader.read1(most)  # type: ignore[attr-defined,no-any-return]  # a BufferedReader

    def _done(self, *, is_kept: bool) -> None:
        if not is_kept:
            self.close()
