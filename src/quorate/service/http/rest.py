"""REST: one route for each path of the table, and the service's own routes.

There is no code for single operations here (docs/adr/0019).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

from prometheus_client.core import GaugeMetricFamily
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from quorate import __version__
from quorate.loop.engine import Engine
from quorate.operations.answered_by import is_dry_run, is_for_leader, is_for_writer
from quorate.operations.answering import check_role
from quorate.operations.caller import OVERSEERS, Caller
from quorate.operations.operation import JSON, NOTES, Effect, Operation
from quorate.ports.errors import QuorateError
from quorate.service.auth.authenticator import Authenticator
from quorate.service.auth.code_sign_in import CodeSignIn
from quorate.service.http.body_reader import AT_ONCE_BYTES, HeldBody
from quorate.service.http.decoding import asked_of, has_body
from quorate.service.http.event_stream import WatchRegistry
from quorate.service.http.negotiation import MEDIA_OF, form_of
from quorate.service.http.openapi import openapi_bytes
from quorate.service.http.request_guard import GoneError, arrived, gone, heads_of
from quorate.service.http.table_paths import PREFIX, in_order, names_of, places, renamed
from quorate.service.ledger_thread import LedgerThread
from quorate.service.limits.rate_limit import Rate
from quorate.service.limits.tenant_shares import Share, Shares
from quorate.service.metrics.registry import CONTENT_TYPE
from quorate.service.problem_json import problem, problem_of
from quorate.service.quorum.forwarding import MIN_SEQUENCE, wait_for_sequence
from quorate.service.quorum.freshness import begun, confirmed, freshness, standing_tree
from quorate.service.reply import Form, Reply, to_json
from quorate.service.request_log import handled
from quorate.service.web.browser_session import authorization_of
from quorate.service.web.web_routes import web_places
from quorate.views.exits import CommandError
from quorate.views.statuses import FORBIDDEN, UNAVAILABLE, USAGE

if TYPE_CHECKING:
    from quorate.service.quorum.http_forward import HttpForward

FAILURES_PER_S_MAX: Final = 10
"""How many requests per second from one address may fail to authenticate."""
NOTES_BYTES_MAX: Final = 4_096
"""How many bytes of notes are sent in a header."""
DRAINED_BYTES_MAX: Final = 64 * 1024
"""The longest body that is read although its request is rejected."""
FIELDS_MAX: Final = 2_000
"""How many parameters a query may have."""
SCRAPES_PER_S_MAX: Final = 5
"""How many scrapes per second one address may send if no token is needed."""

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
Answering = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The objects that the application needs."""

    ledger_thread: LedgerThread
    authenticator: Authenticator
    requests_per_s_max: int
    concurrent_max: int
    watchers: WatchRegistry
    has_public_metrics: bool = False
    code_sign_in: CodeSignIn | None = None
    """Signs users in at the OIDC issuer; None if the dashboard accepts only tokens."""
    forward: HttpForward | None = None
    """Sends commands to the leader, if several services share the ledger."""


def application(parts: Parts) -> ASGIApp:
    """Return the application, which raises errors; the guard turns them into responses."""
    gate = _Gate(parts)
    by_path: dict[str, Mapping[str, Answering]] = {
        f"{PREFIX}{path}": {
            method: _Asked(gate, path, operation) for method, operation in methods.items()
        }
        for path, methods in places().items()
    }
    by_path |= {path: {"GET": each} for path, each in _Own(gate, parts).places().items()}
    by_path |= web_places(gate.admit, parts.code_sign_in)
    known = {path: _Place(by_path[path]) for path in in_order(by_path)}
    routes = [Route(path, place) for path, place in known.items()]
    router = Router(routes, redirect_slashes=False, default=_not_found)
    return _Known({path: place for path, place in known.items() if not names_of(path)}, router)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Raise the error for an unknown path."""
    del receive, send
    raise problem("not-found", f"there is nothing at {handled(scope).path}; see /openapi.json")


class _Known:
    """Finds the route: looks up paths without placeholders, and tries all other paths in order."""

    def __init__(self, fixed: Mapping[str, Answering], router: ASGIApp) -> None:
        self._fixed = fixed
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises the errors that the guard reports."""
        is_plain = scope["type"] == "http" and not scope.get("root_path")
        place = self._fixed.get(scope["path"]) if is_plain else None
        if place is None:
            await self._router(scope, receive, send)
            return
        scope["path_params"] = {}
        await place(scope, receive, send)


