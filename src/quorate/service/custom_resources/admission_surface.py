"""Where API servers ask whether a custom resource may be written: HTTPS of its own, without tokens.

An API server shows no token, and needs none: the answer follows from the question alone, and says
nothing of the ledger.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import Configuration
from quorate.service.config_values import Address
from quorate.service.custom_resources.admission_review import (
    AdmissionRules,
    NotAReviewError,
    reviewed,
)
from quorate.service.http.listening import BACKLOG, bind
from quorate.service.ledger_thread import LedgerThread

PATH: Final = "/admission"
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""How long a review may be: it has a resource twice, of 3 MiB at most each."""
READ_S_MAX: Final = 10.0
CONCURRENT_MAX: Final = 64


def admission_surface(
    made: Configuration,
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return a context manager that answers reviews while a ledger is served."""
    address = made.kubernetes_admission
    assert isinstance(address, Address), "asked for where there is one"
    rules = AdmissionRules(template=made.kubernetes_namespace, account=made.kubernetes_account)

    async def surface(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        del ledger_thread, authenticator
        listening = await bind(address, setting="kubernetes.admission")
        config = uvicorn.Config(
            Admission(rules),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            limit_concurrency=CONCURRENT_MAX,
            timeout_graceful_shutdown=1,
            ssl_certfile=made.tls_cert,
            ssl_keyfile=made.tls_key,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        host, port = listening.getsockname()[:2]
        try:
            yield f"admission at {Address(host=host, port=port)}{PATH}"
        finally:
            server.should_exit = True
            await serving
            listening.close()

    return surface


class _Server(uvicorn.Server):
    """Leaves signals to the daemon."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Admission:
    """The application: reviews at one path, and nothing else."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", scope
        response = await self._answer(scope, receive)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["path"] != PATH or scope["method"] != "POST":
            return JSONResponse({"message": f"send reviews with POST to {PATH}"}, 404)
        try:
            async with asyncio.timeout(READ_S_MAX):
                body = await _body(receive)
        except TimeoutError:
            return JSONResponse({"message": "the review did not arrive in time"}, 408)
        if body is None:
            return JSONResponse({"message": f"at most {BODY_BYTES_MAX} bytes"}, 413)
        try:
            tree: Any = json.loads(body)
            return JSONResponse(reviewed(tree, self._rules))
        except (NotAReviewError, ValueError, RecursionError) as error:
            return JSONResponse({"message": f"no review: {error}"}, 400)


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request; None where it is too long, or its sender is gone."""
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
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
