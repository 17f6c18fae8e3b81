"""Watches: sends the recorded events after a cursor as server-sent events.

``log_watcher.py`` sends the output of a run in the same way.

No events are queued for a watcher. Whenever events were recorded, the service reads them from the
watcher's cursor on. A watcher that does not receive the events in time gets its cursor and is
disconnected. The watcher may resume from this cursor (docs/adr/0019).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace as replace_share
from itertools import zip_longest
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace
from starlette.types import Message, Receive, Scope, Send

from quorate.loop.engine import Engine
from quorate.operations.caller import Caller
from quorate.operations.caller_standing import check_standing
from quorate.operations.cursor import Shown
from quorate.operations.fleet.log_following import LogFollower
from quorate.operations.operation import EVENT_STREAM, Operation
from quorate.service.http.log_watcher import LogWatcher
from quorate.service.http.request_guard import ABORT, GoneError, gone
from quorate.service.ledger_thread import LedgerThread
from quorate.service.limits.tenant_shares import Share, Shares
from quorate.service.problem_json import problem
from quorate.service.reply import to_json
from quorate.views.exits import CommandError
from quorate.views.statuses import USAGE

WATCHERS_MAX: Final = 2_000
"""How many watches may be open at the same time."""
WATCHES_OF_TENANT_MAX: Final = 1_000
"""How many watches the users of one tenant may have together."""
WATCHES_OF_ONE_MAX: Final = 250
"""How many watches one caller may have, as in gRPC; an admin may have more."""
WATCHES_KEPT: Final = 100
"""How many watches are reserved for admins."""
READ_MAX: Final = 500
"""How many events are read at a time, before other requests are answered."""
STANDING_S: Final = 15.0
"""How often the permission of a gRPC stream is checked while nothing is recorded."""
FRAMES_BYTES_MAX: Final = 8 * 1024 * 1024
"""How many bytes of recently sent events are cached for other watchers."""
_Key = tuple[int | str, frozenset[str] | None]
"""The id of an event or a notice, and the owners whose names are shown; None if all are shown."""
_SEQ_CHARS_MAX: Final = 16
_FIRST: Final = "first"


class Following(Protocol):
    """Reads events for a watcher, on the ledger thread; see ``operations/ledger/following.py``."""

    cursor: int

    @property
    def is_behind(self) -> bool:
        """Whether there are more events to read now."""
        ...

    def read(self, limit: int) -> list[Shown]:
        """Return the next events or notices that the watcher may see."""
        ...


class Watcher:
    """A client that follows the ledger.

    Events up to ``cursor`` were read for the client, and events up to ``told_cursor`` were sent to
    the client.
    """

    is_over = False
    """Always False: the events of a ledger never end."""

    def __init__(self, ledger_thread: LedgerThread, caller: Caller, following: Following) -> None:
        self._ledger_thread = ledger_thread
        self._caller = caller
        self._following = following
        self.cursor = self.told_cursor = following.cursor
        self._is_behind = True

    async def next(self, timeout_s: float) -> list[Shown]:
        """Return the next events that the watcher may see; empty if none came in time.

        Raises ``CommandError`` if the watcher lost its permission.
        """
        if not self._is_behind:
            await self._ledger_thread.moved(self.cursor, timeout_s)
        found, self.cursor, self._is_behind = await self._ledger_thread.run(self._read)
        return found

    def _read(self, engine: Engine) -> tuple[list[Shown], int, bool]:
        check_standing(engine.view, self._caller, engine.now_ms())
        found = self._following.read(READ_MAX)
        return found, self._following.cursor, self._following.is_behind


async def watcher_of(
    ledger_thread: LedgerThread, caller: Caller, operation: Operation, asked: Struct
) -> Watcher | LogWatcher:
    """Return a watcher; raises ``CommandError`` if the watch is refused."""

    def begin(engine: Engine) -> Following | LogFollower:
        context = ledger_thread.context(engine, caller)
        found: Following | LogFollower = operation.handle()(context, asked, operation)
        return found

    found = await ledger_thread.run(begin)
    if isinstance(found, LogFollower):
        return LogWatcher(ledger_thread, caller, found)
    return Watcher(ledger_thread, caller, found)


async def follow(
    ledger_thread: LedgerThread, caller: Caller, operation: Operation, asked: Struct
) -> AsyncIterator[dict[str, Any]]:
    """Yield events as they are recorded, or lines of output as they are stored.

    The events of a ledger never end, but the output of a run ends with the run.
    """
    watcher = await watcher_of(ledger_thread, caller, operation, asked)
    with ledger_thread.metrics.watch():
        while not watcher.is_over:
            for shown in await watcher.next(STANDING_S):
                yield shown.tree


def watch_share(connections: int) -> Share:
    """Return the limits on watches for at most ``connections`` open connections.

    A watch occupies its connection. So at most half of the connections may be watches, and one
    caller may have only a part of these watches.
    """
    usual = Share.of_all(max(1, min(WATCHERS_MAX, connections // 2)), "watches")
    return replace_share(
        usual,
        of_tenant_max=min(WATCHES_OF_TENANT_MAX, usual.of_tenant_max),
        of_one_max=min(WATCHES_OF_ONE_MAX, usual.of_one_max),
        kept=min(WATCHES_KEPT, usual.kept),
    )


class WatchRegistry:
    """Serves the watchers of REST.

    An event is encoded once for all watchers with the same permissions. The key of the cache is the
    event's sequence number together with the owners whose names are shown. While nothing is
    recorded, a watcher gets a comment every ``heartbeat_s``, so that the client can tell a quiet
    ledger from a lost connection.
    """

    def __init__(self, ledger_thread: LedgerThread, heartbeat_s: float) -> None:
        self._ledger_thread = ledger_thread
        self._heartbeat_s = heartbeat_s
        self._watches = Shares(watch_share(2 * WATCHERS_MAX))
        self._closing = asyncio.Event()
        self._frames: OrderedDict[_Key, bytes] = OrderedDict()
        self._frames_bytes = 0

    def fit(self, connections: int) -> None:
        """Limit the watches, so that some of ``connections`` stay free for other requests."""
        self._watches.share = watch_share(connections)

    def close(self) -> None:
        """Close all watchers; each gets its cursor."""
        self._closing.set()

    async def serve(
        self,
        scope: Scope,
        wanted: tuple[Caller, Operation, Struct],
        headers: Mapping[bytes, str],
        ends: tuple[Receive, Send],
    ) -> None:
        """Send events until the watcher disconnects, is too slow, or the service stops."""
        with self._watches.taken(wanted[0]):
            await self._serve(scope, wanted, headers, ends)

    async def _serve(
        self,
        scope: Scope,
        wanted: tuple[Caller, Operation, Struct],
        headers: Mapping[bytes, str],
        ends: tuple[Receive, Send],
    ) -> None:
        receive, send = ends
        caller, operation, asked = wanted
        watcher = await watcher_of(self._ledger_thread, caller, operation, _resumed(asked, headers))
        leaving = asyncio.ensure_future(gone(receive))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await send(_START)
            with self._ledger_thread.metrics.watch():
                await self._send_all(watcher, send, {leaving, closing})
            if watcher.is_over:
                await send(_part(b"", is_last=True))
            elif closing.done():
                await send(_part(_ending("stopping", watcher.told_cursor), is_last=True))
        except CommandError:
            # The watcher gets the reason when it connects again.
            await send(_part(_ending("dropped", watcher.told_cursor), is_last=True))
        except GoneError:
            if not leaving.done():
                self._ledger_thread.metrics.watch_dropped()
            farewell = scope.get("extensions", {}).get(ABORT, {}).get("farewell")
            if farewell is None or leaving.done():
                raise
            farewell(_ending("dropped", watcher.told_cursor))
        finally:
            leaving.cancel()
            closing.cancel()

    async def _send_all(
        self, watcher: Watcher | LogWatcher, send: Send, ends: set[asyncio.Future[Any]]
    ) -> None:
        await send(_part(_beat(watcher.cursor)))
        while not watcher.is_over and not any(end.done() for end in ends):
            reading = asyncio.ensure_future(watcher.next(self._heartbeat_s))
            await asyncio.wait({reading, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                return
            found = reading.result()
            await send(_part(self._framed(found) or _beat(watcher.cursor)))
            # The cursor moves only after sending: a watcher that disconnects meanwhile did not get
            # the events.
            watcher.told_cursor = watcher.cursor

    def _framed(self, found: Sequence[Shown]) -> bytes:
        """Return events or notices as server-sent events.

        If an event has several notices, only the last one moves the client's cursor: a client that
        disconnects earlier gets all notices of the event again.
        """
        frames: list[bytes] = []
        for shown, after in zip_longest(found, found[1:]):
            if (after is None or after.seq != shown.seq) and shown.seq >= 0:
                frames.append(b"id: %d\n" % shown.seq)
            frames.append(self._frame(shown))
        return b"".join(frames)

    def _frame(self, shown: Shown) -> bytes:
        """Return the frame of an event or a notice; cached for watchers of the same permissions."""
        tree = shown.tree
        if not shown.is_common:
            return b"event: lines\ndata: %s\n" % to_json(tree)
        # A notice has an id of its own; the id of an event is its sequence.
        key: _Key = (tree.get("id", shown.seq), shown.seen)
        known = self._frames.get(key)
        if known is not None:
            return known
        kind = str(tree["tag"] if "tag" in tree else tree["kind"]).partition("/")[0]
        made = b"event: %s\ndata: %s\n" % (kind.encode(), to_json(tree))
        self._frames[key] = made
        self._frames_bytes += len(made)
        while self._frames_bytes > FRAMES_BYTES_MAX:
            _, old = self._frames.popitem(last=False)
            self._frames_bytes -= len(old)
        return made


_START: Final[Message] = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", EVENT_STREAM.encode()),
        # Proxies in between must pass on each event immediately.
        (b"x-accel-buffering", b"no"),
    ],
}


def _part(body: bytes, *, is_last: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": not is_last}


def _beat(cursor: int) -> bytes:
    """Return a comment instead of an event; its id moves the client's cursor."""
    if cursor < 0:
        return b": nothing yet\n\n"
    return b": at %d\nid: %d\n\n" % (cursor, cursor)


def _ending(kind: str, cursor: int) -> bytes:
    data = to_json({"cursor": cursor, "from": cursor + 1})
    if cursor < 0:
        return b"event: %s\ndata: %s\n" % (kind.encode(), data)
    return b"id: %d\nevent: %s\ndata: %s\n" % (cursor, kind.encode(), data)


def _resumed(asked: Struct, headers: Mapping[bytes, str]) -> Struct:
    """Return the request, changed to begin after the last event that the client has."""
    last = headers.get(b"last-event-id", "").strip()
    if not last:
        return asked
    if not (last.isascii() and last.isdecimal() and len(last) <= _SEQ_CHARS_MAX):
        raise problem(USAGE, f"Last-Event-ID: must be the sequence of an event, got {last!r}")
    return replace(asked, **{_FIRST: int(last) + 1})
