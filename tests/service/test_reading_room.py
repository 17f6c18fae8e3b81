"""Long reads are answered beside the ledger thread, from what was recorded before them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import chain, count
from pathlib import Path
from threading import Event, current_thread

import pytest
from msgspec.structs import replace

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_pages import PagedReader
from quorate.core.commands import Apply
from quorate.ledger.chain import Block
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.operations import common_requests
from quorate.operations.answer_types import Answer
from quorate.operations.answered_by import takes_long
from quorate.operations.caller import Caller, Role
from quorate.operations.ledger import ledger_operations, plan_operations
from quorate.operations.operation import Effect, Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.resources import resource_operations, run_operations
from quorate.operations.table import OPERATIONS
from quorate.ports.errors import StoreDownError
from quorate.ports.store_port import EventStore
from quorate.service.ledger_thread import LedgerThread
from quorate.service.opening import open_ledger
from quorate.service.readers.read_pool import LONG_OF_ONE_MAX, AnyReader, ReadPool
from quorate.service.readers.state_reader import Reader, ReaderConfig
from quorate.service.reply import Form
from quorate.service.simulated_room import SimulatedRoom
from quorate.views.exits import CommandError
from quorate.views.runs.event_text import ABOUT
from tests.bounds import WAIT_S, until_async
from tests.service.serving import Served, new_ledger, serving
from tests.service.stopping import stopped_readers
from tests.service.worlds import ADMIN, ALICE, run_tree, small_ledger

EVENTS = 20_000
VERIFY = OPERATIONS["verify-ledger"]
SUBMIT = OPERATIONS["submit-run"]
DESCRIBE = OPERATIONS["describe-run"]


class HeldStore(MemoryStore):
    """A store that only the ledger thread can read until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = Event()
        self.let_go = Event()

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        if current_thread().name.startswith("reader"):
            self.entered.set()
            assert self.let_go.wait(WAIT_S)
        return super().blocks(from_height=from_height)


@asynccontextmanager
async def held(store: HeldStore) -> AsyncIterator[LedgerThread]:
    ledger_thread = LedgerThread(lambda: small_ledger(store), reading=lambda: store)
    await ledger_thread.start()
    try:
        yield ledger_thread
    finally:
        store.let_go.set()
        await ledger_thread.stop()


def test_submits_are_answered_while_a_long_question_is() -> None:
    async def scenario() -> None:
        store = HeldStore()
        async with held(store) as ledger_thread:
            verifying = asyncio.create_task(
                ledger_thread.ask(ADMIN, VERIFY, ledger_operations.VerifyLedger(deep=True))
            )
            assert await asyncio.to_thread(store.entered.wait, WAIT_S)
            for number in range(5):
                document = run_tree(f"r{number}")
                await ledger_thread.ask(ALICE, SUBMIT, run_operations.SubmitRun(document=document))
            assert not verifying.done()
            store.let_go.set()
            found = await verifying
            assert found.tree["verifies"] is True

    asyncio.run(scenario())


def test_a_long_question_sees_what_was_acknowledged_before_it() -> None:
    async def scenario() -> None:
        store = HeldStore()
        store.let_go.set()
        async with held(store) as ledger_thread:
            for number in range(6):
                name = f"r{number}"
                document = run_tree(name)
                await ledger_thread.ask(ALICE, SUBMIT, run_operations.SubmitRun(document=document))
                told = await ledger_thread.ask(
                    ALICE, DESCRIBE, resource_operations.GetThing(name=name)
                )
                assert told.tree["name"] == name
                assert name in told.tree["sections"][0]

    asyncio.run(scenario())


PLANS = (
    (OPERATIONS["plan-run"], plan_operations.AboutRun(run="r0")),
    (OPERATIONS["explain-run"], plan_operations.AboutRun(run="r0")),
    (OPERATIONS["plan-runs"], plan_operations.PlanRuns(documents=(run_tree("new"),))),
    (OPERATIONS["picture"], plan_operations.PictureRequest(run="r0")),
)


@pytest.mark.parametrize(("operation", "wanted"), PLANS)
@pytest.mark.parametrize("form", [Form.TREE, Form.TOLD])
def test_submits_are_answered_while_a_plan_is_made(
    operation: Operation, wanted: common_requests.Asked, form: Form
) -> None:
    async def scenario() -> None:
        store = HeldStore()
        async with held(store) as ledger_thread:
            await ledger_thread.ask(
                ALICE, SUBMIT, run_operations.SubmitRun(document=run_tree("r0"))
            )
            planning = asyncio.create_task(ledger_thread.ask(ALICE, operation, wanted, form))
            assert await asyncio.to_thread(store.entered.wait, WAIT_S)
            await ledger_thread.ask(
                ALICE, SUBMIT, run_operations.SubmitRun(document=run_tree("r1"))
            )
            assert not planning.done()
            store.let_go.set()
            await planning

    asyncio.run(scenario())


