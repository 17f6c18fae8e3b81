"""The read pool: answers reads beside the ledger thread, so that they delay no commit.

There are a few readers. Each read is answered by one reader, from the ledger's head at that moment,
so that the answer includes everything acknowledged before the request. A reader is a separate
process (``reader_process.py``), so that its work does not compete with commits for the interpreter
lock. This module decides which read is next, and how many may wait; each process gets its reads
from one thread (docs/adr/0032).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from quorate.operations.caller import Caller, Role
from quorate.service.limits.tenant_shares import Share, Shares
from quorate.service.readers.state_reader import Question
from quorate.service.reply import Reply
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import UNAVAILABLE

_LOG = logging.getLogger(__name__)

READERS: Final = 3
"""The number of readers.

At a time, at most ``READERS - 1`` readers answer long reads, and at most ``READERS - 1`` answer
reads of one tenant. At most ``READERS - 2`` readers answer long reads of one tenant.
"""
WAITING_MAX: Final = 256
"""How many reads may wait; above that, callers must try again later."""
OF_TENANT_MAX: Final = 128
"""How many reads of one tenant may wait or be under way, so that no tenant fills the pool."""
OF_ONE_MAX: Final = 64
"""How many reads of one caller may wait or be under way."""
LONG_OF_TENANT_MAX: Final = 32
"""How many long reads of one tenant may wait or be under way."""
LONG_OF_ONE_MAX: Final = 16
"""How many long reads of one caller may wait or be under way."""
OPEN_MAX: Final = 1_000
"""How many reads may wait or be under way, in all.

Long reads are counted separately, up to the same number.
"""
KEEP_S: Final = 600.0
"""How long a reader keeps an unused state, which takes as much memory as the ledger's state."""

T = TypeVar("T")


