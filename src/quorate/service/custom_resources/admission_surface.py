"""The admission webhook of custom resources: its own HTTPS address, without access tokens.

An API server sends no access token, and needs none: the answer depends only on the request, and
reveals nothing of the ledger. So any pod that reaches the port can call the webhook. The
connections and the memory of each client address are limited. If ``kubernetes.admission_ca`` is
set, a client must present a certificate of that authority.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import uvicorn
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from quorate.operations.caller import Caller, Role
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import Configuration
from quorate.service.config_values import Address
from quorate.service.custom_resources.admission_review import (
    AdmissionRules,
    NotAReviewError,
    reviewed,
)
from quorate.service.http.accepting import Connections
from quorate.service.http.body_reader import BodyReader, HeldBody
from quorate.service.http.connection import GuardedProtocol
from quorate.service.http.guarded_server import GuardedServer
from quorate.service.http.listening import BACKLOG, bind
from quorate.service.ledger_thread import LedgerThread
from quorate.views.exits import CommandError, Exit

PATH: Final = "/admission"
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""The longest review: a review has two versions of a resource, each of 3 MiB at most."""
MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024
"""How much memory all reviews may take together; one address may take a part of this memory."""
PARTS_MAX: Final = 200_000
"""How many values a review may have; the limit is needed because parsing blocks the service."""
READ_S_MAX: Final = 10.0
"""How long a handshake, the head of a request and a whole review may each take."""
KEEP_ALIVE_S: Final = 75
CONNECTIONS_MAX: Final = 256
OF_ADDRESS_MAX: Final = 64
"""How many connections one client address may have.

The API server's address may be the address of other clients, too.
"""


class _Protocol(GuardedProtocol):
    """HTTP/1.1 for reviews, with a time limit on a request's head; ``Admission`` limits bodies."""

    slow_s_max = READ_S_MAX


def admission_surface(
    made: Configuration,
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return a context manager that answers reviews while the service runs."""
    address = made.kubernetes_admission
    assert isinstance(address, Address), "only called if there is an address"
    rules = AdmissionRules(template=made.kubernetes_namespace, account=made.kubernetes_account)

    async def surface(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        del ledger_thread, authenticator
        listening = await bind(address, setting="kubernetes.admission")
        bodies = BodyReader(memory_bytes_max=MEMORY_BYTES_MAX, body_bytes_max=BODY_BYTES_MAX)
        try:
            config = _config(made, Admission(rules, bodies))
            connections = Connections(CONNECTIONS_MAX, of_address_max=OF_ADDRESS_MAX)
            server = _Server(config, connections, READ_S_MAX)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            host, port = listening.getsockname()[:2]
            try:
                yield f"admission at {Address(host=host, port=port)}{PATH}"
            finally:
                server.should_exit = True
                await serving
        finally:
            bodies.close()
            listening.close()

    return surface


def _config(made: Configuration, application: Admission) -> uvicorn.Config:
    """Return the server's configuration; raises ``CommandError`` if certificates are unusable."""
    authority = made.kubernetes_admission_ca
    config = uvicorn.Config(
        application,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
        ssl_certfile=made.tls_cert,
        ssl_keyfile=made.tls_key,
        ssl_ca_certs=authority or None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if authority else ssl.CERT_NONE,
    )
    try:
        config.load()
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE,
            f"kubernetes.admission: tls.cert, tls.key or kubernetes.admission_ca cannot be used: "
            f"{error.strerror or error}",
        ) from None
    return config


class _Server(GuardedServer):
    """A server that leaves signals to the daemon."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


class Admission:
    """The ASGI application, which answers reviews at one path, and nothing else."""

    def __init__(self, rules: AdmissionRules, bodies: BodyReader) -> None:
        self._rules = rules
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", scope
        response = await self._answer(scope, receive)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["path"] != PATH or scope["method"] != "POST":
            return JSONResponse({"message": f"send reviews with POST to {PATH}"}, 404)
        client = scope.get("client")
        address = str(client[0]) if client else ""
        caller = Caller(actor=address, role=Role.USER, user=address)
        with self._bodies.held(caller) as held:
            try:
                async with asyncio.timeout(READ_S_MAX):
                    body = await _body(receive, held)
            except TimeoutError:
                return JSONResponse({"message": "the review did not arrive in time"}, 408)
            except CommandError as error:
                return JSONResponse({"message": str(error)}, 503)
            if body is None:
                return JSONResponse({"message": f"at most {BODY_BYTES_MAX} bytes"}, 413)
            try:
                answer = await self._bodies.run(len(body), lambda: self._review(body))
            except (NotAReviewError, msgspec.MsgspecError, ValueError, RecursionError) as error:
                return JSONResponse({"message": f"no review: {error}"}, 400)
        return JSONResponse(answer)

    def _review(self, body: bytes) -> dict[str, Any]:
        if sum(map(body.count, (b",", b"[", b"{"))) > PARTS_MAX:
            raise NotAReviewError(f"has more than {PARTS_MAX} values")
        return reviewed(msgspec.json.decode(body), self._rules)


async def _body(receive: Receive, held: HeldBody) -> bytes | None:
    """Return the body of a request; None if it is too long, or the client has disconnected.

    Raises ``CommandError`` if the client's share of memory, or the whole memory, is used up.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > BODY_BYTES_MAX:
            return None
        held.hold(size)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
