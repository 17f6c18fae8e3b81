"""The reading room: long questions are answered beside the ledger's thread, and hold up nobody.

A question that takes as long as the ledger or the queue is gets a thread of a few, and reads the
ledger as it stands when its turn has come: whatever was acknowledged before it was asked is there.
Each thread keeps the state that it folded for a while, and only reads on from there
(docs/adr/0019).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Final, TypeVar

from quorate.answers.exits import CommandError, Exit
from quorate.ledger.chain import Head, open_blocks
from quorate.loop.engine import SNAPSHOT_EVENTS, Engine
from quorate.model.apply import apply_all
from quorate.model.state import State
from quorate.operations.caller import Caller
from quorate.operations.desk import AnyDesk, BlockDesk, Desk, Signer
from quorate.operations.operation import Operation
from quorate.operations.statuses import UNAVAILABLE
from quorate.ports.clock import Clock
from quorate.ports.store import EventStore
from quorate.service.shares import Share, Shares

_LOG = logging.getLogger(__name__)

READERS: Final = 2
"""How many long questions are answered at once; all but one at most are of one tenant."""
LONG_WAITING_MAX: Final = 64
"""How many long questions may wait; more are told to come back."""
LONG_OF_TENANT_MAX: Final = 32
"""How many of one tenant may wait or be under way, so that none has the room to itself."""
LONG_OF_ONE_MAX: Final = 16
"""How many of one caller may wait or be under way."""
LONG_OPEN_MAX: Final = 1_000
"""How many are not answered yet, those among them that go on with an answer."""
READ_ON_EVENTS_MAX: Final = 4 * SNAPSHOT_EVENTS
"""How far a state is read on before it is opened anew, to stay as small as what is live."""
KEEP_S: Final = 60.0
"""How long a state is kept that nobody asks about: it takes as much memory as the ledger's own."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What is read: ``reading`` opens the ledger as it stands, to read it from any thread.

    ``is_executed`` says whether an executor runs the work, which readers plan with.
    """

    reading: Callable[[], EventStore]
    clock: Clock
    name: str = "the ledger"
    signer: Signer | None = None
    is_executed: bool = False


class Reader:
    """One thread's own sight of the ledger."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._kept: tuple[State, Head] | None = None
        self._opened_seq = 0

    def desk(self, caller: Caller, operation: Operation) -> AnyDesk:
        """Return the desk at which ``caller`` is answered, with all that is recorded by now."""
        shelf = self._shelf
        store = shelf.reading()
        if operation.of_blocks:
            return BlockDesk(
                store=store, clock=shelf.clock, caller=caller, name=shelf.name, signer=shelf.signer
            )
        engine = self._engine(store)
        return Desk(
            engine, caller, name=shelf.name, signer=shelf.signer, is_executed=shelf.is_executed
        )

    def forget(self) -> None:
        """Let go of the state, which is then read anew when it is asked for."""
        self._kept = None

    def _engine(self, store: EventStore) -> Engine:
        """Return an engine that nobody gives commands, over the state at the end of ``store``."""
        # A state that could be read on only in part is of no use to anybody.
        kept, self._kept = self._kept, None
        if kept is not None and kept[1].seq - self._opened_seq >= READ_ON_EVENTS_MAX:
            # Runs that ended since are in memory only; from a later snapshot they are archived.
            kept = None
        if kept is None:
            engine = Engine.open(store, self._shelf.clock)
            self._opened_seq = engine.head.seq
        else:
            state, head = kept
            blocks = store.blocks(from_height=head.height + 1)
            opened = open_blocks(blocks, after=head, not_before_ms=state.at_ms)
            for after, events in opened:
                apply_all(state, events)
                head = after
            engine = Engine(store, self._shelf.clock, state, head)
        assert isinstance(engine.view, State), "an engine owns its state"
        self._kept = engine.view, engine.head
        return engine


@dataclass(frozen=True, slots=True)
class _Slip:
    """A question that waits; one that looks at no ledger ``is_apart``."""

    done: asyncio.Future[Any]
    do: Callable[[Reader], Any]
    whose: str = ""
    is_apart: bool = False


