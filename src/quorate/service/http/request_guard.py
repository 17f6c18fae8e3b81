"""The guard: runs before all else, and rejects requests that are too large, too slow or malformed.

The guard also gives each request its id, and logs the result of each request.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quorate.service.metrics.registry import UNKNOWN, Metrics, Request
from quorate.service.problem_json import Headers, problem, problem_of
from quorate.service.request_log import KEY, Handled, request_id_of
from quorate.service.request_queue import unsure
from quorate.views.statuses import TOO_LARGE, UNAVAILABLE, USAGE

_LOG = logging.getLogger(__name__)

PATH_BYTES_MAX: Final = 4_096
QUERY_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_PER_S_MIN: Final = 16 * 1024
"""The lowest rate at which a body must arrive; the first seconds of a body are not measured."""
ABORT: Final = "quorate.abort"
"""The ASGI scope extension that aborts a connection."""
COMING: Final = "quorate.coming"
"""The ASGI scope extension with the function that stops counting a request as arriving."""
_ONCE: Final = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"if-match",
        b"if-none-match",
        b"last-event-id",
    }
)
_READ: Final = _ONCE | {b"accept"}
"""Headers that this service reads as text."""
_READING: Final = ("GET", "HEAD")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ALWAYS: Final[Headers] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on one request, and on all requests together."""

    body_bytes_max: int
    header_bytes_max: int
    concurrent_max: int
    slow_s_max: float


class GoneError(Exception):
    """The caller does not read the response, or has disconnected; no response can be sent."""