def test_a_plan_sees_what_was_acknowledged_before_it() -> None:
    async def scenario() -> None:
        store = HeldStore()
        store.let_go.set()
        async with held(store) as ledger_thread:
            for number in range(6):
                document = run_tree(f"r{number}")
                await ledger_thread.ask(ALICE, SUBMIT, run_operations.SubmitRun(document=document))
                wanted = plan_operations.AboutRun(run=f"r{number}")
                told = await ledger_thread.ask(ALICE, OPERATIONS["plan-run"], wanted)
                assert told.tree["run"] == f"r{number}"
                told = await ledger_thread.ask(ALICE, OPERATIONS["explain-run"], wanted)
                assert told.tree["run"] == f"r{number}"

    asyncio.run(scenario())


def told_executor(context: RequestContext, asked: object, operation: Operation) -> Answer:
    """Answer whether plans count on an executor, and on which thread."""
    del asked, operation
    found = [context.has_executor, current_thread().name.startswith("reader")]
    return Answer(tree=lambda: found, lines=lambda _: [])


@pytest.mark.parametrize("has_executor", [True, False])
def test_readers_plan_with_the_executor_that_the_ledger_has(*, has_executor: bool) -> None:
    operation = replace(OPERATIONS["plan-run"], handler=f"{__name__}:told_executor")

    def opening() -> Engine:
        engine = small_ledger(store)
        engine.executor = SimulatedRoom(SystemClock()) if has_executor else None
        return engine

    async def scenario() -> None:
        ledger_thread = LedgerThread(opening, reading=lambda: store)
        await ledger_thread.start()
        try:
            told = await ledger_thread.ask(ALICE, operation, plan_operations.AboutRun(run="any"))
            assert told.tree == [has_executor, True]
        finally:
            await ledger_thread.stop()

    store = MemoryStore()
    asyncio.run(scenario())


def test_who_may_not_see_a_run_is_not_told_of_it_by_a_reader_either() -> None:
    async def scenario() -> None:
        store = HeldStore()
        store.let_go.set()
        async with held(store) as ledger_thread:
            with pytest.raises(CommandError) as caught:
                await ledger_thread.ask(
                    ALICE, DESCRIBE, resource_operations.GetThing(name="absent")
                )
            assert caught.value.fault == "unknown-name"
            past = resource_operations.ListThings(at="2020-01-01T00:00:00Z")
            with pytest.raises(CommandError) as caught:
                await ledger_thread.ask(ALICE, OPERATIONS["list-nodes"], past)
            assert caught.value.fault == "forbidden"

    asyncio.run(scenario())


def _user(name: str) -> Caller:
    return Caller(actor=name, role=Role.USER, user=name, tenant=f"team-of-{name}")


def a_reader() -> Reader:
    return Reader(ReaderConfig(reading=MemoryStore, clock=SystemClock()))


@asynccontextmanager
async def opened_room(waiting_max: int) -> AsyncIterator[ReadPool]:
    room = ReadPool(a_reader, readers=1, waiting_max=waiting_max)
    room.open()
    try:
        yield room
    finally:
        room.close()


def _held_by(event: Event, begun: Event | None = None) -> Callable[[AnyReader], str]:
    def do(reader: AnyReader) -> str:
        del reader
        if begun is not None:
            begun.set()
        assert event.wait(WAIT_S)
        return current_thread().name

    return do


def test_beyond_what_may_wait_one_is_told_to_come_back_and_who_goes_on_is_not() -> None:
    async def scenario() -> None:
        begun, let_go = Event(), Event()
        async with opened_room(waiting_max=1) as room:
            under_way = asyncio.create_task(room.run(_held_by(let_go, begun)))
            await until_async(begun.is_set, "it is under way")
            waiting = asyncio.create_task(room.run(_held_by(let_go)))
            await asyncio.sleep(0)
            with pytest.raises(CommandError) as caught:
                await room.run(_held_by(let_go))
            assert caught.value.fault == "unavailable"
            going_on = asyncio.create_task(room.run(_held_by(let_go), goes_on=True))
            await asyncio.sleep(0)
            let_go.set()
            found = await asyncio.gather(under_way, waiting, going_on)
            assert set(found) == {"reader-0"}

    asyncio.run(scenario())