class ReadingRoom:
    """Open it in the event loop that its callers run in; close it before that ends."""

    def __init__(
        self, shelf: Shelf, *, readers: int = READERS, waiting_max: int = LONG_WAITING_MAX
    ) -> None:
        self._shelf = shelf
        self._readers = readers
        self._waiting_max = waiting_max
        self._wake = Condition()
        self._slips: deque[_Slip] = deque()
        # What is being answered.
        self._under_way: list[_Slip] = []
        # Whose questions are not answered yet, in the event loop only.
        self._shares = Shares(
            Share(
                most=LONG_OPEN_MAX,
                of_tenant_max=LONG_OF_TENANT_MAX,
                of_one_max=LONG_OF_ONE_MAX,
                kept=0,
                what="questions that take long",
            )
        )
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- In the event loop ---

    def open(self) -> None:
        """Let readers in."""
        self._loop = asyncio.get_running_loop()
        for number in range(self._readers):
            # Nobody waits for a reader when the program ends: it changes nothing.
            Thread(target=self._read, name=f"reader-{number}", daemon=True).start()

    def close(self) -> None:
        """Take nothing more, and turn away those who wait; what is being answered is left alone."""
        with self._wake:
            self._is_closing = True
            left, self._slips = list(self._slips), deque()
            self._wake.notify_all()
        for slip in left:
            _settle(slip.done, None, _stopping())

    async def ask(self, caller: Caller, do: Callable[[Reader], T], *, is_apart: bool = False) -> T:
        """Return what ``do`` returns on a thread of the room, asked by ``caller``.

        What looks at no ledger ``is_apart``: of that one of each caller is answered at a time, and
        a thread is left for what does look at it.

        Raises ``CommandError`` when too many wait, or too many of theirs.
        """
        with self._shares.taken(caller):
            whose = caller.tenant or caller.whose
            found: T = await self._run(_Slip(self._future(), do, whose, is_apart))
            return found

    async def run(self, do: Callable[[Reader], T], *, goes_on: bool = False) -> T:
        """Return what ``do`` returns on a thread of the room.

        Raises ``CommandError`` when too many wait, unless this ``goes_on`` with an answer that has
        begun: of each of those no more than one waits.
        """
        found: T = await self._run(_Slip(self._future(), do), goes_on=goes_on)
        return found

    def _future(self) -> asyncio.Future[Any]:
        assert self._loop is not None, "opened first"
        return self._loop.create_future()

    async def _run(self, slip: _Slip, *, goes_on: bool = False) -> Any:
        with self._wake:
            if self._is_closing:
                raise _stopping()
            if len(self._slips) >= self._waiting_max:
                # Whoever has gone waits for nothing.
                self._slips = deque(each for each in self._slips if not each.done.cancelled())
            if len(self._slips) >= self._waiting_max and not goes_on:
                raise CommandError(
                    Exit.UNUSABLE,
                    f"{len(self._slips)} questions that take long wait; ask again later",
                    fault=UNAVAILABLE,
                )
            self._slips.append(slip)
            self._wake.notify()
        return await slip.done

    # --- On a thread of the room ---

    def _read(self) -> None:
        reader = Reader(self._shelf)
        while True:
            slip = self._next(reader)
            if slip is None:
                return
            try:
                self._tell(slip, slip.do(reader), None)
            except Exception as error:  # noqa: BLE001 - the thread's top frame: told to who asked
                self._tell(slip, None, error)
            with self._wake:
                self._under_way.remove(slip)
                # One of those who were passed over may begin now.
                self._wake.notify_all()

    def _next(self, reader: Reader) -> _Slip | None:
        """Return the next question, None when there never will be one."""
        with self._wake:
            while (slip := self._take()) is None:
                if self._is_closing:
                    return None
                if not self._wake.wait(KEEP_S):
                    reader.forget()
            return slip

    def _take(self) -> _Slip | None:
        """Return the first question whose turn it may be, None where there is none.

        Those whose asker has gone are dropped on the way.
        """
        left: deque[_Slip] = deque()
        found: _Slip | None = None
        while self._slips and found is None:
            slip = self._slips.popleft()
            if slip.done.cancelled():
                continue
            if self._may_begin(slip):
                found = slip
                self._under_way.append(slip)
            else:
                left.append(slip)
        self._slips.extendleft(reversed(left))
        return found

    def _may_begin(self, slip: _Slip) -> bool:
        """Return whether a thread is left to others once ``slip`` is being answered."""
        most = max(1, self._readers - 1)
        mine = [each for each in self._under_way if slip.whose and each.whose == slip.whose]
        if len(mine) >= most:
            return False
        apart = [each for each in self._under_way if each.is_apart]
        is_first = not any(each.is_apart for each in mine)
        return not slip.is_apart or (is_first and len(apart) < most)

    def _tell(self, slip: _Slip, found: object, error: Exception | None) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(_settle, slip.done, found, error)
        except RuntimeError:
            # The event loop has ended meanwhile: nobody is left to be told.
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