class _Place:
    """One path: its operations by method."""

    def __init__(self, methods: Mapping[str, Answering]) -> None:
        self._methods = methods
        heads = ["HEAD"] if "GET" in methods else []
        self._allowed = ", ".join(sorted([*methods, *heads]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises the errors that the guard reports."""
        method = scope["method"]
        answering = self._methods.get("GET" if method == "HEAD" else method)
        if answering is not None:
            await answering(scope, receive, send)
            return
        known = handled(scope)
        text = f"{known.path} does not support {method}; it supports {self._allowed}"
        found = problem_of(problem("method-not-allowed", text), known.request_id)
        response = Response(found.body, found.status, {"allow": self._allowed})
        response.raw_headers += found.headers
        await response(scope, receive, send)


class _Gate:
    """Admits authenticated callers within the rate limit."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._rate = Rate(parts.requests_per_s_max, monotonic)
        self._failures = Rate(FAILURES_PER_S_MAX, monotonic)
        self.under_way = Shares(Share.of_all(parts.concurrent_max, "requests"))

    async def admit(self, scope: Scope, headers: Mapping[bytes, str]) -> Caller:
        """Return the caller; raises ``CommandError`` if it is unknown, or above the rate limit."""
        try:
            caller = await self.parts.authenticator.caller_of(authorization_of(headers))
        except Exception:
            # Only failures are counted, because a valid caller may share an address with a caller
            # that guesses tokens.
            self._failures.take(_address(scope))
            raise
        handled(scope).caller = caller.shown
        self._rate.take(caller.whose)
        return caller


def waits_first(headers: Mapping[bytes, str], body_bytes: int) -> bool:
    """Return whether a request must wait for something before the ledger thread takes it.

    A request may wait for an event that it requires (``MIN_SEQUENCE``), or for its body, which
    another thread reads. Waiting requests also count towards the tenant's share. Otherwise the
    tenant could have twice its share.
    """
    return MIN_SEQUENCE.encode() in headers or body_bytes > AT_ONCE_BYTES


class _Asked:
    """One operation as a REST endpoint."""

    def __init__(self, gate: _Gate, path: str, operation: Operation) -> None:
        self._gate = gate
        self._path = path
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises the errors that the guard reports."""
        operation = self._operation
        handled(scope).operation = operation.name
        headers = heads_of(scope)
        caller = await self._gate.admit(scope, headers)
        check_role(caller, operation)
        with self._gate.under_way.taken(caller):
            ledger_thread = self._gate.parts.ledger_thread
            if is_for_writer(operation):
                try:
                    ledger_thread.admission.check(caller)
                except CommandError:
                    await _drained(headers, receive)
                    raise
            with ledger_thread.bodies.held(caller) as held:
                body = await _body_of(operation, headers, receive, held)
                await self._answer(caller, body, headers, scope, (receive, send))

    async def _answer(
        self,
        caller: Caller,
        body: bytes,
        headers: Mapping[bytes, str],
        scope: Scope,
        ends: tuple[Receive, Send],
    ) -> None:
        operation, (receive, send) = self._operation, ends
        accept = ",".join(v.decode("latin-1") for n, v in scope["headers"] if n == b"accept")
        form = form_of(accept, operation)
        parts = {name: unquote(value) for name, value in scope["path_params"].items()}
        path = renamed(self._path, operation, parts)
        query = _query_of(scope)
        ledger_thread = self._gate.parts.ledger_thread
        least = headers.get(MIN_SEQUENCE.encode())
        if waits_first(headers, len(body)):
            # From here on the request counts as admitted, not as arriving.
            arrived(scope)
        asked = await ledger_thread.bodies.run(
            len(body), lambda: asked_of(operation, path, query, headers, body)
        )
        if least is not None:
            await wait_for_sequence(ledger_thread, least)
        forward = self._gate.parts.forward
        is_elsewhere = is_for_leader(operation, asked) and not ledger_thread.may_decide
        if forward is not None and is_elsewhere:
            await forward.send(scope, headers, body, send)
            return
        if operation.effect is Effect.STREAM:
            watchers = self._gate.parts.watchers
            await watchers.serve(scope, (caller, operation, asked), headers, (receive, send))
            return
        is_written = is_for_writer(operation, asked)
        is_confirmed = await confirmed(ledger_thread, operation, asked)
        before = begun(ledger_thread, is_confirmed=is_confirmed)
        arrived(scope)
        is_read = operation.effect is Effect.READ or is_dry_run(asked)
        try:
            with ledger_thread.admission.taken(caller) if is_written else nullcontext():
                asking = ledger_thread.ask(caller, operation, asked, form)
                # A write continues after its caller has disconnected, because it may be half done.
                reply = await (_while_there(asking, receive) if is_read else asking)
        except CommandError:
            # A refusal, such as that a run is unknown, comes from a state that may be old, too. So
            # the headers of the refusal also state the age.
            handled(scope).said = freshness(ledger_thread, before, is_order=False)
            raise
        said = freshness(ledger_thread, before, is_order=not is_read)
        await _respond(ledger_thread, reply, form, (headers, said), send)


async def _drained(headers: Mapping[bytes, str], receive: Receive) -> None:
    """Read and drop a short body, so that its connection can be reused."""
    if int(headers.get(b"content-length", DRAINED_BYTES_MAX + 1)) <= DRAINED_BYTES_MAX:
        while (await receive()).get("more_body", False):
            pass


async def _while_there(asking: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Return the result of ``asking``.

    If the caller disconnects first, cancel ``asking`` and raise ``GoneError``.
    """
    answering = asyncio.ensure_future(asking)
    leaving = asyncio.ensure_future(gone(receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise GoneError
        return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()


async def _body_of(
    operation: Operation, headers: Mapping[bytes, str], receive: Receive, held: HeldBody
) -> bytes:
    """Return the body of a request; refuse a body for an operation that takes no body.

    If the length of the body is known, its memory is reserved before the body is received.
    """
    # The guard has checked the length: it is a number, and not too large.
    held.hold(int(headers.get(b"content-length", "0")))
    gathered = bytearray()
    while True:
        message = await receive()
        part = message.get("body", b"")
        held.hold(len(gathered) + len(part))
        gathered += part
        if not message.get("more_body", False):
            break
    body = bytes(gathered)
    if body and not has_body(operation):
        raise problem(USAGE, f"body: {operation.name} has none; send parameters in the query")
    if body:
        media, *parameters = (
            part.strip().lower() for part in headers.get(b"content-type", "").split(";")
        )
        charsets = [each for each in parameters if each.startswith("charset=")]
        if media != JSON or any(each.strip('"') != "charset=utf-8" for each in charsets):
            raise problem(
                "unsupported-media-type",
                f"Content-Type: must be {JSON} in UTF-8, got {headers.get(b'content-type', '')!r}",
            )
    return body


def _query_of(scope: Scope) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(scope["query_string"]),
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:
        raise problem(USAGE, "query: must be NAME=VALUE pairs joined by &, in UTF-8") from None


async def _respond(
    ledger_thread: LedgerThread,
    reply: Reply,
    form: Form,
    heads: tuple[Mapping[bytes, str], Sequence[tuple[str, str]]],
    send: Send,
) -> None:
    """Send an answer, whole or in parts as they are made.

    ``heads`` has the headers of the request, and additional headers of the answer.
    """
    headers, more = heads
    head = [(b"content-type", MEDIA_OF[form].encode()), (b"vary", b"accept")]
    head += [(name.encode(), value.encode()) for name, value in more]
    if reply.notes and form not in (Form.TOLD, Form.WIDE):
        head.append((NOTES.encode(), _notes(reply.notes)))
    if reply.cpu_s is not None:
        # A caller that polls can adapt its rate to this time.
        head.append((b"server-timing", b"cpu;dur=%.1f" % (1e3 * reply.cpu_s)))
    status = 200
    body = reply.body
    if reply.etag:
        etag = f'"{reply.etag}"'
        head.append((b"etag", etag.encode()))
        if etag in [each.strip() for each in headers.get(b"if-none-match", "").split(",")]:
            status, body = 304, b""
    if reply.lines is None or status == 304:  # noqa: PLR2004 - not modified
        if status == 200:  # noqa: PLR2004 - fine
            head.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})
        return
    await send({"type": "http.response.start", "status": status, "headers": head})
    async for part in ledger_thread.parts_of(reply.lines, is_long=reply.is_long):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _notes(notes: Sequence[str]) -> bytes:
    """Return the notes as a header; notes that do not fit are counted."""
    kept = list(notes)
    while True:
        left = len(notes) - len(kept)
        told = [*kept, f"note: and {left} more"] if left else kept
        text = json.dumps(told, ensure_ascii=True).encode()
        if len(text) <= NOTES_BYTES_MAX or not kept:
            return text
        del kept[len(kept) * 3 // 4 :]


class _Own:
    """The service's own routes."""

    def __init__(self, gate: _Gate, parts: Parts) -> None:
        self._gate = gate
        self._parts = parts
        self._openapi = openapi_bytes()
        self._scrapes = Rate(SCRAPES_PER_S_MAX, monotonic)

    def places(self) -> dict[str, Answering]:
        """Return the service's own routes by path."""
        return {
            "/healthz": _named("healthz", self._healthz),
            "/readyz": _named("readyz", self._readyz),
            "/version": _named("version", self._version),
            "/openapi.json": _named("openapi", self._describe),
            "/metrics": _named("metrics", self._metrics),
        }

    async def _healthz(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer that the program runs."""
        await _json({"status": "alive"})(scope, receive, send)

    async def _readyz(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whether the ledger can be used, and which executors are unavailable."""
        ledger_thread = self._parts.ledger_thread
        trouble = ledger_thread.trouble or ledger_thread.crowding
        if trouble:
            raise problem(UNAVAILABLE, f"not ready: {trouble}")
        tree: dict[str, object] = {"status": "ready", "sequence": ledger_thread.recorded_seq}
        if ledger_thread.is_led:
            tree |= standing_tree(ledger_thread)
        outages = ledger_thread.outages
        if outages:
            tree["outages"] = dict(outages)
        await _json(tree)(scope, receive, send)

    async def _version(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the version of the service."""
        await _json({"version": __version__, "api": "v1"})(scope, receive, send)

    async def _describe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the OpenAPI document."""
        await Response(self._openapi, media_type=JSON)(scope, receive, send)

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the metrics: to admins and auditors, or to any caller if so configured."""
        if self._parts.has_public_metrics:
            self._scrapes.take(_address(scope))
        else:
            headers = heads_of(scope)
            caller = await self._gate.admit(scope, headers)
            if caller.role not in OVERSEERS:
                raise problem(
                    FORBIDDEN,
                    "metrics are for admins and auditors; send an admin's or auditor's token, or "
                    "set metrics.public in the configuration",
                )
        text = await _while_there(_scraped(self._parts.ledger_thread), receive)
        await Response(text, headers={"content-type": CONTENT_TYPE})(scope, receive, send)


async def _scraped(ledger_thread: LedgerThread) -> bytes:
    """Return all metrics; metrics of the state are left out if the state cannot be read."""
    standing = await ledger_thread.run(lambda engine: _standing(ledger_thread, engine))
    ledger_thread.metrics.ready(is_ready=standing is not None and not ledger_thread.trouble)
    led = ledger_thread.leadership
    leads = ledger_thread.may_decide
    ledger_thread.metrics.led(leads=leads, term=led.term, lag_s=ledger_thread.lag_s)
    ledger_thread.metrics.outages(ledger_thread.outages.keys())
    return await asyncio.to_thread(ledger_thread.metrics.render, standing or ())


def _standing(ledger_thread: LedgerThread, engine: Engine) -> Sequence[GaugeMetricFamily] | None:
    try:
        return ledger_thread.metrics.collect(engine.view, engine.now_ms())
    except QuorateError as error:
        # Metrics are needed most when the service is not ready.
        _LOG.warning("the metrics of the state were left out: %s", error)
        return None


def _named(operation: str, answering: Answering) -> Answering:
    """Return ``answering``, with its requests counted as ``operation``."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        handled(scope).operation = operation
        await answering(scope, receive, send)

    return named


def _address(scope: Scope) -> str:
    """Return the address of the client."""
    return scope["client"][0] if scope.get("client") else ""


def _json(tree: object) -> Response:
    return Response(to_json(tree), media_type=JSON)
