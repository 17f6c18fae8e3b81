"""The ledger thread: one thread owns the ledger, and answers requests one after another.

Submits that wait while a commit is under way are committed together, as one block with one flush:
group commit without a timer. Between two groups the thread answers other requests, for a bounded
time. No caller is answered before the block with its changes is durable (docs/adr/0019).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future as ThreadFuture
from contextlib import nullcontext, suppress
from dataclasses import replace
from threading import Thread
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from quorate.adapters.clock_guard import ClockGuard
from quorate.adapters.clock_system import SystemClock
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.model.state.records import TokenRecord
from quorate.operations.answer_types import Answer
from quorate.operations.answered_by import Place, place_of
from quorate.operations.answering import answer
from quorate.operations.batch_bounds import WIDTHS_MAX
from quorate.operations.caller import Caller
from quorate.operations.group_commit import (
    GROUP_MAX,
    answer_together,
    may_wait_for_others,
)
from quorate.operations.operation import DRY_RUN, Effect, Operation
from quorate.operations.recent_blocks import Recent
from quorate.operations.request_context import (
    ONLY_A_LEDGER,
    BesideLedger,
    CallerContext,
    RequestContext,
)
from quorate.operations.visibility import Tenants
from quorate.ports.accounting_port import LinkStatus
from quorate.ports.clock_port import Clock
from quorate.ports.errors import DecidingStoppedError, NotLeaderError, QuorateError
from quorate.ports.executor_port import Readiness, ServedExecutor
from quorate.ports.leader_port import LedStore
from quorate.ports.store_port import EventStore
from quorate.service.commits import CommitHealth, counted
from quorate.service.http.accepting import Connections
from quorate.service.http.body_reader import BodyReader
from quorate.service.limits.overload_limit import Admission
from quorate.service.metrics.registry import Metrics, service_metrics
from quorate.service.other_writers import HeadLook, HeadWatch, OtherWriters
from quorate.service.queued_answers import (
    Response,
    asking_of,
    caller_of,
    deliver,
    response_of,
    within_cpu,
)
from quorate.service.quorum.head_looks import HeadLooks
from quorate.service.quorum.leader_role import (
    CandidateAddress,
    ExecutorSupply,
    LeaderRole,
    Leadership,
)
from quorate.service.quorum.quorum_control import ServiceQuorumControl
from quorate.service.readers.reader_pools import ReaderPools, next_part
from quorate.service.readers.state_reader import Question, ReaderConfig
from quorate.service.reply import Form, Reply, reply_of
from quorate.service.request_queue import Line, QueuedRequest, unavailable, unsure
from quorate.service.timers import Timers
from quorate.service.watchdog import Watchdog
from quorate.views.exits import CommandError, Exit

_LOG = logging.getLogger(__name__)

WAITING_MAX: Final = 4_096
"""How many requests may wait for the ledger; above that, callers must try again later."""
OTHERS_S_MAX: Final = 0.05
"""How long submits may wait while other requests are answered.

At least one other request is answered before the next submits, however long that request takes.
"""
SUBMITS_CPU_S_MAX: Final = 0.25
"""How much CPU time deciding one block's submits may take before other requests are answered.
"""
LARGE_CPU_S_MAX: Final = 2.0
"""How much CPU time deciding one large request may take; a slower request is refused."""
CONFIRMED_S_MAX: Final = 1.0
"""How long a read at a leader waits for all events that etcd had when the read began."""
NOT_LEADING: Final = "this service does not lead"
CLOSE_S_MAX: Final = 10.0
"""How long the ledger thread may take to finish its work and close the ledger."""

T = TypeVar("T")


class Listener(Protocol):
    """Called on the ledger thread after events were recorded; must be quick."""

    def __call__(self, engine: Engine) -> None:
        """React to a new head of the engine's ledger."""
        ...


