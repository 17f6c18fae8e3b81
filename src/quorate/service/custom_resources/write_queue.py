"""Requests to a cluster that wait for their turn: one at a time for each object, the newest only.

What is put for an object whose request still waits takes its place. While a request of an object is
under way nothing is put for it: who compares looks again when the request is over. So there are
never more requests than objects, and none is made from a resource that another one is changing.
An object whose request has failed rests for a while, longer each time; others do not wait for it.
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
"""How many requests to the API server are under way at once."""
REST_S: Final = 1.0
"""How long an object rests after a request that has failed; twice as long after the next."""
REST_S_MAX: Final = 15.0

Key = tuple[str, str, str]
"""The kind, the namespace and the name of an object."""


class Rank(IntEnum):
    """Which requests go first; those of one rank in the order in which their objects came."""

    STATUS = 0
    """A status that a person waits for."""
    FINALIZER = 1
    OWN_OBJECT = 2
    FIGURES = 3
    """A status in which only figures are new."""
    EVENT = 4
    """Word of what has happened to a run, on which nothing depends."""


@dataclass(frozen=True, slots=True)
class Write:
    """A request: ``shown`` names its object in the log, ``rank`` says when it is its turn."""

    shown: str
    rank: Rank
    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Rest:
    """How long an object rests after its last request has failed, and until when."""

    for_s: float
    until_s: float


class WriteQueue:
    """For one event loop, which alone calls it; the requests are made on threads of its own.

    ``over`` is called, in the loop, when a request is over: with its key, the write, and why it
    failed, if it did. ``clock`` returns seconds, by which objects rest.
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
        """Return the request of an object that waits or is under way."""
        found = self._under_way.get(key)
        if found is not None:
            return found
        return next((each[key] for each in self._waiting.values() if key in each), None)

    def put(self, key: Key, write: Write) -> float | None:
        """Have ``write`` made, unless one of the same object is under way.

        Returns until when the object rests, and has to be put again; None where it does not.
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
        """Return in how long the next object has rested; None where none rests."""
        now_s = self._clock()
        # An object that is gone is not put again.
        self._rests = {
            key: each for key, each in self._rests.items() if now_s < each.until_s + REST_S_MAX
        }
        ends_s = (each.until_s - now_s for each in self._rests.values() if each.until_s > now_s)
        return min(ends_s, default=None)

    async def close(self) -> None:
        """Return when nothing is under way any more; what waits is given up."""
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