async def gone(receive: Receive) -> None:
    """Wait until the caller has disconnected; the whole request must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Guard:
    """Wraps the application, and counts every request in ``metrics`` when the request ends."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or send the reason why it is rejected."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._metrics.request("rest") as counted:
            await self._answer(_Exchange(scope, (receive, send), self._limits, counted))

    async def _answer(self, exchange: _Exchange) -> None:
        self._under_way += 1
        try:
            if self._under_way > self._limits.concurrent_max:
                await exchange.refuse(
                    problem(
                        UNAVAILABLE,
                        f"{self._limits.concurrent_max} requests are under way, which is the "
                        f"limit; ask again in a second",
                    )
                )
                return
            await exchange.run(self._app)
        finally:
            self._under_way -= 1
            exchange.end()


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, scope: Scope, ends: tuple[Receive, Send], limits: Limits, counted: Request
    ) -> None:
        self._scope = scope
        self._receive, self._send = ends
        self._limits = limits
        self._counted = counted
        self._received = 0
        self._is_read = False
        self._has_begun = False
        self._has_ended = False
        sent = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        self.handled = Handled(
            request_id=request_id_of(sent),
            method=scope["method"],
            path=scope["raw_path"].decode("latin-1"),
            began_s=monotonic(),
        )
        scope[KEY] = self.handled

    async def run(self, app: ASGIApp) -> None:
        """Call ``app``, which answers; an exception becomes a response to the caller."""
        try:
            _check_head(self._scope, self._limits)
            self._scope["path"] = self._scope["raw_path"].decode("ascii")
            await app(self._scope, self.receive, self.send)
        except GoneError:
            await self._cut_off()
        except asyncio.CancelledError:
            # The server has stopped waiting, so this response is the last one.
            await self.refuse(_given_up(self.handled.method))
        except Exception as error:  # noqa: BLE001 - the outermost frame of a request
            await self.refuse(error)

    async def refuse(self, error: Exception) -> None:
        """Send the error to the caller; if the response has begun, abort it."""
        if self._has_begun:
            _LOG.error("request %s was aborted", self.handled.request_id, exc_info=error)
            await self._cut_off()
            return
        found = problem_of(error, self.handled.request_id)
        # The rest of the body is not read, so no other request can follow on this connection.
        close = [] if self._is_read or not _has_body(self._scope) else [(b"connection", b"close")]
        length = (b"content-length", str(len(found.body)).encode())
        said = [(name.encode(), value.encode()) for name, value in self.handled.said]
        try:
            await self.send(
                {
                    "type": "http.response.start",
                    "status": found.status,
                    "headers": [*found.headers, *said, length, *close],
                }
            )
            await self.send({"type": "http.response.body", "body": found.body})
        except GoneError:
            await self._cut_off()

    async def receive(self) -> Message:
        """Return the next part of the request; raises if the request is too slow or too large."""
        if self._is_read:
            return await self._receive()
        allowed_s = self._limits.slow_s_max + self._received / BODY_BYTES_PER_S_MIN
        left_s = self.handled.began_s + allowed_s - monotonic()
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                message = await self._receive()
        except TimeoutError:
            raise problem("too-slow", "the request arrived too slowly; send it faster") from None
        if message["type"] == "http.disconnect":
            raise GoneError
        self._received += len(message.get("body", b""))
        if self._received > self._limits.body_bytes_max:
            raise _too_large(self._limits.body_bytes_max)
        self._is_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response; a caller that does not read it is disconnected."""
        if message["type"] == "http.response.start":
            self._has_begun = True
            self.handled.status = message["status"]
            self._counted.answer(message["status"])
            request_id = (b"x-request-id", self.handled.request_id.encode())
            # The message is copied, because other callers may get the same message.
            own = list(message.get("headers", ()))
            names = {name for name, _ in own}
            always = [each for each in _ALWAYS if each[0] not in names]
            heads = [*own, *always, request_id]
            message = {**message, "headers": heads}
        try:
            async with asyncio.timeout(self._limits.slow_s_max):
                await self._send(message)
        except TimeoutError:
            raise GoneError from None
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._has_ended = True

    def end(self) -> None:
        """Record that the request has ended, count it, and log it."""
        self.handled.took_s = monotonic() - self.handled.began_s
        if not self._has_ended:
            self.handled.status = self.handled.status or 499
        self._counted.operation = self.handled.operation or UNKNOWN
        self._counted.status = self.handled.status
        _LOG.info("request", extra={"handled": self.handled})

    async def _cut_off(self) -> None:
        """Abort the connection, even if the caller has not read the response."""
        abort = self._scope.get("extensions", {}).get(ABORT)
        if abort is not None:
            abort["call"]()
            # Let the server see the disconnection; otherwise it would report an incomplete
            # response.
            await asyncio.sleep(0)
            await asyncio.sleep(0)


def _has_body(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return b"content-length" in names or b"transfer-encoding" in names


def _given_up(method: str) -> Exception:
    text = "the service is stopping, so it did not answer in time"
    if method not in _READING:
        return unsure(text)
    text += "; ask again in a moment"
    return problem(UNAVAILABLE, text)


def _too_large(most: int) -> Exception:
    return problem(TOO_LARGE, f"body: is larger than {most} bytes; send less at once")


def _check_head(scope: Scope, limits: Limits) -> None:
    """Raise ``CommandError`` unless the first line and the headers are valid and small."""
    path, query, headers = scope["raw_path"], scope["query_string"], scope["headers"]
    if len(path) > PATH_BYTES_MAX or len(query) > QUERY_BYTES_MAX:
        raise problem("uri-too-long", "the address is too long; send less in it")
    if sum(len(name) + len(value) + 4 for name, value in headers) > limits.header_bytes_max:
        raise problem("headers-too-large", "the headers are too large; send fewer")
    _check_path(path)
    seen: set[bytes] = set()
    for name, value in headers:
        if name in _ONCE and name in seen:
            raise problem(USAGE, f"{name.decode('latin-1')}: is sent more than once; send it once")
        seen.add(name)
        if name in _READ and not _is_text(value):
            raise problem(USAGE, f"{name.decode('latin-1')}: must be text in UTF-8")
        if name == b"content-length" and not _is_within(value, limits.body_bytes_max):
            raise _too_large(limits.body_bytes_max)


def heads_of(scope: Scope) -> dict[bytes, str]:
    """Return the headers as text; ``_check_head`` has checked the headers in ``_READ``."""
    return {name: value.decode("utf-8", "replace") for name, value in scope["headers"]}


def _is_text(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_within(digits: bytes, most: int) -> bool:
    """Return whether a number in digits is at most ``most``, however many digits it has."""
    return digits.isdigit() and len(digits) <= len(str(most)) and int(digits) <= most


def _check_path(path: bytes) -> None:
    """Raise ``CommandError`` if a path is ambiguous."""
    if _BAD_ESCAPE.search(path) or not path.isascii():
        raise problem(
            USAGE,
            "path: a % must be followed by two hex digits, and all other characters must be ASCII",
        )
    for part in path.split(b"/")[1:]:
        plain = unquote_to_bytes(part)
        if plain in (b".", b".."):
            raise problem(USAGE, "path: must not have the parts . and ..")
        if _CONTROL.search(plain):
            raise problem(USAGE, "path: must not have control characters")
        try:
            plain.decode("utf-8")
        except UnicodeDecodeError:
            raise problem(USAGE, "path: must be UTF-8") from None


def extension(
    abort: Callable[[], None], farewell: Callable[[bytes], None]
) -> dict[str, dict[object, object]]:
    """Return the scope extension that aborts its connection.

    ``farewell`` ends a streamed response with a last part that is sent without waiting.
    """
    return {ABORT: {"call": abort, "farewell": farewell}}


def arrived(scope: Scope) -> None:
    """Stop counting the request of ``scope`` as arriving: it now counts as admitted."""
    coming = scope.get("extensions", {}).get(COMING)
    if coming is not None:
        coming["over"]()
