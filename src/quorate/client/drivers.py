"""The two drivers of flows: with ``await``, and without. Nothing else here knows httpx."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

import httpx

from quorate import __version__
from quorate.client.errors import QuorateClientError
from quorate.client.faults import fault_of
from quorate.client.flows import Emit, Flow, Now, Open, Pause, Read, Send, Step
from quorate.client.place import Place
from quorate.client.wire import Reply, Request

T = TypeVar("T")
TIMEOUT_S: Final = 30.0
STREAM_SILENCE_S_MAX: Final = 60.0
"""How long a stream may say nothing: a service says something every few seconds."""
CONNECTIONS_MAX: Final = 100


class _Walk(Generic[T]):
    """Goes through the steps of a flow; ``answer`` is what came of the last one."""

    def __init__(self, flow: Flow[T], place: Place) -> None:
        self._flow = flow
        self._place = place
        self._fault: QuorateClientError | None = None
        self._result: T | None = None
        self.answer: Any = None

    def next(self) -> Step | None:
        """Return the next step, or None when the flow has its result."""
        answer, fault = self.answer, self._fault
        self.answer = self._fault = None
        try:
            return self._flow.send(answer) if fault is None else self._flow.throw(fault)
        except StopIteration as end:
            self._result = end.value
            return None

    @property
    def result(self) -> T:
        """What the flow returned."""
        return cast("T", self._result)

    @contextmanager
    def minding(self) -> Iterator[None]:
        """Let the flow, not the caller, see what goes wrong on the way to the service."""
        try:
            yield
        except httpx.HTTPError as error:
            self._fault = fault_of(error, self._place)

    def close(self) -> None:
        self._flow.close()


@dataclass(slots=True)
class _Opened:
    """The answer that is being read, if any."""

    response: httpx.Response | None = None
    chunks: Any = None


class Driver:
    """Carries out flows, one step after another, on this thread."""

    def __init__(self, place: Place, *, timeout_s: float = TIMEOUT_S) -> None:
        self._place = place
        self._http = httpx.Client(**_options(place, timeout_s))

    def close(self) -> None:
        """Let go of all connections."""
        self._http.close()

    def run(self, flow: Flow[T]) -> T:
        """Return what ``flow`` returns."""
        walk = _Walk(flow, self._place)
        while (step := walk.next()) is not None:
            with walk.minding():
                walk.answer = self._do(step, _Opened())
        return walk.result

    def stream(self, flow: Flow[None]) -> Iterator[Any]:
        """Yield what ``flow`` emits; its connection is closed when nobody iterates any more."""
        walk, opened = _Walk(flow, self._place), _Opened()
        try:
            while (step := walk.next()) is not None:
                if isinstance(step, Emit):
                    yield step.value
                    continue
                with walk.minding():
                    walk.answer = self._do(step, opened)
        finally:
            walk.close()
            self._shut(opened)

    def _do(self, step: Step, opened: _Opened) -> Any:
        match step:
            case Send(request):
                response = self._http.send(_built(self._http, request))
                return _reply(response, response.content)
            case Open(request):
                self._shut(opened)
                built = _built(self._http, request, silence_s=STREAM_SILENCE_S_MAX)
                opened.response = response = self._http.send(built, stream=True)
                opened.chunks = response.iter_bytes()
                return _reply(response, b"" if response.is_success else response.read())
            case Read():
                return next(opened.chunks, b"")
            case Pause(seconds):
                time.sleep(seconds)
                return None
            case Now():
                return time.monotonic()
            case Emit():
                raise AssertionError("a flow that returns something emits nothing")

    def _shut(self, opened: _Opened) -> None:
        if opened.response is not None:
            opened.response.close()
            opened.response = opened.chunks = None


class AsyncDriver:
    """Carries out flows in an event loop."""

    def __init__(self, place: Place, *, timeout_s: float = TIMEOUT_S) -> None:
        self._place = place
        self._http = httpx.AsyncClient(**_options(place, timeout_s))

    async def close(self) -> None:
        """Let go of all connections."""
        await self._http.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """Return what ``flow`` returns."""
        walk = _Walk(flow, self._place)
        while (step := walk.next()) is not None:
            with walk.minding():
                walk.answer = await self._do(step, _Opened())
        return walk.result

    async def stream(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """Yield what ``flow`` emits; its connection is closed when nobody iterates any more."""
        walk, opened = _Walk(flow, self._place), _Opened()
        try:
            while (step := walk.next()) is not None:
                if isinstance(step, Emit):
                    yield step.value
                    continue
                with walk.minding():
                    walk.answer = await self._do(step, opened)
        finally:
            walk.close()
            await self._shut(opened)

    async def _do(self, step: Step, opened: _Opened) -> Any:
        match step:
            case Send(request):
                response = await self._http.send(_built(self._http, request))
                return _reply(response, response.content)
            case Open(request):
                await self._shut(opened)
                built = _built(self._http, request, silence_s=STREAM_SILENCE_S_MAX)
                opened.response = response = await self._http.send(built, stream=True)
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
                raise AssertionError("a flow that returns something emits nothing")

    async def _shut(self, opened: _Opened) -> None:
        if opened.response is not None:
            await opened.response.aclose()
            opened.response = opened.chunks = None


def _options(place: Place, timeout_s: float) -> dict[str, Any]:
    headers = {"User-Agent": f"quorate/{__version__}"}
    if place.token is not None:
        headers["Authorization"] = f"Bearer {place.token}"
    return {
        "base_url": place.server,
        "headers": headers,
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
