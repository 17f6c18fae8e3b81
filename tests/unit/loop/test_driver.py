"""The driver and an executor: orders are sent after a commit is durable, and after a restart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Cancel, Command, Submit, Tick
from quorate.core.decision_log import GoOn, always
from quorate.ledger.chain import Block, Head
from quorate.loop.commit_types import Made, Receipt
from quorate.loop.driver import Driver
from quorate.loop.engine import Engine
from quorate.loop.rounds.round_problem import PoolPolicy
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import EndReason
from quorate.model.specs import Budget, Owner
from quorate.model.state.records import Phase
from quorate.ports.errors import StoreFullError
from quorate.ports.executor_port import (
    EndLease,
    LeaseGone,
    Order,
    Report,
    RunExited,
    StartLease,
    StopLease,
)
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock
from tests.oracles.plans import quiet_pool
from tests.oracles.rounds import POLICIES, POOL, team, world
from tests.oracles.rounds import run as round_run

FLEET = Apply((*fleet({"A": 16}), Owner(name="team"), budget("b", "team", envelope("e", 16))))


@dataclass
class NoteBook:
    """An executor that keeps its orders, and returns given reports."""

    told: list[Order] = field(default_factory=list)
    resumed: list[list[Order]] = field(default_factory=list)
    terms: list[tuple[int, bool]] = field(default_factory=list)
    to_report: list[Report] = field(default_factory=list)

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        self.told += orders
        self.terms.append((term, False))

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        self.resumed.append(list(orders))
        self.terms.append((term, is_whole))

    def reports(self) -> Sequence[Report]:
        return self.to_report

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        del runs
        return {}


class FailingStore(MemoryStore):
    """A store that fails to append, or that appends and fails to say so."""

    fails_before = False
    fails_after = False

    def append(self, block: Block, *, expected: Head) -> None:
        if self.fails_before:
            raise StoreFullError("no space left")
        super().append(block, expected=expected)
        if self.fails_after:
            raise StoreFullError("no answer")


def new_engine(
    executor: NoteBook, store: MemoryStore | None = None, clock: HandClock | None = None
) -> Engine:
    engine = Engine.create(
        MemoryStore() if store is None else store,
        HandClock() if clock is None else clock,
        ledger_id="test",
        public_key="",
        actor="test",
        executor=executor,
    )
    engine.execute(FLEET, actor="test")
    return engine


def phase_of(engine: Engine, name: str) -> Phase:
    return engine.view.runs[name].phase


def test_an_executor_is_told_what_to_start_stop_and_forget() -> None:
    executor = NoteBook()
    engine = new_engine(executor)
    engine.execute(Submit(run("r", 8)), actor="test")
    (start,) = executor.told
    assert isinstance(start, StartLease)
    assert (start.lease.lease, start.run.name) == ("r/0", "r")
    engine.execute(Cancel("r"), actor="test")
    assert executor.told[1:] == [StopLease("r/0", NOW_MS + 2 * MINUTE_MS)]
    executor.to_report = [LeaseGone("r/0")]
    Driver(engine).step()
    assert executor.told[2:] == [EndLease("r/0", EndReason.CANCELLED)]
    assert phase_of(engine, "r") is Phase.CANCELLED


@pytest.mark.parametrize(("is_shared", "resumed"), [(False, [[]]), (True, [])])
def test_no_executor_gets_what_was_not_committed(
    resumed: list[list[Order]], *, is_shared: bool
) -> None:
    executor, store = NoteBook(), FailingStore(is_shared=is_shared)
    engine = new_engine(executor, store)
    store.fails_before = True
    with pytest.raises(StoreFullError):
        engine.execute(Submit(run("r", 8)), actor="test")
    assert executor.told == []
    assert executor.resumed == resumed


def test_what_was_committed_without_an_answer_is_told_all_the_same() -> None:
    executor, store = NoteBook(), FailingStore()
    engine = new_engine(executor, store)
    store.fails_after = True
    with pytest.raises(StoreFullError):
        engine.execute(Submit(run("r", 8)), actor="test")
    (again,) = executor.resumed
    assert [type(order) for order in again] == [StartLease]


def test_what_was_committed_to_a_shared_store_without_an_answer_is_told_once() -> None:
    executor, store = NoteBook(), FailingStore(is_shared=True)
    engine = new_engine(executor, store)
    store.fails_after = True
    with pytest.raises(StoreFullError):
        engine.execute(Submit(run("r", 8)), actor="test")
    assert [type(order) for order in executor.told] == [StartLease]
    assert (phase_of(engine, "r"), executor.resumed) == (Phase.RUNNING, [])


def test_after_a_restart_open_leases_and_stops_are_told_again() -> None:
    store, executor = MemoryStore(), NoteBook()
    engine = new_engine(executor, store)
    for name in ("goes", "stays", "done"):
        engine.execute(Submit(run(name, 4)), actor="test")
    engine.execute(Cancel("goes"), actor="test")
    executor.to_report = [RunExited("done", "done/0", 0)]
    Driver(engine).step()
    later = NoteBook()
    Engine.open(store, HandClock(), executor=later)
    (orders,) = later.resumed
    starts = [order.lease.lease for order in orders if isinstance(order, StartLease)]
    assert sorted(starts) == ["goes/0", "stays/0"]
    stops = [order for order in orders if isinstance(order, StopLease)]
    assert stops == [StopLease("goes/0", NOW_MS + 2 * MINUTE_MS)]


@pytest.mark.parametrize(("code", "phase"), [(0, Phase.COMPLETED), (3, Phase.FAILED)])
def test_an_exit_ends_the_run_once(code: int, phase: Phase) -> None:
    executor = NoteBook()
    engine = new_engine(executor)
    engine.execute(Submit(run("r", 8)), actor="test")
    executor.to_report = [RunExited("r", "r/0", code, f"exit code {code}")]
    Driver(engine).step()
    assert phase_of(engine, "r") is phase
    head = engine.head
    Driver(engine).step()
    assert engine.head == head


def test_an_exit_of_an_earlier_life_does_not_end_this_one() -> None:
    executor = NoteBook()
    engine = new_engine(executor)
    engine.execute(Submit(run("r", 8)), actor="test")
    executor.to_report = [RunExited("r", "r/17", 0), LeaseGone("r/0"), LeaseGone("gone/0")]
    Driver(engine).step()
    assert phase_of(engine, "r") is Phase.RUNNING


def test_the_driver_waits_until_something_is_due_and_ticks_then() -> None:
    clock = HandClock()
    engine = new_engine(NoteBook(), clock=clock)
    engine.execute(Submit(run("r", 8, expected_duration_ms=HOUR_MS)), actor="test")
    waited: list[int | None] = []

    def wait(until_ms: int | None) -> bool:
        waited.append(until_ms)
        assert until_ms is not None
        clock.ms = until_ms
        return len(waited) < 3

    Driver(engine).run(wait)
    # One grace before the hold ends, and then before the end of each quantum of its extensions.
    first_ms, quantum_ms = NOW_MS + HOUR_MS, 15 * MINUTE_MS
    assert waited == [first_ms, first_ms + quantum_ms, first_ms + 2 * quantum_ms]


def test_a_second_step_at_one_instant_changes_nothing() -> None:
    clock = HandClock()
    engine = new_engine(NoteBook(), clock=clock)
    engine.execute(Submit(run("r", 8, expected_duration_ms=HOUR_MS)), actor="test")
    clock.ms = NOW_MS + HOUR_MS
    due_ms = Driver(engine).step()
    head = engine.head
    assert Driver(engine).step() == due_ms
    assert engine.head == head


class TickedEngine(Engine):
    """An engine that counts its ticks."""

    ticks_ms: list[int]

    def execute(
        self, command: Command, *, actor: str, go_on: GoOn = always, made: Made | None = None
    ) -> Receipt:
        if isinstance(command, Tick):
            self.ticks_ms.append(self.now_ms())
        return super().execute(command, actor=actor, go_on=go_on, made=made)


@pytest.fixture
def outlasted() -> tuple[TickedEngine, FailingStore, HandClock]:
    """Return an engine in which a lease outlasts its end before the clock, and nothing moves.

    The firm start of ``waits`` needs that lease to end, but waits for a longer one, too.
    """
    store, clock = FailingStore(), HandClock()
    engine = TickedEngine.create(
        store, clock, ledger_id="test", public_key="", actor="test", executor=NoteBook()
    )
    engine.ticks_ms = []
    engine.execute_all([FLEET, Apply((quiet_pool(),))], actor="test")
    for name, gpus, hours in (("late", 8, 1), ("long", 8, 5), ("waits", 16, 1)):
        asked = run(name, gpus, expected_duration_ms=hours * HOUR_MS, checkpoint_ms=0)
        engine.execute(Submit(asked), actor="test")
    (record,) = engine.view.reservations.values()
    assert record.planned_start_ms == NOW_MS + 5 * HOUR_MS
    driver = Driver(engine)
    clock.ms = NOW_MS + HOUR_MS
    assert driver.step() == clock.ms + 1
    clock.ms += 1
    return engine, store, clock


def test_a_driver_that_is_woken_often_ticks_once_for_a_lease_that_outlasts_its_end(
    outlasted: tuple[TickedEngine, FailingStore, HandClock],
) -> None:
    engine, _, clock = outlasted
    driver, due_ms, head = Driver(engine), clock.ms, engine.head
    engine.ticks_ms.clear()
    for _ in range(600):
        assert driver.step() == NOW_MS + HOUR_MS + 15 * MINUTE_MS
        clock.ms += 1_000
    assert (engine.ticks_ms, engine.head) == ([due_ms], head)


def test_a_new_driver_and_a_new_block_tick_again(
    outlasted: tuple[TickedEngine, FailingStore, HandClock],
) -> None:
    engine, _, clock = outlasted
    driver = Driver(engine)
    for _ in range(2):
        driver.step()
    engine.ticks_ms.clear()
    Driver(engine).step()
    assert engine.ticks_ms == [clock.ms]
    engine.execute(Submit(run("more", 16, expected_duration_ms=HOUR_MS)), actor="test")
    clock.ms = NOW_MS + HOUR_MS + 15 * MINUTE_MS
    driver.step()
    assert engine.ticks_ms[1:] == [clock.ms]


def test_a_tick_that_was_not_committed_is_due_again(
    outlasted: tuple[TickedEngine, FailingStore, HandClock],
) -> None:
    engine, store, clock = outlasted
    driver = Driver(engine)
    driver.step()
    clock.ms = NOW_MS + HOUR_MS + 15 * MINUTE_MS
    head, store.fails_before = engine.head, True
    with pytest.raises(StoreFullError):
        driver.step()
    store.fails_before = False
    driver.step()
    assert engine.head.height == head.height + 1


def test_a_clock_that_was_set_back_makes_a_tick_due_again(
    outlasted: tuple[TickedEngine, FailingStore, HandClock],
) -> None:
    engine, _, clock = outlasted
    driver, due_ms = Driver(engine), clock.ms
    clock.ms += MINUTE_MS
    driver.step()
    clock.ms = due_ms
    driver.step()
    driver.step()
    assert engine.ticks_ms[-2:] == [due_ms + MINUTE_MS, due_ms]


def test_without_an_executor_a_stop_is_both_facts_and_nobody_is_asked() -> None:
    engine = Engine.create(MemoryStore(), HandClock(), ledger_id="t", public_key="", actor="t")
    engine.execute_all([FLEET, Submit(run("r", 8)), Cancel("r")], actor="test")
    assert phase_of(engine, "r") is Phase.CANCELLED
    assert Driver(engine).step() is None


class CountingStore(FailingStore):
    """A store that counts its appends."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def append(self, block: Block, *, expected: Head) -> None:
        self.asked += 1
        super().append(block, expected=expected)