class AnyReader(Protocol):
    """Answers reads, for one thread at a time."""

    def reply(self, question: Question) -> Reply:
        """Return the answer; raises ``CommandError`` if the request is refused."""
        ...

    def follow(self) -> None:
        """Prepare for the next read."""
        ...

    def forget(self) -> None:
        """Release memory."""
        ...

    def close(self) -> None:
        """Answer no more reads; may be called from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class _QueuedRead:
    """A waiting read.

    ``is_long`` means that the read takes long. ``is_apart`` means that the read needs other data
    than the ledger.
    """

    done: asyncio.Future[Any]
    do: Callable[[AnyReader], Any]
    whose: str = ""
    is_long: bool = True
    is_apart: bool = False


class ReadPool:
    """Answers reads; open the pool in its callers' event loop; close it before the loop ends."""

    def __init__(
        self,
        make: Callable[[], AnyReader],
        *,
        readers: int = READERS,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._readers = [make() for _ in range(readers)]
        self._waiting_max = waiting_max
        self._wake = Condition()
        self._queued_reads: deque[_QueuedRead] = deque()
        # Reads that are being answered.
        self._under_way: list[_QueuedRead] = []
        # Callers whose reads are not answered yet; for the event loop only.
        self._shares = Shares(
            Share(
                most=OPEN_MAX,
                of_tenant_max=OF_TENANT_MAX,
                of_one_max=OF_ONE_MAX,
                kept=0,
                what="questions",
            )
        )
        self._long_shares = Shares(
            Share(
                most=OPEN_MAX,
                of_tenant_max=LONG_OF_TENANT_MAX,
                of_one_max=LONG_OF_ONE_MAX,
                kept=0,
                what="reads that take long",
            )
        )
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- In the event loop ---

    def open(self) -> None:
        """Start the readers."""
        self._loop = asyncio.get_running_loop()
        for number, reader in enumerate(self._readers):
            # The program ends without waiting for readers, because readers change nothing.
            name = f"reader-{number}"
            Thread(target=self._read, args=(reader,), name=name, daemon=True).start()

    def close(self) -> None:
        """Accept no more reads, and refuse the reads that wait or are being answered."""
        with self._wake:
            self._is_closing = True
            left, self._queued_reads = list(self._queued_reads), deque()
            self._wake.notify_all()
        for queued in left:
            _settle(queued.done, None, _stopping())
        for reader in self._readers:
            reader.close()

    async def ask(
        self,
        caller: Caller,
        do: Callable[[AnyReader], T],
        *,
        is_long: bool = True,
        is_apart: bool = False,
    ) -> T:
        """Run ``do`` on a thread of the pool for ``caller``, and return its result.

        Long reads (``is_long``) together leave one reader free, and so do reads of other data than
        the ledger (``is_apart``). Of one tenant's ``is_apart`` reads, one is answered at a time.

        Raises ``CommandError`` if too many reads wait: in all, of this tenant, or of this caller.
        An admin's read may wait above these limits, up to ``OPEN_MAX``.
        """
        shares = self._long_shares if is_long else self._shares
        with shares.taken(caller):
            whose = caller.tenant or caller.whose
            queued = _QueuedRead(self._future(), do, whose, is_long, is_apart)
            found: T = await self._run(queued, is_let_in=caller.role is Role.ADMIN)
            return found

    async def run(self, do: Callable[[AnyReader], T], *, goes_on: bool = False) -> T:
        """Run ``do`` on a thread of the pool, and return its result.

        Raises ``CommandError`` if too many reads wait, unless this read continues an answer that
        has begun (``goes_on``). An answer that has begun has at most one waiting read.
        """
        found: T = await self._run(_QueuedRead(self._future(), do), is_let_in=goes_on)
        return found

    def _future(self) -> asyncio.Future[Any]:
        assert self._loop is not None, "opened first"
        return self._loop.create_future()

    async def _run(self, queued: _QueuedRead, *, is_let_in: bool) -> Any:
        with self._wake:
            if self._is_closing:
                raise _stopping()
            if len(self._queued_reads) >= self._waiting_max:
                # Reads of callers that have disconnected are dropped.
                self._queued_reads = deque(
                    each for each in self._queued_reads if not each.done.cancelled()
                )
            if len(self._queued_reads) >= self._waiting_max and not is_let_in:
                raise CommandError(
                    Exit.UNUSABLE,
                    f"{len(self._queued_reads)} reads wait, which is the limit; ask again later",
                    fault=UNAVAILABLE,
                )
            self._queued_reads.append(queued)
            self._wake.notify()
        return await queued.done

    # --- On a thread of the pool ---

    def _read(self, reader: AnyReader) -> None:
        self._begin(reader)
        while True:
            queued = self._next(reader)
            if queued is None:
                # A reader that was started while the pool was being closed ends here.
                reader.forget()
                return
            try:
                self._tell(queued, queued.do(reader), None)
            except Exception as error:  # noqa: BLE001 - the thread's top frame: told to who asked
                self._tell(queued, None, error)
            with self._wake:
                self._under_way.remove(queued)
                # A read that was skipped may begin now.
                self._wake.notify_all()

    def _begin(self, reader: AnyReader) -> None:
        try:
            reader.follow()
        except Exception:  # noqa: BLE001 - a thread's top frame: logged
            # For example, a reader that ends at once raises ``EOFError``. This thread must continue
            # after every error. The first read starts the reader again; if that fails, the caller
            # gets the error.
            _LOG.exception("a reader could not be started")

    def _next(self, reader: AnyReader) -> _QueuedRead | None:
        """Return the next read; None when the pool is closing."""
        while True:
            with self._wake:
                found = self._wait(KEEP_S)
            if found is not None or self._is_closing:
                return found
            # The memory is released outside the lock, so that no caller waits for this.
            reader.forget()

    def _wait(self, within_s: float) -> _QueuedRead | None:
        """Return the next read; None if none came in time, or the pool is closing."""
        end_s = monotonic() + within_s
        while (queued := self._take()) is None:
            left_s = end_s - monotonic()
            if self._is_closing or left_s <= 0:
                return None
            self._wake.wait(left_s)
        return queued

    def _take(self) -> _QueuedRead | None:
        """Remove and return the first read that may begin now; None if no read may begin.

        Waiting reads before the returned read are dropped if their callers have disconnected.
        """
        left: deque[_QueuedRead] = deque()
        found: _QueuedRead | None = None
        while self._queued_reads and found is None:
            queued = self._queued_reads.popleft()
            if queued.done.cancelled():
                continue
            if self._may_begin(queued):
                found = queued
                self._under_way.append(queued)
            else:
                left.append(queued)
        self._queued_reads.extendleft(reversed(left))
        return found

    def _may_begin(self, queued: _QueuedRead) -> bool:
        """Return whether ``queued`` may begin now.

        Readers are kept free for other tenants, and for short reads.
        """
        most = max(1, len(self._readers) - 1)
        mine = [each for each in self._under_way if queued.whose and each.whose == queued.whose]
        if len(mine) >= most:
            return False
        if queued.is_long:
            long_of_mine = sum(each.is_long for each in mine)
            long_of_all = sum(each.is_long for each in self._under_way)
            if long_of_all >= most or long_of_mine >= max(1, most - 1):
                return False
        apart = [each for each in self._under_way if each.is_apart]
        is_first = not any(each.is_apart for each in mine)
        return not queued.is_apart or (is_first and len(apart) < most)

    def _tell(self, queued: _QueuedRead, found: object, error: Exception | None) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(_settle, queued.done, found, error)
        except RuntimeError:
            # The event loop has ended meanwhile: no caller is left.
            _LOG.warning("a long answer could not be delivered, because the service has ended")


def _settle(done: asyncio.Future[Any], found: object, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(found)
    else:
        done.set_exception(error)


def _stopping() -> CommandError:
    return CommandError(
        Exit.UNUSABLE, "the service is stopping; ask again in a moment", fault=UNAVAILABLE
    )