def test_an_admin_is_answered_though_tenants_fill_all_places() -> None:
    async def scenario() -> None:
        begun, let_go = Event(), Event()
        async with opened_room(waiting_max=1) as room:
            asking = [asyncio.create_task(room.ask(_user("ann"), _held_by(let_go, begun)))]
            await until_async(begun.is_set, "it is under way")
            asking.append(asyncio.create_task(room.ask(_user("bob"), _held_by(let_go))))
            await asyncio.sleep(0)
            with pytest.raises(CommandError) as caught:
                await room.ask(_user("eve"), _held_by(let_go), is_long=False)
            assert caught.value.fault == "unavailable"
            admin = asyncio.create_task(room.ask(ADMIN, _held_by(let_go), is_long=False))
            await asyncio.sleep(0)
            let_go.set()
            assert set(await asyncio.gather(*asking, admin)) == {"reader-0"}

    asyncio.run(scenario())


class UnstartedReader(Reader):
    """A reader that cannot be started, as if the fork server had just ended."""

    def follow(self) -> None:
        raise EOFError("unexpected EOF")


def test_questions_are_answered_though_readers_could_not_be_started_at_first() -> None:
    async def scenario() -> None:
        config = ReaderConfig(reading=MemoryStore, clock=SystemClock())
        room = ReadPool(lambda: UnstartedReader(config), readers=1)
        room.open()
        try:
            async with asyncio.timeout(WAIT_S):
                assert await room.ask(ADMIN, lambda _: "read") == "read"
        finally:
            room.close()

    asyncio.run(scenario())


def test_nobody_has_the_room_to_themselves() -> None:
    async def scenario() -> None:
        let_go = Event()
        async with opened_room(waiting_max=100) as room:
            mine = [
                asyncio.create_task(room.ask(_user("ann"), _held_by(let_go)))
                for _ in range(LONG_OF_ONE_MAX)
            ]
            await asyncio.sleep(0)
            with pytest.raises(CommandError) as caught:
                await room.ask(_user("ann"), _held_by(let_go))
            assert caught.value.fault == "too-many-requests"
            others = asyncio.create_task(room.ask(_user("bob"), _held_by(let_go)))
            await asyncio.sleep(0)
            let_go.set()
            await asyncio.gather(*mine, others)
            assert await room.ask(_user("ann"), _held_by(let_go)) == "reader-0"

    asyncio.run(scenario())


def test_what_looks_at_no_ledger_leaves_a_reader_free_and_is_one_at_a_time_for_each() -> None:
    async def scenario() -> None:
        let_go = Event()
        room = ReadPool(a_reader, readers=3)
        room.open()
        try:
            begun: list[str] = []

            def apart(whose: str) -> asyncio.Task[str]:
                def do(reader: AnyReader) -> str:
                    begun.append(whose)
                    return _held_by(let_go)(reader)

                return asyncio.create_task(room.ask(_user(whose), do, is_apart=True))

            tasks = [apart("ann"), apart("ann"), apart("bob"), apart("eve")]
            await until_async(lambda: len(begun) == 2, "two are under way")
            # The third reader is reserved for pages of the state.
            async with asyncio.timeout(WAIT_S):
                read = await room.ask(_user("zoe"), lambda _: "read", is_long=False)
                assert read == "read"
            assert sorted(begun) == ["ann", "bob"]
            let_go.set()
            await asyncio.gather(*tasks)
            assert sorted(begun) == ["ann", "ann", "bob", "eve"]
        finally:
            let_go.set()
            room.close()

    asyncio.run(scenario())


def test_one_caller_never_has_all_readers() -> None:
    async def scenario() -> None:
        begun, let_go = Event(), Event()
        room = ReadPool(a_reader, readers=3)
        room.open()
        try:
            asking = (room.ask(_user("ann"), _held_by(let_go, begun)) for _ in range(3))
            mine = [asyncio.create_task(each) for each in asking]
            await until_async(begun.is_set, "one is under way")
            async with asyncio.timeout(WAIT_S):
                assert await room.ask(_user("bob"), lambda _: "read") == "read"
                assert await room.run(lambda _: "a part", goes_on=True) == "a part"
            assert not any(task.done() for task in mine)
            let_go.set()
            await asyncio.gather(*mine)
        finally:
            let_go.set()
            room.close()

    asyncio.run(scenario())


