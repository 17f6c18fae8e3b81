from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from threading import Event, current_thread
from typing import Any

import pytest

from quorate.adapters.store_memory import MemoryStore
from quorate.answers.exits import CommandError
from quorate.ledger.chain import Block, Head
from quorate.loop.engine import Engine
from quorate.model.records import Phase
from quorate.operations import asked
from quorate.operations.answer import Order
from quorate.operations.asked_service import IssueToken
from quorate.operations.caller import Caller, Role
from quorate.operations.desk import Desk
from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS
from quorate.ports.errors import LedgerEmptyError, StoreFullError
from quorate.service.office import Office
from quorate.service.reply import Form, to_json
from quorate.service.room import SimulatedRoom
from quorate.testing.engines import HandClock
from tests.service.worlds import ADMIN, ALICE, BOB, run_tree, small_ledger

SUBMIT = OPERATIONS["submit-run"]
GET_RUN = OPERATIONS["get-run"]
LIST_RUNS = OPERATIONS["list-runs"]


class SlowStore(MemoryStore):
    """A store whose next append waits until it is let go, or fails."""

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
            assert self.let_go.wait(10)
        super().append(block, expected=expected)


@asynccontextmanager
async def opened(opening: Callable[[], Engine], **more: Any) -> AsyncIterator[Office]:
    office = Office(opening, **more)
    await office.start()
    try:
        yield office
    finally:
        await office.stop()


def submit(name: str, **more: Any) -> asked.SubmitRun:
    return asked.SubmitRun(document=run_tree(name), **more)


def test_an_answer_comes_when_its_block_is_there() -> None:
    async def scenario() -> None:
        async with opened(small_ledger) as office:
            reply = await office.ask(ALICE, SUBMIT, submit("r1"), Form.JSON)
            head = await office.run(lambda engine: engine.head)
            assert f'"sequence":{head.seq}'.encode() in reply.body
            told = await office.ask(ALICE, GET_RUN, asked.GetThing(name="r1"))
            assert told.tree["metadata"]["name"] == "r1"

    asyncio.run(scenario())


