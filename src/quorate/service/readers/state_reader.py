"""A reader: it has a state that follows the ledger, and answers questions from that state.

For each question the reader reads the ledger up to the present head, so that the answer includes
everything acknowledged before the question. Results derived from a state (the plan, the order of
the queue) are reused until the ledger has a new event, but for at most ``INSTANT_MS_MAX``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import thread_time
from typing import Final

from msgspec import Struct

from quorate.loop.engine import SNAPSHOT_EVENTS, Engine
from quorate.operations.answering import answer
from quorate.operations.batch_bounds import WIDTHS_MAX
from quorate.operations.caller import Caller
from quorate.operations.operation import Operation
from quorate.operations.request_context import (
    ONLY_A_LEDGER,
    AnyContext,
    BesideLedger,
    BlocksContext,
    Instant,
    RequestContext,
)
from quorate.ports.clock_port import Clock
from quorate.ports.errors import StoreError
from quorate.ports.store_port import EventStore
from quorate.service.reply import Form, Reply, reply_of

READ_ON_EVENTS_MAX: Final = 4 * SNAPSHOT_EVENTS
"""To stay small, a state is read again from a snapshot after ``READ_ON_EVENTS_MAX`` events."""
INSTANT_MS_MAX: Final = 1_000
"""How old results derived from a state may be before they are computed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderConfig:
    """The settings of readers; ``reading`` opens the ledger for reading, on any thread.

    ``glancing`` opens the ledger for an idle reader, with a short time limit.

    ``is_executed`` says whether an executor runs the work; plans depend on it.
    """

    reading: Callable[[], EventStore]
    clock: Clock
    glancing: Callable[[], EventStore] | None = None
    beside: BesideLedger = ONLY_A_LEDGER
    is_executed: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question of ``caller``; the answer must include all events up to ``seq``, if given."""

    caller: Caller
    operation: Operation
    asked: Struct
    form: Form = Form.TREE
    seq: int | None = None


class Reader:
    """Answers questions from its own state; for one thread at a time."""

    def __init__(self, config: ReaderConfig) -> None:
        self._config = config
        self._engine: Engine | None = None
        # The store from which the state was first read; it has the archived runs.
        self._opened: EventStore | None = None
        self._opened_seq = 0
        self._instant: tuple[int, Instant] | None = None

    def reply(self, question: Question) -> Reply:
        """Return the answer; raises ``CommandError`` if the request is refused."""
        context = self.context(question.caller, question.operation, question.seq)
        # Reading the state is not counted, because other questions need the state as well.
        begun_s = thread_time()
        found = answer(context, question.operation, question.asked)
        reply = reply_of(found, question.operation, question.form, is_long=True)
        return replace(reply, cpu_s=thread_time() - begun_s)

    def context(self, caller: Caller, operation: Operation, seq: int | None = None) -> AnyContext:
        """Return the context for requests of ``caller``, with all events recorded by now.

        If ``seq`` is given, the context may be older, but has all events up to ``seq``.
        """
        config, beside = self._config, self._config.beside
        if operation.of_blocks:
            return BlocksContext(
                store=config.reading(),
                clock=config.clock,
                caller=caller,
                name=beside.name,
                signer=beside.signer,
            )
        engine = self._followed(seq)
        return RequestContext(
            engine,
            caller,
            name=beside.name,
            signer=beside.signer,
            is_executed=config.is_executed,
            logs=beside.logs,
            reports=beside.reports,
            mail_domains=beside.mail_domains,
            instant=self._now(engine),
            widths_max=WIDTHS_MAX,
        )

    def follow(self) -> None:
        """Follow the ledger, so that the next question has little left to read."""
        self.read_on()

    def read_on(self) -> int:
        """Follow the ledger; return how many events were read, 0 if there is no state yet."""
        if self._engine is None:
            return 0
        before = self._engine.head.seq
        return self._followed(None, self._config.glancing).head.seq - before

    def forget(self) -> None:
        """Release the state; the next question reads it again."""
        self._engine = self._instant = None
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def close(self) -> None:
        """Do nothing: a question under way changes nothing, and ends by itself."""

    def _followed(self, seq: int | None, reading: Callable[[], EventStore] | None = None) -> Engine:
        """Return a read-only engine whose state is at the ledger's end or at least at ``seq``."""
        known = self._engine
        if known is not None and seq is not None and known.head.seq >= seq:
            return known
        store = (reading or self._config.reading)()
        # Forget the state until it is read: after a failure within a block it must not be used.
        self._engine = self._instant = None
        if known is not None and known.head.seq - self._opened_seq >= READ_ON_EVENTS_MAX:
            # Runs that ended while the state was followed are still in memory. A state from a later
            # snapshot has them in the archive.
            known = None
        if known is None:
            self.forget()
            engine = Engine.open(store, self._config.clock)
            self._opened, self._opened_seq = store, engine.head.seq
        else:
            engine = known.taken_over(store)
            try:
                engine.follow()
            except StoreError:
                # The present state is still useful while the store cannot be reached.
                if engine.is_whole:
                    self._engine = engine
                raise
        self._engine = engine
        return engine

    def _now(self, engine: Engine) -> Instant:
        """Return the state of ``engine`` as an ``Instant`` with a recent time."""
        known, seq, now_ms = self._instant, engine.head.seq, engine.now_ms()
        if known is not None and known[0] == seq:
            is_recent = 0 <= now_ms - known[1].now_ms < INSTANT_MS_MAX
            if is_recent:
                return known[1]
        found = Instant(engine.view, now_ms, has_executor=self._config.is_executed)
        self._instant = seq, found
        return found
