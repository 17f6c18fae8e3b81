"""Flows carried out on this thread, and what both ways of carrying requests share."""

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
"""How long a stream may say nothing: a service says something every few seconds."""

FaultOf = Callable[[Exception], QuorateClientError | None]
"""What an error on the way to the service means; None where it is no such error."""


def own_headers(place: Place) -> dict[str, str]:
    """Return the headers of every request: who asks, and with what program."""
    headers = {"User-Agent": f"quorate/{__version__}"}
    if place.token is not None:
        headers["Authorization"] = f"Bearer {place.token}"
    return headers


class Walk(Generic[T]):
    """Goes through the steps of a flow; ``answer`` is the result of the last one."""

    def __init__(self, flow: Flow[T], fault_of: FaultOf) -> None:
        self._flow = flow
        self._fault_of = fault_of
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
        except Exception as error:
            self._fault = self._fault_of(error)
            if self._fault is None:
                raise

    def close(self) -> None:
        """Let the flow end where it is."""
        self._flow.close()


class Opened(Struct):
    """The answer that is being read, if any.

    ``is_ready`` waits for a time, and returns whether more can be read; None where that cannot be
    known before it is read.
    """

    chunks: Iterator[bytes] | None = None
    shut: Callable[[], None] | None = None
    is_ready: Callable[[float], bool] | None = None

    def close(self) -> None:
        """Let go of it."""
        if self.shut is not None:
            self.shut()
        self.chunks = self.shut = self.is_ready = None


class Ticks:
    """Says when a stream has nothing to emit: every ``tick_s``, or never where that is None."""

    def __init__(
        self, tick_s: float | None, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._tick_s = tick_s
        self._now_s = now_s
        self._ticked_s = now_s()
        self.has_emitted = False
        """Whether something was emitted since the last tick."""

    def before(self, step: Step, opened: Opened) -> Iterator[None]:
        """Yield None for each tick until ``step`` can be done without waiting for the service.

        Raises ``TimeoutError`` where the service says nothing for too long.
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
                raise TimeoutError(f"the stream said nothing for {STREAM_SILENCE_S_MAX:.0f} s")
            self._tick()
            yield

    def _is_due(self, tick_s: float) -> bool:
        return self.has_emitted or self._now_s() - self._ticked_s >= tick_s

    def _tick(self) -> None:
        self.has_emitted, self._ticked_s = False, self._now_s()


class SyncRunner(ABC):
    """Carries out flows, one step after another; how requests travel is said by who inherits."""

    @abstractmethod
    def send(self, request: Request) -> Reply:
        """Return the whole answer to ``request``."""

    @abstractmethod
    def open(self, request: Request, opened: Opened) -> Reply:
        """Return the head of the answer to ``request``, whose body ``opened`` then has."""

    @abstractmethod
    def fault_of(self, error: Exception) -> QuorateClientError | None:
        """Return the client error for ``error``; None where the request did not cause it."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def run(self, flow: Flow[T]) -> T:
        """Return what ``flow`` returns."""
        walk = Walk(flow, self.fault_of)
        while (step := walk.next()) is not None:
            with walk.minding():
                walk.answer = self._do(step, Opened())
        return walk.result

    def stream(self, flow: Flow[None], *, tick_s: float | None = None) -> Iterator[Any]:
        """Yield what ``flow`` emits; its connection is closed when the iteration ends.

        With ``tick_s`` also None: once after all that came together, and every ``tick_s`` while
        nothing comes. Through a proxy the latter only when the service says something.
        """
        walk, opened, ticks = Walk(flow, self.fault_of), Opened(), Ticks(tick_s)
        try:
            while (step := walk.next()) is not None:
                if isinstance(step, Emit):
                    ticks.has_emitted = True
                    yield step.value
                    continue
                with walk.minding():
                    yield from ticks.before(step, opened)
                    walk.answer = self._do(step, opened)
        finally:
            walk.close()
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
                raise AssertionError("a flow that returns something emits nothing")
