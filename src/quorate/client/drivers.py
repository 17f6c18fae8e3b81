"""Runs flows with httpx, blocking or with asyncio. Only this module of the client imports httpx."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx

from quorate.client import transport_errors
from quorate.client.errors import QuorateClientError, UnreachableError
from quorate.client.failover import ServiceRing
from quorate.client.flows import Emit, Flow, Now, Open, Pause, Read, Send, Step
from quorate.client.service_address import Place
from quorate.client.sync_runner import (
    STREAM_SILENCE_S_MAX,
    TIMEOUT_S,
    FlowSteps,
    Opened,
    SyncRunner,
    own_headers,
)
from quorate.client.wire import Reply, Request

T = TypeVar("T")
CONNECTIONS_MAX: Final = 100


class Driver(SyncRunner):
    """Runs the steps of a flow on this thread."""

    def __init__(self, place: Place, *, timeout_s: float = TIMEOUT_S) -> None:
        self._place = place
        self._http = httpx.Client(**_options(place, timeout_s))

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def send(self, request: Request) -> Reply:
        """Return the complete response to ``request``."""
        response = self._http.send(_built(self._http, request))
        return _reply(response, response.content)

    def open(self, request: Request, opened: Opened) -> Reply:
        """Return the status and the headers of the response; ``opened`` then gives its body."""
        built = _built(self._http, request, silence_s=STREAM_SILENCE_S_MAX)
        response = self._http.send(built, stream=True)
        opened.chunks, opened.shut = response.iter_bytes(), response.close
        return _reply(response, b"" if response.is_success else response.read())

    def fault_of(self, error: Exception) -> QuorateClientError | None:
        """Return the client error for ``error``; None if the request did not cause ``error``."""
        return _fault_of(error, self._place)


@dataclass(slots=True)
class _Opened:
    """The response that is being read, if there is one."""

    response: httpx.Response | None = None
    chunks: Any = None


class AsyncDriver:
    """Runs flows with asyncio; each request goes to the first service that is reachable."""

    def __init__(self, place: Place, *, timeout_s: float = TIMEOUT_S) -> None:
        self._places = place.each()
        self._clients = [httpx.AsyncClient(**_options(each, timeout_s)) for each in self._places]
        self._ring = ServiceRing(len(self._places))

    async def close(self) -> None:
        """Close all connections."""
        for http in self._clients:
            await http.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """Return the result of ``flow``."""
        steps = FlowSteps(flow, self._fault_of)
        while (step := steps.next()) is not None:
            with steps.catching():
                steps.answer = await self._do(step, _Opened())
        return steps.result

    async def stream(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """Yield the values that ``flow`` emits; closes the connection when the iteration ends."""
        steps, opened = FlowSteps(flow, self._fault_of), _Opened()
        try:
            while (step := steps.next()) is not None:
                if isinstance(step, Emit):
                    yield step.value
                    continue
                with steps.catching():
                    steps.answer = await self._do(step, opened)
        finally:
            steps.close()
            await self._shut(opened)

    def _fault_of(self, error: Exception) -> QuorateClientError | None:
        if isinstance(error, QuorateClientError):
            return error
        # The connection failed while the body was read: the next request goes to the next service.
        fault = _fault_of(error, self._places[self._ring.at])
        if fault is not None:
            self._ring.goes_on(fault, 0)
        return fault

    async def _asked(self, request: Request, *, silence_s: float | None = None) -> httpx.Response:
        """Return the response of the first reachable service.

        If ``silence_s`` is given, the body is not read here, and each later read may take up to
        ``silence_s`` seconds.
        """
        tried = 0
        while True:
            place, http = self._places[self._ring.at], self._clients[self._ring.at]
            tried += 1
            try:
                built = _built(http, request, silence_s=silence_s)
                response = await http.send(built, stream=silence_s is not None)
            except httpx.HTTPError as error:
                fault = _fault_of(error, place)
                if fault is None:
                    raise
                if not self._ring.goes_on(fault, tried):
                    raise fault from error
                continue
            self._ring.after(_reply(response, b""))
            return response

    async def _do(self, step: Step, opened: _Opened) -> Any:
        match step:
            case Send(request):
                response = await self._asked(request)
                return _reply(response, response.content)
            case Open(request):
                await self._shut(opened)
                response = await self._asked(request, silence_s=STREAM_SILENCE_S_MAX)
                opened.response = response
                opened.chunks = response.aiter_bytes()
                return _reply(response, b"" if response.is_success else await response.aread())
            case Read():
                return await anext(opened.chunks, b"")
            case Pause(seconds):
                await asyncio.sleep(seconds)
                return None
            case Now():
                return time.monotonic()
            case Emit():
                raise AssertionError("a flow that returns a value emits no items")

    async def _shut(self, opened: _Opened) -> None:
        if opened.response is not None:
            await opened.response.aclose()
            opened.response = opened.chunks = None


def _fault_of(error: Exception, place: Place) -> UnreachableError | None:
    """Return the client error for ``error``; None if no request to ``place`` caused ``error``."""
    if not isinstance(error, httpx.HTTPError):
        return None
    untrusted = transport_errors.untrusted(error, place.server)
    if untrusted is not None:
        return untrusted
    is_late = isinstance(error, httpx.TimeoutException)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return transport_errors.unconnected(error, place.server, is_late=is_late)
    if is_late:
        sent = error.request.extensions.get("timeout", {})
        return transport_errors.unanswered(place.server, sent.get("read") or TIMEOUT_S)
    if isinstance(error, httpx.ProxyError):
        return UnreachableError(f"the proxy cannot reach {place.server}: {error}; check the proxy")
    return transport_errors.cut_off(error, place.server)


def _options(place: Place, timeout_s: float) -> dict[str, Any]:
    return {
        "base_url": place.server,
        "headers": own_headers(place),
        "timeout": httpx.Timeout(timeout_s),
        "verify": place.tls(),
        "limits": httpx.Limits(max_connections=CONNECTIONS_MAX),
    }


def _built(
    http: httpx.Client | httpx.AsyncClient, request: Request, *, silence_s: float | None = None
) -> httpx.Request:
    timeout = http.timeout
    if silence_s is not None:
        timeout = httpx.Timeout(http.timeout.connect, read=silence_s)
    return http.build_request(
        request.method,
        request.path,
        params=list(request.query) or None,
        headers=dict(request.headers),
        content=request.body,
        timeout=timeout,
    )


def _reply(response: httpx.Response, body: bytes) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(status=response.status_code, headers=headers, body=body)
