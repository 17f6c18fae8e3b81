"""The requests of both clients, as flows that do no input and output themselves.

A flow is a generator. It yields steps, such as ``Send``, ``Pause`` and ``Emit``, and receives the
result of each step. A driver runs the steps, blocking or with asyncio (``drivers.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

from quorate.client import wire
from quorate.client.errors import (
    QuorateClientError,
    WaitedTooLongError,
)
from quorate.client.retrying import Retrying, conclusion, is_retried, is_uncertain, keyed
from quorate.client.sse import Message, Messages
from quorate.operations.operation import Operation

if TYPE_CHECKING:
    from quorate.operations.fleet.observe_operations import Logs

T = TypeVar("T")


class Send(Struct, frozen=True):
    """Send a request; the result is its ``Reply``."""

    request: wire.Request


class Open(Struct, frozen=True):
    """Send a request and keep the response open; the result is a ``Reply``.

    The body of the reply is empty if the status is a success. A response that was open before is
    closed.
    """

    request: wire.Request


class Read(Struct, frozen=True):
    """Read from the open response; the result is bytes, empty at the end."""


class Pause(Struct, frozen=True):
    """Wait; there is no result."""

    seconds: float


class Now(Struct, frozen=True):
    """Read a monotonic clock; the result is in seconds."""


class Emit(Struct, frozen=True):
    """Pass a value to the iterating caller; there is no result."""

    value: Any


Step = Send | Open | Read | Pause | Now | Emit
Flow = Generator[Step, Any, T]


def exchange(
    operation: Operation,
    asked: Struct,
    retrying: Retrying,
    read: Callable[[wire.Reply], T],
    *,
    accept: str = wire.JSON,
) -> Flow[T]:
    """Send a request, with retries if they are safe; return the result of ``read`` for the reply.

    All tries have the same idempotency key. Raises ``UncertainError`` if one try of a write may
    have been carried out, and no later try shows whether it was.
    """
    asked = keyed(operation, asked)
    request = wire.request_of(operation, asked, accept=accept)
    failures, uncertain = 0, None
    while True:
        try:
            reply: wire.Reply = yield Send(request)
            return read(reply)
        except QuorateClientError as error:
            failures += 1
            if uncertain is None and is_uncertain(operation, asked, error):
                uncertain = error
            if not retrying.goes_on(failures, error) or not is_retried(operation, asked, error):
                found = conclusion(operation, asked, uncertain, error)
                if found is error:
                    raise
                raise found from error
            pause_s = retrying.wait_s(failures, error)
        yield Pause(pause_s)


FIRST: Final = "first"
"""The field of a streaming operation for the first sequence number, or the first line."""
LINES: Final = "lines"
"""The type of stream messages that hold lines of output."""
WATCH_PAUSE_S: Final = 0.1
"""The wait before a stream that ended without an error is opened again."""


def follow(operation: Operation, asked: Struct, retrying: Retrying) -> Flow[None]:
    """Emit every event from ``asked.first`` on, once and in order, across lost connections.

    If ``first`` is not given, emit the events from now on. After a lost connection the flow
    reconnects after the last event that it read. The flow ends when the service refuses a request,
    or after too many failures in a row. If an event has several notices, each notice is emitted
    once.
    """
    first: int | None = getattr(asked, FIRST)
    cursor = None if first is None else first - 1
    failures, seen = 0, (0, 0)
    while True:
        pause_s = WATCH_PAUSE_S
        if cursor is not None:
            asked = msgspec.structs.replace(asked, **{FIRST: cursor + 1})
        try:
            reply: wire.Reply = yield Open(wire.request_of(operation, asked, accept=wire.STREAM))
            wire.check(reply)
            messages = Messages()
            while chunk := (yield Read()):
                failures = 0
                for message in messages.feed(chunk):
                    tree = _event(message, cursor)
                    cursor = _moved(message, cursor)
                    if tree is not None and (part := _part_of(tree)) > seen:
                        seen = part
                        yield Emit(wire.event_of(operation, tree))
        except QuorateClientError as error:
            failures += 1
            if failures >= retrying.tries or not is_retried(operation, asked, error):
                raise
            pause_s = retrying.wait_s(failures, error)
        yield Pause(pause_s)


def _event(message: Message, cursor: int | None) -> dict[str, Any] | None:
    """Return the event in a stream message; None for another message or a repeated event."""
    tree = message.tree()
    if not isinstance(tree, dict) or "seq" not in tree:
        return None
    return None if cursor is not None and tree["seq"] <= cursor else tree


def _part_of(tree: dict[str, Any]) -> tuple[int, int]:
    """Return the sequence number of an event or notice, and the notice's number in its event.

    The first notice of an event has the number 1.
    """
    return int(tree["seq"]), 1 + int(tree.get("part", 0))


def _moved(message: Message, cursor: int | None) -> int | None:
    """Return the cursor after ``message``, whose id is the last sequence number."""
    if not message.id.isdecimal():
        return cursor
    return max(cursor or 0, int(message.id))


def lines(operation: Operation, asked: Struct, read: Callable[[str], object]) -> Flow[None]:
    """Emit the result of ``read`` for each line of a response that is too long for memory.

    The request is not retried: if the connection is lost, the lines are incomplete.
    """
    reply: wire.Reply = yield Open(wire.request_of(operation, asked, accept=operation.media))
    wire.check(reply)
    rest = b""
    while chunk := (yield Read()):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield Emit(read(line.decode() + "\n"))
    if rest:
        yield Emit(read(rest.decode()))


POLL_S_MIN: Final = 0.2
POLL_S_MAX: Final = 5.0


def until(
    ask: Callable[[], Flow[T]], is_over: Callable[[T], bool], *, what: str, timeout_s: float | None
) -> Flow[T]:
    """Call ``ask`` at growing intervals; return the first answer that ``is_over`` accepts.

    Raises ``WaitedTooLongError`` after ``timeout_s``.
    """
    began_s: float = yield Now()
    pause_s = POLL_S_MIN
    while True:
        found = yield from ask()
        if is_over(found):
            return found
        now_s: float = yield Now()
        if timeout_s is not None and now_s - began_s + pause_s > timeout_s:
            raise WaitedTooLongError(
                f"{what} after {timeout_s:g} s; wait longer, or call explain()"
            )
        yield Pause(pause_s)
        pause_s = min(POLL_S_MAX, pause_s * 1.5)


def log_lines(
    ask: Callable[[int, int | None], Flow[Logs]],
    stream: Callable[[int], Flow[None]],
    *,
    first: int,
    tail: int | None,
    follow: bool,
) -> Flow[None]:
    """Emit the current output of a run, page by page; then the later output if ``follow`` is set.

    ``stream`` emits the later output until the run is over. If ``tail`` is given, begin with the
    last ``tail`` lines of the current output.
    """
    page: Logs | None = None
    while page is None or page.more:
        page = yield from ask(first, tail)
        for line in page.lines:
            yield Emit(line)
        first, tail = page.next, None
    if follow and not page.ended:
        yield from stream(first)


def log_pages(
    operation: Operation,
    asked: Struct,
    retrying: Retrying,
    read: Callable[[Logs], Iterable[object]],
) -> Flow[None]:
    """Emit the result of ``read`` for each page of a run's output, until the run is over.

    After a lost connection the flow reconnects after the last line that it read.
    """
    failures = 0
    while True:
        pause_s = WATCH_PAUSE_S
        try:
            reply: wire.Reply = yield Open(wire.request_of(operation, asked, accept=wire.STREAM))
            wire.check(reply)
            messages = Messages()
            while chunk := (yield Read()):
                failures = 0
                for message in messages.feed(chunk):
                    if message.kind != LINES:
                        continue
                    page: Logs = wire.event_of(operation, message.tree())
                    for each in read(page):
                        yield Emit(each)
                    asked = msgspec.structs.replace(asked, **{FIRST: page.next})
                    if page.ended:
                        return
        except QuorateClientError as error:
            failures += 1
            if failures >= retrying.tries or not is_retried(operation, asked, error):
                raise
            pause_s = retrying.wait_s(failures, error)
        yield Pause(pause_s)