def test_those_who_have_gone_make_room_for_others() -> None:
    async def scenario() -> None:
        begun, let_go = Event(), Event()
        async with opened_room(waiting_max=2) as room:
            under_way = asyncio.create_task(room.run(_held_by(let_go, begun)))
            await until_async(begun.is_set, "it is under way")
            gone = [asyncio.create_task(room.run(_held_by(let_go))) for _ in range(2)]
            await asyncio.sleep(0)
            for each in gone:
                each.cancel()
            await asyncio.sleep(0)
            waiting = asyncio.create_task(room.run(_held_by(let_go)))
            await asyncio.sleep(0)
            let_go.set()
            assert set(await asyncio.gather(under_way, waiting)) == {"reader-0"}

    asyncio.run(scenario())


def test_who_waits_when_the_room_closes_is_turned_away_and_who_has_gone_is_passed_over() -> None:
    async def scenario() -> None:
        begun, let_go, asked_of = Event(), Event(), Event()
        async with opened_room(waiting_max=10) as room:
            under_way = asyncio.create_task(room.run(_held_by(let_go, begun)))
            await until_async(begun.is_set, "it is under way")
            gone = asyncio.create_task(room.run(lambda _: asked_of.set()))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.sleep(0)
            waiting = asyncio.create_task(room.run(_held_by(let_go)))
            let_go.set()
            assert set(await asyncio.gather(under_way, waiting)) == {"reader-0"}
            assert not asked_of.is_set()
            let_go.clear()
            begun.clear()
            under_way = asyncio.create_task(room.run(_held_by(let_go, begun)))
            await until_async(begun.is_set, "it is under way")
            waiting = asyncio.create_task(room.run(_held_by(let_go)))
            await asyncio.sleep(0)
            room.close()
            with pytest.raises(CommandError, match="stopping"):
                await waiting
            with pytest.raises(CommandError, match="stopping"):
                await room.run(_held_by(let_go))
            let_go.set()
            assert await under_way == "reader-0"

    asyncio.run(scenario())


def test_a_reader_reads_on_from_the_state_it_has() -> None:
    store = MemoryStore()
    engine = small_ledger(store)
    heights: list[int] = []

    class Noted(MemoryStore):
        """The same blocks; notes from which height on they were read."""

        def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
            heights.append(from_height)
            return store.blocks(from_height=from_height)

    reader = Reader(ReaderConfig(reading=Noted, clock=SystemClock()))
    reader.context(ADMIN, DESCRIBE)
    engine.execute(Apply((Owner(name="late"),)), actor="test")
    context = reader.context(ADMIN, DESCRIBE)
    assert heights == [1, engine.head.height]
    assert "late" in context.recorded.owners  # type: ignore[union-attr]
    reader.forget()
    reader.context(ADMIN, DESCRIBE)
    assert heights[-1] == 1


def test_a_reader_keeps_its_state_while_the_store_is_out_of_reach() -> None:
    store = MemoryStore()
    engine = small_ledger(store)

    class Away(MemoryStore):
        """The same blocks, but the last one cannot be read."""

        def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
            *found, _ = store.blocks(from_height=from_height)
            yield from found
            raise StoreDownError("no answer")

    stores: Iterator[EventStore] = chain([store], (Away() for _ in count()))
    reader = Reader(ReaderConfig(reading=lambda: next(stores), clock=SystemClock()))
    reader.context(ADMIN, DESCRIBE)
    for name in ("early", "late"):
        engine.execute(Apply((Owner(name=name),)), actor="test")
    with pytest.raises(StoreDownError):
        reader.context(ADMIN, DESCRIBE)
    # The reader has what it could read, and what it had read before.
    context = reader.context(ADMIN, DESCRIBE, engine.head.seq - 1)
    assert "early" in context.recorded.owners  # type: ignore[union-attr]
    assert "late" not in context.recorded.owners  # type: ignore[union-attr]
    with pytest.raises(StoreDownError):
        reader.context(ADMIN, DESCRIBE, engine.head.seq)


def test_what_is_long_changes_nothing_and_every_timeline_is() -> None:
    long = {name for name, each in OPERATIONS.items() if each.is_long}
    assert all(OPERATIONS[name].effect is Effect.READ for name in long)
    assert {f"describe-{kind}" for kind in ABOUT} <= long
    assert {name for name, each in OPERATIONS.items() if each.of_blocks} <= long