class LedgerThread:
    """Owns the ledger; start it in its callers' event loop, and stop it before the loop ends.

    ``opening`` makes the engine on the ledger thread, which owns the engine from then on.
    ``beside`` has what answers need in addition to the ledger. ``reading`` opens the ledger for
    reads on other threads. Without ``reading``, the ledger thread also answers reads. If
    ``ledger``, the URL of the store, is given, separate processes answer reads. If a ``supply`` of
    executors is given, other services may share the ledger: this service decides only while it
    leads, and otherwise follows the ledger.
    """

    def __init__(  # noqa: PLR0913 - what a ledger thread is made of
        self,
        opening: Callable[[], Engine],
        *,
        beside: BesideLedger = ONLY_A_LEDGER,
        executor: ServedExecutor | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        reading: Callable[[], EventStore] | None = None,
        ledger: str | None = None,
        waiting_max: int = WAITING_MAX,
        check_writable: Callable[[], None] | None = None,
        bodies: BodyReader | None = None,
        clock_guard: ClockGuard | None = None,
        supply: ExecutorSupply | None = None,
    ) -> None:
        self._clock_guard = clock_guard
        self._supply = supply
        self.is_led = supply is not None
        self.own_name = ""
        self.leadership = Leadership(leads=supply is None)
        self._role: LeaderRole | None = None
        self._read_s = 0.0
        self._others: OtherWriters | None = None
        self._looks = HeadLooks()
        self._stopped: Callable[[], str] = lambda: ""
        self._opening = opening
        self._beside = beside
        self._executor = executor
        self.metrics = metrics or service_metrics()
        self.bodies = bodies or BodyReader()
        self.admission = Admission(shed=self.metrics.shed)
        self._clock = clock or SystemClock()
        self._reading = reading
        self._ledger = ledger
        self._readers: ReaderPools | None = None
        # The blocks that all watchers share; for the ledger thread only.
        self._recent: Recent | None = None
        self._line = Line(waiting_max)
        self._commits = CommitHealth(check_writable)
        self._watchdog = Watchdog()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._moved = asyncio.Event()
        self._led = asyncio.Event()
        self.ended = asyncio.Event()
        self._tokens: Mapping[str, TokenRecord] = {}
        self._tenants = Tenants()
        self._families: object = None
        self._trouble = "the ledger is not open yet"
        self.listeners: list[Listener] = []
        self.work_listeners: list[Callable[[], None]] = []
        self.outage_sources: list[Callable[[], Mapping[str, str]]] = []
        self.recorded_seq = 0
        self.accounting: LinkStatus | None = None
        self.connections: Connections | None = None

    # --- In the event loop ---

    async def start(self) -> None:
        """Open the ledger; raises the error if the ledger cannot be opened."""
        self._loop = asyncio.get_running_loop()
        opened: ThreadFuture[bool] = ThreadFuture()
        self._thread = Thread(target=self._own, args=(opened,), name="ledger", daemon=True)
        self._thread.start()
        is_executed = await asyncio.wrap_future(opened)
        if self._reading is not None:
            config = ReaderConfig(
                reading=self._reading,
                clock=self._clock,
                beside=self._beside,
                is_executed=is_executed,
            )
            self._readers = ReaderPools(config, self._ledger)
            self._readers.open()

    async def stop(self, within_s: float = CLOSE_S_MAX) -> None:
        """Accept no more requests, answer the waiting requests, and close the ledger.

        Raises ``CommandError`` if that takes too long; the thread is then abandoned.
        """
        if self._readers is not None:
            self._readers.close()
        self.bodies.close()
        self._line.close()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, within_s)
            if self._thread.is_alive():
                raise CommandError(
                    Exit.UNUSABLE,
                    f"the ledger thread did not end within {within_s:g} s, and is abandoned: "
                    f"{self.trouble or 'it is still busy'}; every acknowledged command is "
                    f"recorded, and the next start continues from there",
                )

    @property
    def trouble(self) -> str:
        """Why the ledger or its executor cannot be used; empty if both can."""
        if self._thread is not None and not self._thread.is_alive():
            return "the ledger thread has ended"
        executor = "" if self._served is None else self._served.trouble
        return (
            self._trouble
            or self._stopped_text()
            or self._commits.trouble
            or self._watchdog.trouble
            or executor
        )

    @property
    def outages(self) -> Mapping[str, str]:
        """Why some pools or clusters are not served, by executor.

        The ledger can be used nevertheless. A key is the name of an executor, such as
        ``kubernetes/west``, or a part of a cluster, such as ``kubernetes/west nodes``.
        """
        found = dict({} if self._served is None else self._served.outages)
        for each in self.outage_sources:
            found |= each()
        return found

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return the readiness of ``runs``; a run that no executor knows is left out."""
        return {} if self._served is None else self._served.readiness(runs)

    @property
    def _served(self) -> ServedExecutor | None:
        """The executor in use; None without an executor, or if this service follows."""
        return self._executor if self._role is None else self._role.executor

    @property
    def crowding(self) -> str:
        """The limits that are reached; if there are any, callers must try again later."""
        connections = "" if self.connections is None else self.connections.trouble
        return self._line.trouble or self.bodies.trouble or self.admission.trouble or connections

    def _stopped_text(self) -> str:
        stopped = self._stopped()
        return f"nothing is decided: {stopped}" if stopped else ""

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._line)

    async def stand(self, own: CandidateAddress, within_s: float) -> None:
        """Stand for election, and wait until some service leads, at most ``within_s`` seconds."""
        self.own_name = own.name

        def stand(engine: Engine) -> None:
            assert self._role is not None, "only called with a supply of executors"
            assert isinstance(engine.store, LedStore), engine.store
            self._role.stand(engine.store, own)

        await self.run(stand)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.led_until(lambda found: found.leader is not None)

    async def led_until(self, is_so: Callable[[Leadership], bool]) -> Leadership:
        """Wait until the leadership satisfies ``is_so``, and return it."""
        while not is_so(self.leadership):
            await self._led.wait()
        return self.leadership

    @property
    def lag_s(self) -> float:
        """The seconds since the state was last known to have all events of the ledger.

        The lag is 0 if this service leads, or if it is the only service of its ledger.
        """
        return max(0.0, monotonic() - self.whole_s)

    @property
    def whole_s(self) -> float:
        """When the state last had all events of the ledger: now, while this service leads."""
        return self._read_s if self.is_led and not self.held_term else monotonic()

    async def is_confirmed(self) -> bool:
        """Return whether the state has everything that was recorded before this call.

        A leader asks etcd where the ledger ends, because programs that are not services may append
        to the ledger, too. Return False if etcd does not answer, or if this service follows.
        """
        if not self.is_led:
            return True
        watch = None if self._others is None else self._others.watch
        if watch is None or not self.held_term:
            return False
        end_s = monotonic() + CONFIRMED_S_MAX
        seq = await self._looks.end(watch, CONFIRMED_S_MAX)
        return seq is not None and await self.reached(seq, end_s - monotonic())

    @property
    def read_s(self) -> float:
        """When an answer of the store last showed that the state has all events of the ledger."""
        return self._read_s

    @property
    def held_term(self) -> int:
        """The term in which this service leads now; 0 if it does not lead, or is the only service.

        ``leadership`` may be out of date, because it is from the last turn of the ledger thread. A
        service that was suspended for a while, or whose thread waits for the store, may have lost
        its leader's lease since then.
        """
        is_settled = self._role is not None and self.leadership.leads
        return self._role.held_term if self._role is not None and is_settled else 0

    @property
    def may_decide(self) -> bool:
        """Whether this service may decide now: it has the leader's lease, or needs no lease."""
        return self.held_term > 0 if self.is_led else self.leadership.leads

    @property
    def away(self) -> str:
        """Why the store of a shared ledger does not answer at present; empty if it answers."""
        return "" if self._others is None else self._others.away

    @property
    def _reads_here(self) -> bool:
        """Whether the ledger thread answers reads of a page, because the store cannot be reached.

        A separate reader may not have read the ledger yet, but the ledger thread has all that the
        service knows.
        """
        others = self._others
        return others is not None and others.has_all_there_is and not self.leadership.leads

    def nudge(self) -> None:
        """Request a read of executor reports, and call ``work_listeners``; any thread may do so."""
        self._line.nudge()
        for listener in tuple(self.work_listeners):
            listener()

    def token(self, name: str) -> TokenRecord | None:
        """Return the access token called ``name``; None if there is no such token.

        Any thread may call this, because it only reads a dict.
        """
        return self._tokens.get(name)

    async def ask(
        self, caller: Caller, operation: Operation, asked: Struct, form: Form = Form.TREE
    ) -> Reply:
        """Return the answer to a request; all changes that the request made are durable.

        Raises ``CommandError`` if the request is refused, and a ``QuorateError`` if the ledger
        fails.
        """
        place = place_of(operation, asked)
        if place is Place.AT_ONCE:
            context = CallerContext(caller=caller, tenants=self._tenants)
            return reply_of(answer(context, operation, asked), operation, form)
        is_read_here = self._reads_here and place is Place.PAGE and not operation.of_blocks
        if self._readers is not None and place is not Place.WRITER and not is_read_here:
            # The answer includes all acknowledged changes, because ``recorded_seq`` moves before
            # the answers that acknowledge them are delivered.
            question = Question(caller, operation, asked, form, self.recorded_seq)
            return await self._readers.ask(question, place)
        queued = QueuedRequest(self._future(), None, caller, operation, asked, form)
        is_submit = form in (Form.TREE, Form.JSON) and may_wait_for_others(operation, asked)
        if not is_submit:
            queued.do = lambda engine: self._answer(engine, queued)
        self._line.put(queued)
        found: Reply = await queued.done
        return found

    async def run(self, do: Callable[[Engine], T]) -> T:
        """Run ``do`` on the ledger thread, between two commits, and return its result."""
        queued = QueuedRequest(self._future(), do)
        self._line.put(queued)
        found: T = await queued.done
        return found

    async def parts_of(
        self, lines: Iterator[str], *, is_long: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield an answer in parts, made by readers if ``is_long``, else by the ledger thread."""
        while True:
            if is_long and self._readers is not None:
                part = await self._readers.part_of(lines)
            else:
                part = await self.run(lambda _: next_part(lines))
            if not part:
                return
            yield part

    async def moved(self, beyond_seq: int, timeout_s: float) -> bool:
        """Wait for an event after ``beyond_seq``; return whether one was recorded in time."""
        if self.recorded_seq > beyond_seq:
            return True
        moved = self._moved
        try:
            async with asyncio.timeout(timeout_s):
                await moved.wait()
        except TimeoutError:
            return False
        return True

    async def reached(self, seq: int, within_s: float) -> bool:
        """Wait until this service has event ``seq``; return whether it came within ``within_s``."""
        end_s = monotonic() + within_s
        while self.recorded_seq < seq:
            left_s = end_s - monotonic()
            if left_s <= 0 or not await self.moved(self.recorded_seq, left_s):
                return False
        return True

    def _future(self) -> asyncio.Future[Any]:
        assert self._loop is not None, "started first"
        return self._loop.create_future()

    # --- On the ledger thread ---

    def context(self, engine: Engine, caller: Caller) -> RequestContext:
        """Return the context in which requests of ``caller`` are answered."""
        if self._recent is None:
            self._recent = Recent(engine.seen)
        beside = self._beside
        return RequestContext(
            engine,
            caller,
            name=beside.name,
            signer=beside.signer,
            recent=self._recent,
            logs=beside.logs,
            reports=beside.reports,
            mail_domains=beside.mail_domains,
            accounting=self.accounting,
            clock_control=self._clock_guard,
            quorum=ServiceQuorumControl(engine, self._role, self.own_name, self.lag_s),
            widths_max=WIDTHS_MAX,
        )

    def _context_of(self, engine: Engine, queued: QueuedRequest) -> RequestContext:
        """Return the context of ``queued``; the CPU time to decide a large request is limited."""
        context = self.context(engine, caller_of(queued))
        return replace(context, go_on=within_cpu(LARGE_CPU_S_MAX)) if queued.is_large else context

    def _own(self, opened: ThreadFuture[bool]) -> None:
        """Open the ledger, report whether it has an executor, and answer requests until stopped."""
        began_s = monotonic()
        try:
            engine = self._opening()
        except BaseException as error:  # noqa: BLE001 - raised by start() instead
            opened.set_exception(error)
            return
        try:
            self.metrics.opened(engine)
            self.listeners.append(self.metrics.follow)
            self._look(engine)
            self._commits.note_head(engine.head)
            self._commits.begin()
            self._trouble = ""
            is_executed = engine.executor is not None
            if self._supply is not None:
                # A service that follows is healthy: it answers reads, and the leader decides.
                self._stopped = lambda: engine.halted
                self._role = LeaderRole(engine, self._supply, self.nudge)
                is_executed = self._supply.has_executor
            else:
                self._stopped = lambda: engine.stopped
            self._others = OtherWriters(engine, began_s, self._watch(engine, began_s))
            self._tell(self._read_at, began_s)
            opened.set_result(is_executed)
            self._answer_all(engine, self._others)
        finally:
            self._close(engine)

    def _close(self, engine: Engine) -> None:
        """Close the ledger; if no stop was requested, fail the waiting requests."""
        self._line.close()
        self._trouble = "the ledger is closed"
        left = self._line.rest()
        gone = unavailable("the service has stopped; ask again when it runs")
        self._tell(deliver, [(queued.done, None, gone) for queued in left])
        if self._role is not None:
            self._role.close()
        if self._others is not None:
            self._others.close()
        engine.close()
        self._tell(_set, self.ended)

    def _watch(self, engine: Engine, read_s: float) -> HeadWatch | None:
        """Return the watch for blocks of other services; None if the ledger has no other writer."""
        store = engine.store
        if self._role is None or not isinstance(store, LedStore):
            return None

        def on_look(look: HeadLook) -> None:
            self._tell(self._looks.came, look)

        return HeadWatch(store, engine.head.seq, read_s, self._line.wake, on_look)

    def _settle_role(self, engine: Engine, chores: Timers) -> None:
        """Take or leave the leadership, and notify the event loop."""
        if self._role is None:
            return
        has_led = self._role.leadership.leads
        if not self._role.settle():
            return
        if has_led and not self._role.leadership.leads:
            # From now on the next leader reports whether commits work.
            self._commits.left()
        self._look(engine)
        chores.begin()
        self._tell(self._led_as, self._role.leadership)

    def _led_as(self, leadership: Leadership) -> None:
        """Wake callers that wait for a change of the leadership; runs in the event loop."""
        self.leadership = leadership
        led, self._led = self._led, asyncio.Event()
        led.set()

    def _answer_all(self, engine: Engine, others: OtherWriters) -> None:
        chores = Timers(engine, lambda: self._served)
        while self._line.wait(min(chores.wait_s(), self._commits.wait_s(), others.wait_s())):
            before = engine.head
            self._watchdog.begin("the leadership")
            self._settle_role(engine, chores)
            self._commits.check()
            self._watchdog.begin("blocks of other services")
            read_s = others.read_s
            if others.read_on():
                self._look(engine)
            if others.read_s != read_s:
                self._tell(self._read_at, others.read_s)
            self._answer_submits(engine)
            self._answer_others(engine)
            self._answer_large(engine)
            if self._line.was_nudged() or engine.head != before:
                chores.look_again()
            failures = chores.failures
            self._watchdog.begin("due timers")
            if chores.do_due():
                self._look(engine)
            if chores.failures > failures:
                self.metrics.commit_failed()
            self._trouble = chores.trouble or others.trouble
            self._commits.note_head(engine.head)
            if self._clock_guard is not None:
                self._clock_guard.keep(engine.recorded_ms)
            self._watchdog.rest()

    def _answer_submits(self, engine: Engine) -> None:
        """Commit a group of waiting submits as one block.

        When the CPU time for one block is used up, the other submits of the group wait for the next
        block.
        """
        queued_requests = self._line.submits(GROUP_MAX)
        if queued_requests:
            self._commit_submits(engine, queued_requests)

    def _commit_submits(self, engine: Engine, queued_requests: Sequence[QueuedRequest]) -> None:
        self._watchdog.begin("submits")
        settled: list[Response] = []
        before = engine.head
        try:
            askings = [
                asking_of(self._context_of(engine, queued), queued) for queued in queued_requests
            ]
            with counted(self.metrics, engine) as commands:
                found = answer_together(engine, askings, within_cpu(SUBMITS_CPU_S_MAX))
                commands.count = sum(isinstance(each, Answer) for each in found)
            self._commits.note_head(engine.head)
            self._line.put_back(queued_requests[len(found) :])
            for queued, each in zip(queued_requests, found, strict=False):
                if isinstance(each, CommandError):
                    self.metrics.refused(each.refusals)
                settled.append(response_of(queued, each))
        except Exception as error:  # noqa: BLE001 - the loop's top frame: told to all who wait
            self._commits.failed(error)
            shown = _shown(engine, error, before)
            # Deliver the answers before reading the recorded events, because reading may take long.
            self._tell(deliver, [(queued.done, None, shown) for queued in queued_requests])
            settled = []
            self._look(engine)
        self._settle(engine, settled)

    def _answer(self, engine: Engine, queued: QueuedRequest) -> Reply:
        """Return the answer to a request that does not share its block."""
        assert queued.operation is not None, queued
        assert queued.asked is not None, queued
        is_order = queued.operation.effect is Effect.WRITE and not getattr(queued.asked, DRY_RUN)
        with counted(self.metrics, engine) if is_order else nullcontext():
            found = answer(self._context_of(engine, queued), queued.operation, queued.asked)
        return reply_of(found, queued.operation, queued.form)

    def _answer_others(self, engine: Engine) -> None:
        """Answer other requests one after another, until submits have waited long enough."""
        until_s = monotonic() + OTHERS_S_MAX
        settled: list[Response] = []
        while queued := self._line.other():
            settled.append(self._done(engine, queued))
            if monotonic() >= until_s:
                break
        self._settle(engine, settled)

    def _answer_large(self, engine: Engine) -> None:
        """Answer one large request; before the next one, waiting small requests are answered."""
        queued = self._line.large()
        if queued is None:
            return
        if queued.do is None:
            self._commit_submits(engine, [queued])
        else:
            self._settle(engine, [self._done(engine, queued)])

    def _done(self, engine: Engine, queued: QueuedRequest) -> Response:
        """Return the response to ``queued``; if deciding it fails, the response is the error."""
        assert queued.do is not None, queued
        before = engine.head
        self._watchdog.begin("itself" if queued.operation is None else queued.operation.name)
        try:
            found = queued.do(engine)
            self._commits.note_head(engine.head)
        except Exception as error:  # noqa: BLE001 - the loop's top frame: told to who asked
            if queued.operation is not None and queued.operation.effect is Effect.WRITE:
                self._commits.failed(error)
            return queued.done, None, _shown(engine, error, before)
        return queued.done, found, None

    def _settle(self, engine: Engine, settled: list[Response]) -> None:
        """Deliver several answers together, because each waking of the event loop is expensive."""
        if not settled:
            return
        self._look(engine)
        self._tell(deliver, settled)

    def _look(self, engine: Engine) -> None:
        """Store the ledger's head, and notify listeners if it has moved."""
        try:
            view = engine.view
        except QuorateError as error:
            # The stored ledger cannot be read back. The next request tries again, and its caller
            # gets the error if that fails.
            _LOG.warning("the ledger cannot be read: %s", error)
            return
        self._tokens = view.tokens
        if view.family_cache is not self._families or view.reports.keys() != self._tenants.linked:
            # The event loop reads both objects. So they are never changed: when an owner changes,
            # new objects replace them.
            self._families, self._tenants = view.family_cache, Tenants.of(view)
        if engine.head.seq == self.recorded_seq:
            return
        for listener in self.listeners:
            try:
                listener(engine)
            except QuorateError as error:
                # The events are recorded nevertheless; the listener reads them next time.
                _LOG.warning("recorded events cannot be read back: %s", error)
        self._tell(self._moved_to, engine.head.seq)

    def _moved_to(self, seq: int) -> None:
        """Wake the callers that wait for new events; runs in the event loop."""
        self.recorded_seq = max(self.recorded_seq, seq)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _read_at(self, read_s: float) -> None:
        """Record ``read_s``, when the state last had all events; runs in the event loop."""
        self._read_s = read_s

    def _tell(self, what: Callable[[Any], None], argument: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what, argument)
        except RuntimeError:
            # The event loop has ended before the ledger thread: no caller is left.
            _LOG.warning("answers could not be delivered, because the service has ended")


def _set(event: asyncio.Event) -> None:
    event.set()


def _shown(engine: Engine, error: Exception, before: Head) -> Exception:
    """Return ``error`` for the caller; if another service leads now, the error says to ask again.

    ``before`` is the ledger's head when the request began. If the head has moved, the error may
    have come after the commit, so the caller must not take the error for a refusal.
    """
    if isinstance(error, QuorateError) and engine.head != before:
        return unsure(str(error))
    is_deposed = isinstance(error, NotLeaderError) or (
        bool(engine.deposed) and isinstance(error, DecidingStoppedError)
    )
    if is_deposed and not engine.halted:
        return unavailable(f"{NOT_LEADING}; nothing was recorded: ask again in a moment")
    return error
