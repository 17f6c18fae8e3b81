"""Queues requests to a cluster: one at a time for each object, and only the newest request.

A new request for an object replaces the object's waiting request. While a request for an object is
under way, no other request for the object is accepted. When the request ends, the operator compares
the object with the ledger again. So there are never more requests than objects, and no request is
based on data that another request is about to change. After a failed request the queue pauses for
that object, longer each time, and continues with other objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from time import monotonic
from typing import Final

from quorate.ports.errors import ClusterError

WRITERS: Final = 8
"""How many requests to the API server are under way at the same time."""
REST_S: Final = 1.0
"""How long requests for an object pause after a failed request; doubled after each failure."""
REST_S_MAX: Final = 15.0

Key = tuple[str, str, str]
"""The kind, the namespace and the name of an object."""


class Rank(IntEnum):
    """The priority of requests; within one rank, objects are served in order of arrival."""

    STATUS = 0
    """A status that a user waits for."""
    FINALIZER = 1
    OWN_OBJECT = 2
    FIGURES = 3
    """A status in which only figures have changed."""
    EVENT = 4
    """An Event of a run, on which nothing depends."""


@dataclass(frozen=True, slots=True)
class Write:
    """A request: ``shown`` names its object in the log, ``rank`` is its priority."""

    shown: str
    rank: Rank
    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Rest:
    """How long, and until when, requests for an object pause after a failed request."""

    for_s: float
    until_s: float


class WriteQueue:
    """A queue for one event loop; its own threads send the requests.

    The loop calls ``over`` when a request has ended: with the key of the object, the write, and the
    error, if any. ``clock`` returns the seconds by which pauses are measured.
    """

    def __init__(
        self,
        over: Callable[[Key, Write, ClusterError | None], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._over = over
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(WRITERS, "resources")
        self._waiting: dict[Rank, dict[Key, Write]] = {rank: {} for rank in Rank}
        self._under_way: dict[Key, Write] = {}
        self._rests: dict[Key, _Rest] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        """Return how many requests wait or are under way."""
        return len(self._under_way) + sum(map(len, self._waiting.values()))

    def known(self, key: Key) -> Write | None:
        """Return the waiting or running request for an object."""
        found = self._under_way.get(key)
        if found is not None:
            return found
        return next((each[key] for each in self._waiting.values() if key in each), None)

    def put(self, key: Key, write: Write) -> float | None:
        """Queue ``write``, unless a request for the same object is under way.

        If requests for the object pause, return the time at which the pause ends; the caller must
        queue the write again at that time. Otherwise return None.
        """
        rest = self._rests.get(key)
        if rest is not None and self._clock() < rest.until_s:
            return rest.until_s
        if key in self._under_way or self._is_closed:
            return None
        for rank, waiting in self._waiting.items():
            if rank is not write.rank:
                waiting.pop(key, None)
        self._waiting[write.rank][key] = write
        self._fill()
        return None

    def rested_in_s(self) -> float | None:
        """Return the seconds until the next pause of an object ends; None if there is no pause."""
        now_s = self._clock()
        # Pauses are forgotten some time after their end: otherwise those of deleted objects, which
        # are not queued again, would stay for ever.
        self._rests = {
            key: each for key, each in self._rests.items() if now_s < each.until_s + REST_S_MAX
        }
        ends_s = (each.until_s - now_s for each in self._rests.values() if each.until_s > now_s)
        return min(ends_s, default=None)

    async def close(self) -> None:
        """Drop waiting requests, and wait until no request is under way."""
        self._is_closed = True
        for waiting in self._waiting.values():
            waiting.clear()
        await asyncio.gather(*self._tasks)
        await asyncio.to_thread(self._pool.shutdown)

    def _fill(self) -> None:
        while len(self._under_way) < WRITERS:
            waiting = next(filter(None, self._waiting.values()), None)
            if waiting is None:
                return
            key = next(iter(waiting))
            write = self._under_way[key] = waiting.pop(key)
            task = self._loop.create_task(self._make(key, write))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, key: Key, write: Write) -> None:
        failure: ClusterError | None = None
        try:
            await self._loop.run_in_executor(self._pool, write.call)
        except ClusterError as error:
            failure = error
        finally:
            del self._under_way[key]
        self._note(key, failure)
        self._over(key, write, failure)
        self._fill()

    def _note(self, key: Key, failure: ClusterError | None) -> None:
        before = self._rests.pop(key, None)
        if failure is not None:
            for_s = REST_S if before is None else min(2 * before.for_s, REST_S_MAX)
            self._rests[key] = _Rest(for_s, self._clock() + for_s)
