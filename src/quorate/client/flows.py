"""What a client does, step by step, without doing any of it: written once for both clients.

A flow is a generator. It yields steps (send this, wait so long, here is an event) and gets the
result of each; a driver carries the steps out, with ``await`` or without (``drivers.py``).
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
from quorate.client.retrying import Retrying, is_retried, keyed
from quorate.client.sse import Message, Messages
from quorate.operations.operation import Operation

if TYPE_CHECKING:
    from quorate.operations.fleet.observe_operations import Logs

T = TypeVar("T")


class Send(Struct, frozen=True):
    """Send a request; gives its ``Reply``."""

    request: wire.Request


class Open(Struct, frozen=True):
    """Send a request and keep the answer open; gives a ``Reply`` whose body is empty if it is ok.

    What was open before is closed.
    """

    request: wire.Request


class Read(Struct, frozen=True):
    """Read on in what is open; gives bytes, none at its end."""


class Pause(Struct, frozen=True):
    """Wait; gives nothing."""

    seconds: float


class Now(Struct, frozen=True):
    """Read a clock that never goes back; gives seconds."""


class Emit(Struct, frozen=True):
    """Pass a value to the iterating caller; gives nothing."""

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
    """Return what ``read`` makes of the answer, asking again where that can help and do no harm.

    All tries carry the same idempotency key.
    """
    asked = keyed(operation, asked)
    request = wire.request_of(operation, asked, accept=accept)
    failures = 0
    while True:
        try:
            reply: wire.Reply = yield Send(request)
            return read(reply)
        except QuorateClientError as error:
            failures += 1
            if not retrying.goes_on(failures, error) or not is_retried(operation, asked, error):
                raise
            pause_s = retrying.wait_s(failures, error)
        yield Pause(pause_s)


FIRST: Final = "first"
"""The field of an operation that streams, which says where to begin."""
LINES: Final = "lines"
"""The kind of a message of a stream that has lines of output."""
WATCH_PAUSE_S: Final = 0.1
"""How long to wait before a stream that ended without a fault is opened again."""


def follow(operation: Operation, asked: Struct, retrying: Retrying) -> Flow[None]:
    """Emit every event from ``asked.first`` on, once and in order, however often it is cut off.

    Without it those that are recorded from now on. A connection that is cut is opened again after
    the last event that was read; it ends only by a refusal, or after too many failures in a row. An
    event that is sent in several parts is emitted once, too.
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
    """Return the event in a message of a stream; None for one that was seen, or for no event."""
    tree = message.tree()
    if not isinstance(tree, dict) or "seq" not in tree:
        return None
    return None if cursor is not None and tree["seq"] <= cursor else tree


def _part_of(tree: dict[str, Any]) -> tuple[int, int]:
    """Return the sequence of an event, and the number of this part of it, from 1."""
    return int(tree["seq"]), 1 + int(tree.get("part", 0))


def _moved(message: Message, cursor: int | None) -> int | None:
    """Return where to continue after ``message``: its id is the last sequence that was read."""
    if not message.id.isdecimal():
        return cursor
    return max(cursor or 0, int(message.id))


def lines(operation: Operation, asked: Struct, read: Callable[[str], object]) -> Flow[None]:
    """Emit what ``read`` makes of each line, with its end, of an answer too long to be held.

    It is asked for once: where it breaks off, what came is not all.
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
    """Return the first answer of ``ask`` that ``is_over``, asked ever less often.

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
            raise WaitedTooLongError(f"{what} after {timeout_s:g} s; wait longer, or ask why")
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
    """Emit the lines of a run's output: pages of those that there are, then those that come.

    The latter with ``follow`` only, by ``stream``, until there are no more. With ``tail`` begin
    with the last so many of those that there are.
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
    """Emit what ``read`` makes of each page of a run's output as it comes, until the run is over.

    A connection that is cut is opened again after the last line that was read.
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