def test_a_round_that_cannot_begin_is_tried_less_and_less_often_and_then_begins() -> None:
    store, clock = CountingStore(), HandClock()
    engine = new_engine(NoteBook(), store, clock)
    engine.policies = POLICIES
    # Without money no run gets GPUs, and only the round is ever due.
    specs = [spec for spec in world(team("ant")) if not isinstance(spec, Budget)]
    engine.execute(Apply(tuple(specs)), actor="test")
    engine.execute(Submit(round_run("one", "ant")), actor="test")
    assert engine.view.rounds[POOL].shared.number == 1
    driver = Driver(engine)
    clock.ms = engine.view.rounds[POOL].shared.until_ms
    store.fails_before, store.asked = True, 0
    tried_ms: list[int] = []
    end_ms = clock.ms + 10 * MINUTE_MS
    while clock.ms < end_ms and len(tried_ms) < 50:
        before = store.asked
        due_ms = driver.step()
        if store.asked > before:
            tried_ms.append(clock.ms)
        assert due_ms is not None
        assert due_ms > clock.ms
        clock.ms = due_ms
    waited = [after - before for before, after in pairwise(tried_ms)]
    assert waited[:7] == [1_000 * 2**n for n in range(6)] + [MINUTE_MS]
    assert set(waited[7:]) == {MINUTE_MS}
    store.fails_before = False
    driver.step()
    assert engine.view.rounds[POOL].shared.number == 2
    assert not engine.round_waits


class Faulty(dict[str, PoolPolicy]):
    """Policies whose look-up already fails."""

    def get(self, *_: object) -> NoReturn:
        raise ZeroDivisionError


def test_a_fault_of_ours_in_making_a_round_ends_nothing_and_is_tried_again() -> None:
    clock = HandClock()
    engine = new_engine(NoteBook(), CountingStore(), clock)
    engine.policies = POLICIES
    engine.execute(Apply(tuple(world(team("ant")))), actor="test")
    engine.execute(Submit(round_run("one", "ant")), actor="test")
    clock.ms = engine.view.rounds[POOL].shared.until_ms
    driver = Driver(engine)
    engine.policies = Faulty()
    driver.step()
    assert engine.view.rounds[POOL].shared.number == 1
    assert engine.round_waits == {POOL: clock.ms + 1_000}
    clock.ms += 1_000
    engine.policies = POLICIES
    driver.step()
    assert engine.view.rounds[POOL].shared.number == 2