@pytest.mark.parametrize(
    ("name", "wanted", "is_long"),
    [
        ("list-runs", resource_operations.ListRuns(), False),
        ("list-runs", resource_operations.ListRuns(at="2026-01-01T00:00:00Z"), True),
        ("get-run", resource_operations.GetThing(name="r", at="2026-01-01T00:00:00Z"), True),
        ("list-events", ledger_operations.ListEvents(), True),
        ("list-events", ledger_operations.ListEvents(limit=5), False),
        ("list-events", ledger_operations.ListEvents(limit=5, run="r"), True),
        ("list-events", ledger_operations.ListEvents(first=7, limit=5), False),
        ("list-events", ledger_operations.ListEvents(first=7, run="r"), False),
        ("submit-run", run_operations.SubmitRun(document={}), False),
        ("plan-runs", plan_operations.PlanRuns(documents=({},)), True),
        ("picture", plan_operations.PictureRequest(), False),
        ("picture", plan_operations.PictureRequest(run="r"), True),
        ("watch-events", ledger_operations.WatchEvents(run="r"), False),
    ],
)
def test_what_is_asked_decides_whether_it_takes_long(
    name: str, wanted: common_requests.Asked, *, is_long: bool
) -> None:
    assert takes_long(OPERATIONS[name], wanted) is is_long


def test_a_paged_reader_ends_where_the_ledger_ended_when_it_was_made(tmp_path: Path) -> None:
    path = new_ledger(tmp_path)
    engine = open_ledger(str(path), None)
    try:
        engine.execute(Apply((Owner(name="a"),)), actor="test")
        reader: EventStore = PagedReader(path)
        for number in range(300):
            engine.execute(Apply((Owner(name=f"b{number}"),)), actor="test")
        assert [block.height for block in reader.blocks()] == [1, 2]
        assert reader.head().height == 2
        assert list(PagedReader(path).blocks()) == list(engine.store.blocks())
        engine.snapshot_events = 1
        engine.execute(Apply((Owner(name="c"),)), actor="test")
        engine.wait_for_snapshot()
        assert reader.load_snapshot() is None
        kept = PagedReader(path).load_snapshot()
        assert kept is not None
        assert kept[0] == engine.head
        assert PagedReader(path).height_at(engine.head.seq) == engine.head.height
    finally:
        engine.close()


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a service over a ledger that takes a while to verify."""
    path = new_ledger(tmp_path_factory.mktemp("long"))
    engine = open_ledger(str(path), None)
    size = 1_000
    for start in range(0, EVENTS, size):
        owners = tuple(Owner(name=f"o{number}") for number in range(start, start + size))
        receipt = engine.execute(Apply(owners), actor="test")
        assert not receipt.decision.refusals
    engine.close()
    with serving(path) as served:
        yield served


@pytest.mark.soak
@pytest.mark.slow
def test_submits_are_answered_while_a_long_ledger_is_verified(long: Served) -> None:
    with long.client(long.token) as client, ThreadPoolExecutor(1) as beside:
        numbers = count()

        def submit() -> None:
            document = run_tree(f"r{next(numbers)}", "o1")
            done = client.post("/api/v1/runs", json={"document": document})
            assert done.status_code == 200, done.text

        with stopped_readers():
            verifying = beside.submit(
                client.get, "/api/v1/ledger/verification", params={"deep": "true"}, timeout=120
            )
            for _ in range(5):
                submit()
            assert not verifying.done()
        while not verifying.done():
            submit()
        assert verifying.result().json()["verifies"] is True


@pytest.mark.slow
def test_an_export_is_read_beside_the_ledger_and_is_whole(long: Served) -> None:
    with long.client(long.token) as client:
        end = client.get("/readyz").json()["sequence"]
        with client.stream("GET", "/api/v1/ledger/export") as answer:
            assert answer.status_code == 200
            blocks = [json.loads(line) for line in answer.iter_lines()]
    assert [block["height"] for block in blocks] == list(range(1, len(blocks) + 1))
    assert blocks[-1]["first_seq"] + blocks[-1]["count"] - 1 == end


def test_a_form_that_a_long_answer_does_not_have_is_refused() -> None:
    async def scenario() -> None:
        store = HeldStore()
        store.let_go.set()
        async with held(store) as ledger_thread:
            with pytest.raises(CommandError) as caught:
                await ledger_thread.ask(ADMIN, VERIFY, ledger_operations.VerifyLedger(), Form.CSV)
            assert caught.value.fault == "not-acceptable"

    asyncio.run(scenario())
