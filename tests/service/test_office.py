from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from threading import Event, current_thread
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core import commands as core_commands
from quorate.core.commands import Submit
from quorate.ledger.chain import Block, Head
from quorate.loop.engine import Engine
from quorate.model.specs import Run
from quorate.model.state.records import Phase
from quorate.operations.answer_types import Order
from quorate.operations.caller import Caller, Role
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.resources import resource_operations, run_operations
from quorate.operations.service.service_operations import IssueToken
from quorate.operations.table import OPERATIONS
from quorate.ports.errors import LedgerEmptyError, StoreFullError
from quorate.service.ledger_thread import LedgerThread
from quorate.service.reply import Form, to_json
from quorate.service.simulated_room import SimulatedRoom
from quorate.testing.builders import run
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from quorate.views.statuses import TIMED_OUT
from tests.bounds import WAIT_S, until_async
from tests.service.worlds import ADMIN, ALICE, BOB, run_tree, small_ledger

SUBMIT = OPERATIONS["submit-run"]
GET_RUN = OPERATIONS["get-run"]
LIST_RUNS = OPERATIONS["list-runs"]


class SlowStore(MemoryStore):
    """A store whose next append waits until it is released, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.is_full = False
        self.entered = Event()
        self.let_go = Event()

    def append(self, block: Block, *, expected: Head) -> None:
        if self.is_full:
            raise StoreFullError("the disk is full; make room")
        if self.is_slow:
            self.is_slow = False
            self.entered.set()
            assert self.let_go.wait(WAIT_S)
        super().append(block, expected=expected)


@asynccontextmanager
async def opened(opening: Callable[[], Engine], **more: Any) -> AsyncIterator[LedgerThread]:
    ledger_thread = LedgerThread(opening, **more)
    await ledger_thread.start()
    try:
        yield ledger_thread
    finally:
        await ledger_thread.stop()


def submit(name: str, **more: Any) -> run_operations.SubmitRun:
    return run_operations.SubmitRun(document=run_tree(name), **more)


def test_an_answer_comes_when_its_block_is_there() -> None:
    async def scenario() -> None:
        async with opened(small_ledger) as ledger_thread:
            reply = await ledger_thread.ask(ALICE, SUBMIT, submit("r1"), Form.JSON)
            head = await ledger_thread.run(lambda engine: engine.head)
            assert f'"sequence":{head.seq}'.encode() in reply.body
            told = await ledger_thread.ask(ALICE, GET_RUN, resource_operations.GetThing(name="r1"))
            assert told.tree["metadata"]["name"] == "r1"

    asyncio.run(scenario())


def test_what_fails_after_its_block_was_recorded_may_be_recorded() -> None:
    """A caller that got "nothing was recorded" would repeat the request, and carry it out twice."""

    def fails(_: Engine) -> None:
        raise StoreFullError("the disk is full; make room")

    def fails_later(engine: Engine) -> None:
        engine.execute(Submit(run("r1", 1, "team")), actor="test")
        fails(engine)

    async def scenario() -> None:
        async with opened(small_ledger) as ledger_thread:
            with pytest.raises(StoreFullError):
                await ledger_thread.run(fails)
            with pytest.raises(CommandError, match="the command may be recorded") as caught:
                await ledger_thread.run(fails_later)
            assert caught.value.fault == TIMED_OUT

    asyncio.run(scenario())


@pytest.mark.heavy
def test_submits_that_wait_for_a_commit_share_the_next_block() -> None:
    store = SlowStore()

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store)) as ledger_thread:
            before = await ledger_thread.run(lambda engine: engine.head.height)
            store.is_slow = True
            first = asyncio.create_task(ledger_thread.ask(ALICE, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, WAIT_S)
            others = [
                asyncio.create_task(ledger_thread.ask(ALICE, SUBMIT, submit(f"r{number}")))
                for number in range(1, 41)
            ]
            await until_async(lambda: ledger_thread.waiting == len(others), "all others wait")
            assert not first.done()
            store.let_go.set()
            replies = [reply.tree for reply in await asyncio.gather(first, *others)]
            assert {tree["head"]["height"] for tree in replies[1:]} == {before + 2}
            names = [tree["changes"][0]["name"] for tree in replies]
            assert names == [f"r{number}" for number in range(41)]
            sequences = [event["seq"] for tree in replies for event in tree["events"]]
            assert len(sequences) == len(set(sequences))

    asyncio.run(scenario())


def test_beyond_the_queue_one_is_told_to_come_back() -> None:
    store = SlowStore()

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store), waiting_max=2) as ledger_thread:
            store.is_slow = True
            first = asyncio.create_task(ledger_thread.ask(ADMIN, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, WAIT_S)
            rest = [asyncio.create_task(ledger_thread.ask(ADMIN, SUBMIT, submit(n))) for n in "abc"]
            await until_async(rest[2].done, "the last is answered")
            assert [task.done() for task in rest] == [False, False, True]
            with pytest.raises(CommandError) as caught:
                await rest[2]
            assert caught.value.fault == "unavailable"
            store.let_go.set()
            await asyncio.gather(first, *rest[:2])

    asyncio.run(scenario())


def test_one_tenant_cannot_take_all_places_of_the_queue() -> None:
    store = SlowStore()
    users = [
        Caller(actor=name, role=Role.USER, user=name, tenant="team") for name in ("a", "b", "c")
    ]

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store), waiting_max=8) as ledger_thread:
            store.is_slow = True
            first = asyncio.create_task(ledger_thread.ask(ADMIN, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, WAIT_S)
            mine = [
                asyncio.create_task(ledger_thread.ask(user, SUBMIT, submit(f"{user.user}{number}")))
                for user in users
                for number in range(3)
            ]
            theirs = asyncio.create_task(
                ledger_thread.ask(BOB, GET_RUN, resource_operations.GetThing(name="nope"))
            )
            await until_async(lambda: ledger_thread.waiting == 5, "four of mine, and theirs, wait")
            await until_async(lambda: sum(task.done() for task in mine) == 5, "the rest is refused")
            faults = [
                error.fault
                for task in mine
                if task.done() and isinstance(error := task.exception(), CommandError)
            ]
            assert faults == ["too-many-requests"] * 5
            assert not theirs.done()
            store.let_go.set()
            found = await asyncio.gather(first, *mine, theirs, return_exceptions=True)
            assert sum(isinstance(each, CommandError) for each in found) == 6

    asyncio.run(scenario())


def test_a_refusal_is_only_for_who_caused_it() -> None:
    async def scenario() -> None:
        async with opened(small_ledger) as ledger_thread:
            found = await asyncio.gather(
                ledger_thread.ask(BOB, SUBMIT, submit("r1")),
                ledger_thread.ask(ALICE, SUBMIT, submit("r2")),
                ledger_thread.ask(ALICE, GET_RUN, resource_operations.GetThing(name="nope")),
                return_exceptions=True,
            )
            assert isinstance(found[0], CommandError)
            assert found[0].fault == "forbidden"
            assert not isinstance(found[1], BaseException)
            assert isinstance(found[2], CommandError)
            assert found[2].fault == "unknown-name"

    asyncio.run(scenario())


def broken(context: RequestContext, asked: object, operation: Operation) -> Order:
    """Fail with a bug."""
    del context, asked, operation
    raise ZeroDivisionError


def test_a_bug_in_one_submit_does_not_fail_those_it_waited_with() -> None:
    store = SlowStore()
    bad = replace(SUBMIT, handler=f"{__name__}:broken")

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store)) as ledger_thread:
            store.is_slow = True
            first = asyncio.create_task(ledger_thread.ask(ALICE, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, WAIT_S)
            together = [
                asyncio.create_task(ledger_thread.ask(ALICE, operation, submit(f"r{number}")))
                for number, operation in enumerate((SUBMIT, bad, SUBMIT), start=1)
            ]
            await until_async(lambda: ledger_thread.waiting == len(together), "all wait")
            store.let_go.set()
            await first
            found = await asyncio.gather(*together, return_exceptions=True)
            assert [isinstance(each, ZeroDivisionError) for each in found] == [False, True, False]
            runs = await ledger_thread.ask(ADMIN, LIST_RUNS, resource_operations.ListRuns())
            names = [each["metadata"]["name"] for each in runs.tree["items"]]
            assert names == ["r0", "r1", "r3"]

    asyncio.run(scenario())


def test_a_store_that_fails_is_told_and_used_again_when_it_works() -> None:
    store = SlowStore()

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store)) as ledger_thread:
            store.is_full = True
            with pytest.raises(StoreFullError):
                await ledger_thread.ask(ALICE, SUBMIT, submit("r1"))
            store.is_full = False
            await ledger_thread.ask(ALICE, SUBMIT, submit("r1"))
            runs = await ledger_thread.ask(ADMIN, LIST_RUNS, resource_operations.ListRuns())
            assert [each["metadata"]["name"] for each in runs.tree["items"]] == ["r1"]

    asyncio.run(scenario())


def test_a_bug_in_one_answer_is_told_and_the_next_one_is_answered() -> None:
    def broken(_: Engine) -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        async with opened(small_ledger) as ledger_thread:
            with pytest.raises(ZeroDivisionError):
                await ledger_thread.run(broken)
            assert ledger_thread.trouble == ""
            assert await ledger_thread.run(lambda engine: engine.head.height) == 2

    asyncio.run(scenario())


def test_what_opening_raises_is_raised_at_the_start() -> None:
    def opening() -> Engine:
        raise LedgerEmptyError

    async def scenario() -> None:
        ledger_thread = LedgerThread(opening)
        with pytest.raises(LedgerEmptyError):
            await ledger_thread.start()

    asyncio.run(scenario())


def test_a_stop_answers_those_who_wait_and_takes_nobody_else() -> None:
    store = SlowStore()

    async def scenario() -> None:
        ledger_thread = LedgerThread(lambda: small_ledger(store))
        await ledger_thread.start()
        store.is_slow = True
        first = asyncio.create_task(ledger_thread.ask(ALICE, SUBMIT, submit("r0")))
        await asyncio.to_thread(store.entered.wait, WAIT_S)
        second = asyncio.create_task(ledger_thread.ask(ALICE, SUBMIT, submit("r1")))
        await until_async(lambda: ledger_thread.waiting == 1, "the second waits")
        stopping = asyncio.create_task(ledger_thread.stop())
        await asyncio.sleep(0)  # The thread takes no other request before it first waits.
        with pytest.raises(CommandError, match="stopping"):
            await ledger_thread.ask(ALICE, SUBMIT, submit("r2"))
        store.let_go.set()
        await asyncio.gather(first, second, stopping)
        assert ledger_thread.trouble
        assert ledger_thread.ended.is_set()

    asyncio.run(scenario())


def test_everything_is_done_on_the_thread_that_opened_the_ledger() -> None:
    seen: set[str] = set()

    def opening() -> Engine:
        seen.add(current_thread().name)
        return small_ledger()

    async def scenario() -> None:
        async with opened(opening) as ledger_thread:
            ledger_thread.listeners.append(lambda _: seen.add(current_thread().name))
            await ledger_thread.run(lambda _: seen.add(current_thread().name))
            await ledger_thread.ask(ALICE, SUBMIT, submit("r1"))

    asyncio.run(scenario())
    assert seen == {"ledger"}


def test_those_who_follow_are_woken_when_something_is_recorded() -> None:
    async def scenario() -> None:
        async with opened(small_ledger) as ledger_thread:
            seq = await ledger_thread.run(lambda engine: engine.head.seq)
            assert not await ledger_thread.moved(seq, 0.05)
            waiting = asyncio.create_task(ledger_thread.moved(seq, WAIT_S))
            await asyncio.sleep(0)
            await ledger_thread.ask(ALICE, SUBMIT, submit("r1"))
            assert await waiting
            assert await ledger_thread.moved(seq, 0)

    asyncio.run(scenario())


def test_a_long_answer_is_made_in_parts() -> None:
    lines = [f"{number:0100d}\n" for number in range(2_000)]

    async def scenario() -> list[bytes]:
        async with opened(small_ledger) as ledger_thread:
            source: Iterator[str] = iter(lines)
            return [part async for part in ledger_thread.parts_of(source)]

    parts = asyncio.run(scenario())
    assert len(parts) > 1
    assert b"".join(parts).decode() == "".join(lines)


def test_a_token_is_known_as_soon_as_it_is_issued() -> None:
    async def scenario() -> None:
        async with opened(small_ledger) as ledger_thread:
            wanted = IssueToken(role=Role.AUDITOR, user="eve")
            reply = await ledger_thread.ask(ADMIN, OPERATIONS["issue-token"], wanted)
            record = ledger_thread.token(reply.tree["token"]["id"])
            assert record is not None
            assert record.issued.user == "eve"
            assert ledger_thread.token("nope") is None

    asyncio.run(scenario())


def test_simulated_work_ends_by_itself_after_as_long_as_was_declared() -> None:
    clock = HandClock()
    room = SimulatedRoom(clock)

    def opening() -> Engine:
        engine = small_ledger(clock=clock)
        engine.executor = room
        return engine

    def phase(engine: Engine) -> Phase:
        return engine.view.runs["r1"].phase

    async def scenario() -> None:
        async with opened(opening, executor=room) as ledger_thread:
            document = run_tree("r1", runtime={"expectedDuration": "10m"})
            await ledger_thread.ask(ALICE, SUBMIT, run_operations.SubmitRun(document=document))
            assert await ledger_thread.run(phase) is Phase.RUNNING
            clock.ms += 9 * 60_000
            assert await ledger_thread.run(phase) is Phase.RUNNING
            clock.ms += 60_000
            async with asyncio.timeout(WAIT_S):
                while await ledger_thread.run(phase) is not Phase.COMPLETED:
                    await ledger_thread.moved(ledger_thread.recorded_seq, 0.01)

    asyncio.run(scenario())


def test_decimals_are_written_as_exact_numbers() -> None:
    assert to_json({"a": Decimal("0.10")}) == b'{"a":0.10}\n'


def test_simulated_work_that_ends_while_a_commit_is_carried_out_is_looked_at_at_once() -> None:
    clock = HandClock()
    room = SimulatedRoom(clock)
    engine = small_ledger(clock=clock)
    engine.executor = room
    run = Run(
        name="r1",
        owner="team",
        flavors=("H100",),
        gpus=1,
        user="alice",
        expected_duration_ms=60_000,
    )
    engine.execute(Submit(run), actor="t")
    assert engine.view.runs["r1"].phase is Phase.RUNNING
    clock.ms += 60_000
    # Like a commit between this look at the reports and the next one.
    room.carry_out([])
    assert room.next_ms() == clock.ms
    assert room.reports()
    # Reports without an effect, such as an exit under a claim, are not examined for ever.
    assert room.next_ms() != clock.ms


def test_what_another_writer_records_is_seen_without_a_request() -> None:
    store = MemoryStore(is_shared=True)
    first = small_ledger(store)
    token = core_commands.IssueToken("t1", "0" * 64, "admin", "", "root")
    first.execute(token, actor="test")
    other = Engine.open(store, HandClock())

    async def scenario() -> None:
        async with opened(lambda: first) as ledger_thread:
            record = ledger_thread.token("t1")
            assert record is not None
            assert record.revoked_ms is None
            seq = ledger_thread.recorded_seq
            other.execute(core_commands.RevokeToken("t1", "lost"), actor="test")

            def is_revoked() -> bool:
                found = ledger_thread.token("t1")
                return found is not None and found.revoked_ms is not None

            await until_async(is_revoked, "the token is revoked here, too")
            assert await ledger_thread.moved(seq, WAIT_S)
            reply = await ledger_thread.ask(ALICE, SUBMIT, submit("r1"))
            assert reply.tree["head"]["height"] == other.head.height + 1

    asyncio.run(scenario())


class AwayStore(MemoryStore):
    """A shared store that may be unreachable."""

    is_away = False

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        if self.is_away:
            raise StoreFullError("away")
        return super().blocks(from_height=from_height)


def test_service_that_cannot_read_what_others_record_is_not_ready() -> None:
    store = AwayStore(is_shared=True)

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store)) as ledger_thread:
            await until_async(lambda: not ledger_thread.trouble, "it is ready")
            store.is_away = True
            await until_async(lambda: "cannot be read: away" in ledger_thread.trouble, "it says so")
            store.is_away = False
            await until_async(lambda: not ledger_thread.trouble, "it is ready again")

    asyncio.run(scenario())