def test_submits_that_wait_for_a_commit_share_the_next_block() -> None:
    store = SlowStore()

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store)) as office:
            before = await office.run(lambda engine: engine.head.height)
            store.is_slow = True
            first = asyncio.create_task(office.ask(ALICE, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, 10)
            others = [
                asyncio.create_task(office.ask(ALICE, SUBMIT, submit(f"r{number}")))
                for number in range(1, 41)
            ]
            await asyncio.sleep(0.05)
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
        async with opened(lambda: small_ledger(store), waiting_max=2) as office:
            store.is_slow = True
            first = asyncio.create_task(office.ask(ADMIN, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, 10)
            rest = [asyncio.create_task(office.ask(ADMIN, SUBMIT, submit(n))) for n in "abc"]
            await asyncio.sleep(0.05)
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
        async with opened(lambda: small_ledger(store), waiting_max=8) as office:
            store.is_slow = True
            first = asyncio.create_task(office.ask(ADMIN, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, 10)
            mine = [
                asyncio.create_task(office.ask(user, SUBMIT, submit(f"{user.user}{number}")))
                for user in users
                for number in range(3)
            ]
            theirs = asyncio.create_task(office.ask(BOB, GET_RUN, asked.GetThing(name="nope")))
            await asyncio.sleep(0.05)
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
        async with opened(small_ledger) as office:
            found = await asyncio.gather(
                office.ask(BOB, SUBMIT, submit("r1")),
                office.ask(ALICE, SUBMIT, submit("r2")),
                office.ask(ALICE, GET_RUN, asked.GetThing(name="nope")),
                return_exceptions=True,
            )
            assert isinstance(found[0], CommandError)
            assert found[0].fault == "forbidden"
            assert not isinstance(found[1], BaseException)
            assert isinstance(found[2], CommandError)
            assert found[2].fault == "unknown-name"

    asyncio.run(scenario())


def broken(desk: Desk, asked: object, operation: Operation) -> Order:
    """Fail by a bug."""
    del desk, asked, operation
    raise ZeroDivisionError


def test_a_bug_in_one_submit_does_not_fail_those_it_waited_with() -> None:
    store = SlowStore()
    bad = replace(SUBMIT, handler=f"{__name__}:broken")

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store)) as office:
            store.is_slow = True
            first = asyncio.create_task(office.ask(ALICE, SUBMIT, submit("r0")))
            await asyncio.to_thread(store.entered.wait, 10)
            together = [
                asyncio.create_task(office.ask(ALICE, operation, submit(f"r{number}")))
                for number, operation in enumerate((SUBMIT, bad, SUBMIT), start=1)
            ]
            await asyncio.sleep(0.05)
            store.let_go.set()
            await first
            found = await asyncio.gather(*together, return_exceptions=True)
            assert [isinstance(each, ZeroDivisionError) for each in found] == [False, True, False]
            runs = await office.ask(ADMIN, LIST_RUNS, asked.ListRuns())
            names = [each["metadata"]["name"] for each in runs.tree["items"]]
            assert names == ["r0", "r1", "r3"]

    asyncio.run(scenario())


def test_a_store_that_fails_is_told_and_used_again_when_it_works() -> None:
    store = SlowStore()

    async def scenario() -> None:
        async with opened(lambda: small_ledger(store)) as office:
            store.is_full = True
            with pytest.raises(StoreFullError):
                await office.ask(ALICE, SUBMIT, submit("r1"))
            store.is_full = False
            await office.ask(ALICE, SUBMIT, submit("r1"))
            runs = await office.ask(ADMIN, LIST_RUNS, asked.ListRuns())
            assert [each["metadata"]["name"] for each in runs.tree["items"]] == ["r1"]

    asyncio.run(scenario())


def test_a_bug_in_one_answer_is_told_and_the_next_one_is_answered() -> None:
    def broken(_: Engine) -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        async with opened(small_ledger) as office:
            with pytest.raises(ZeroDivisionError):
                await office.run(broken)
            assert office.trouble == ""
            assert await office.run(lambda engine: engine.head.height) == 2

    asyncio.run(scenario())


def test_what_opening_raises_is_raised_at_the_start() -> None:
    def opening() -> Engine:
        raise LedgerEmptyError

    async def scenario() -> None:
        office = Office(opening)
        with pytest.raises(LedgerEmptyError):
            await office.start()

    asyncio.run(scenario())


def test_a_stop_answers_those_who_wait_and_takes_nobody_else() -> None:
    store = SlowStore()

    async def scenario() -> None:
        office = Office(lambda: small_ledger(store))
        await office.start()
        store.is_slow = True
        first = asyncio.create_task(office.ask(ALICE, SUBMIT, submit("r0")))
        await asyncio.to_thread(store.entered.wait, 10)
        second = asyncio.create_task(office.ask(ALICE, SUBMIT, submit("r1")))
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(office.stop())
        await asyncio.sleep(0.05)
        with pytest.raises(CommandError, match="stopping"):
            await office.ask(ALICE, SUBMIT, submit("r2"))
        store.let_go.set()
        await asyncio.gather(first, second, stopping)
        assert office.trouble
        assert office.ended.is_set()

    asyncio.run(scenario())


def test_everything_is_done_on_the_thread_that_opened_the_ledger() -> None:
    seen: set[str] = set()

    def opening() -> Engine:
        seen.add(current_thread().name)
        return small_ledger()

    async def scenario() -> None:
        async with opened(opening) as office:
            office.listeners.append(lambda _: seen.add(current_thread().name))
            await office.run(lambda _: seen.add(current_thread().name))
            await office.ask(ALICE, SUBMIT, submit("r1"))

    asyncio.run(scenario())
    assert seen == {"ledger"}


def test_those_who_follow_are_woken_when_something_is_recorded() -> None:
    async def scenario() -> None:
        async with opened(small_ledger) as office:
            seq = await office.run(lambda engine: engine.head.seq)
            assert not await office.moved(seq, 0.05)
            waiting = asyncio.create_task(office.moved(seq, 10))
            await asyncio.sleep(0)
            await office.ask(ALICE, SUBMIT, submit("r1"))
            assert await waiting
            assert await office.moved(seq, 0)

    asyncio.run(scenario())


def test_a_long_answer_is_made_in_parts() -> None:
    lines = [f"{number:0100d}\n" for number in range(2_000)]

    async def scenario() -> list[bytes]:
        async with opened(small_ledger) as office:
            source: Iterator[str] = iter(lines)
            return [part async for part in office.parts_of(source)]

    parts = asyncio.run(scenario())
    assert len(parts) > 1
    assert b"".join(parts).decode() == "".join(lines)


def test_a_token_is_known_as_soon_as_it_is_issued() -> None:
    async def scenario() -> None:
        async with opened(small_ledger) as office:
            wanted = IssueToken(role=Role.AUDITOR, user="eve")
            reply = await office.ask(ADMIN, OPERATIONS["issue-token"], wanted)
            record = office.token(reply.tree["token"]["id"])
            assert record is not None
            assert record.issued.user == "eve"
            assert office.token("nope") is None

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
        async with opened(opening, room=room) as office:
            document = run_tree("r1", runtime={"expectedDuration": "10m"})
            await office.ask(ALICE, SUBMIT, asked.SubmitRun(document=document))
            assert await office.run(phase) is Phase.RUNNING
            clock.ms += 9 * 60_000
            assert await office.run(phase) is Phase.RUNNING
            clock.ms += 60_000
            async with asyncio.timeout(10):
                while await office.run(phase) is not Phase.COMPLETED:
                    await office.moved(office.recorded_seq, 0.01)

    asyncio.run(scenario())


def test_decimals_are_written_as_exact_numbers() -> None:
    assert to_json({"a": Decimal("0.10")}) == b'{"a":0.10}\n'
