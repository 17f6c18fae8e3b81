"""Runs flows on this thread: the common part of the two HTTP drivers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar, cast

from msgspec import Struct

from quorate.client.errors import QuorateClientError
from quorate.client.flows import Emit, Flow, Now, Open, Pause, Read, Send, Step
from quorate.client.service_address import Place
from quorate.client.wire import Reply, Request
from quorate.version import __version__

T = TypeVar("T")
TIMEOUT_S: Final = 30.0
STREAM_SILENCE_S_MAX: Final = 60.0
"""How many seconds a stream may be silent; a service sends something every few seconds."""

FaultOf = Callable[[Exception], QuorateClientError | None]
"""Returns the client error for an exception; None if the transport did not cause the exception."""


def own_headers(place: Place) -> dict[str, str]:
    """Return the headers of every request: token and user agent."""
    headers = {"User-Agent": f"quorate/{__version__}"}
    if place.token is not None:
        headers["Authorization"] = f"Bearer {place.token}"
    return headers


class FlowSteps(Generic[T]):
    """Runs a flow step by step; ``answer`` is the result of the last step."""

    def __init__(self, flow: Flow[T], fault_of: FaultOf) -> None:
        self._flow = flow
        self._fault_of = fault_of
        self._fault: QuorateClientError | None = None
        self._result: T | None = None
        self.answer: Any = None

    def next(self) -> Step | None:
        """Return the next step, or None if the flow has returned."""
        answer, fault = self.answer, self._fault
        self.answer = self._fault = None
        try:
            return self._flow.send(answer) if fault is None else self._flow.throw(fault)
        except StopIteration as end:
            self._result = end.value
            return None

    @property
    def result(self) -> T:
        """The value that the flow returned."""
        return cast("T", self._result)

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Catch errors of the transport, and raise them inside the flow at its next step."""
        try:
            yield
        except Exception as error:
            self._fault = self._fault_of(error)
            if self._fault is None:
                raise

    def close(self) -> None:
        """Close the generator of the flow."""
        self._flow.close()


class Opened(Struct):
    """The response that is being read, if there is one.

    ``is_ready`` waits for a time, and returns whether more can be read. ``is_ready`` is None if the
    driver cannot know this before it reads.
    """

    chunks: Iterator[bytes] | None = None
    shut: Callable[[], None] | None = None
    is_ready: Callable[[float], bool] | None = None

    def close(self) -> None:
        """Close the response."""
        if self.shut is not None:
            self.shut()
        self.chunks = self.shut = self.is_ready = None


class Ticks:
    """Decides when a stream yields None: every ``tick_s`` seconds, or never without ``tick_s``."""

    def __init__(
        self, tick_s: float | None, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._tick_s = tick_s
        self._now_s = now_s
        self._ticked_s = now_s()
        self.has_emitted = False
        """Whether the flow has emitted a value since the last tick."""

    def before(self, step: Step, opened: Opened) -> Iterator[None]:
        """Yield None for each tick until ``step`` can be done without waiting for the service.

        Raises ``TimeoutError`` if the service is silent for too long.
        """
        if self._tick_s is None:
            return
        if isinstance(step, Read):
            yield from self._before_read(opened, self._tick_s)
        elif isinstance(step, Pause) and self._is_due(self._tick_s):
            self._tick()
            yield

    def _before_read(self, opened: Opened, tick_s: float) -> Iterator[None]:
        if opened.is_ready is None:
            if self._is_due(tick_s):
                self._tick()
                yield
            return
        end_s = self._now_s() + STREAM_SILENCE_S_MAX
        while not opened.is_ready(0.0 if self.has_emitted else tick_s):
            if self._now_s() >= end_s:
                raise TimeoutError(f"the stream was silent for {STREAM_SILENCE_S_MAX:.0f} s")
            self._tick()
            yield

    def _is_due(self, tick_s: float) -> bool:
        return self.has_emitted or self._now_s() - self._ticked_s >= tick_s

    def _tick(self) -> None:
        self.has_emitted, self._ticked_s = False, self._now_s()


class SyncRunner(ABC):
    """Runs the steps of flows; a subclass sends the requests."""

    @abstractmethod
    def send(self, request: Request) -> Reply:
        """Return the complete response to ``request``."""

    @abstractmethod
    def open(self, request: Request, opened: Opened) -> Reply:
        """Return the status and the headers of the response; ``opened`` then gives its body."""

    @abstractmethod
    def fault_of(self, error: Exception) -> QuorateClientError | None:
        """Return the client error for ``error``; None if the request did not cause ``error``."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def run(self, flow: Flow[T]) -> T:
        """Return the result of ``flow``."""
        steps = FlowSteps(flow, self.fault_of)
        while (step := steps.next()) is not None:
            with steps.catching():
                steps.answer = self._do(step, Opened())
        return steps.result

    def stream(self, flow: Flow[None], *, tick_s: float | None = None) -> Iterator[Any]:
        """Yield the values that ``flow`` emits; closes the connection when the iteration ends.

        If ``tick_s`` is given, also yield None after each batch, and every ``tick_s`` seconds
        without values. Through a proxy, the stream can yield None only when the service sends data.
        """
        steps, opened, ticks = FlowSteps(flow, self.fault_of), Opened(), Ticks(tick_s)
        try:
            while (step := steps.next()) is not None:
                if isinstance(step, Emit):
                    ticks.has_emitted = True
                    yield step.value
                    continue
                with steps.catching():
                    yield from ticks.before(step, opened)
                    steps.answer = self._do(step, opened)
        finally:
            steps.close()
            opened.close()

    def _do(self, step: Step, opened: Opened) -> Any:
        match step:
            case Send(request):
                return self.send(request)
            case Open(request):
                opened.close()
                return self.open(request, opened)
            case Read():
                return b"" if opened.chunks is None else next(opened.chunks, b"")
            case Pause(seconds):
                time.sleep(seconds)
                return None
            case Now():
                return time.monotonic()
            case Emit():
                raise AssertionError("a flow that returns a value emits no items")
