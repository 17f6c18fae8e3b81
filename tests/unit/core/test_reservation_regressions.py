"""Faults of other schedulers with planned starts: one named test each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Command, Complete, Confirm, Submit, Tick
from quorate.ledger.chain import open_blocks
from quorate.loop.driver import Driver
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    Event,
    LeaseStarted,
    ReservationMade,
    ReservationMoved,
    StartReason,
)
from quorate.model.specs import DEFAULT_POOL, Malleable, Owner, Pool, Run
from quorate.model.state.records import Phase
from quorate.ports.executor_port import Order, Report
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET, HandClock

NOTICE_MS = 15 * MINUTE_MS


class Slow:
    """An executor that never reports; the test confirms ends by hand."""

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Take orders, and report nothing."""

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Take every open lease again."""

    def reports(self) -> Sequence[Report]:
        """Return nothing."""
        return ()

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return nothing."""
        del runs
        return {}


class Pool16:
    """A ledger of one domain of 16 GPUs in which two owners have enough money."""

    def __init__(self, *, gpu_hours_lost: int, has_executor: bool = False) -> None:
        self.clock, self.store = HandClock(), MemoryStore()
        self.engine = Engine.create(
            self.store,
            self.clock,
            ledger_id="test",
            public_key="",
            actor="test",
            executor=Slow() if has_executor else None,
            lottery_secret=LOTTERY_SECRET,
            lottery_length=LOTTERY_LENGTH,
        )
        pool = Pool(
            name=DEFAULT_POOL,
            disruption_rate_ppm=1_000_000 if gpu_hours_lost else 0,
            firm_horizon_ms=1_000 * HOUR_MS,
        )
        owners = [Owner(name="one"), Owner(name="two")]
        money = [budget(f"b-{o.name}", o.name, envelope("e", 64)) for o in owners]
        self.do(Apply((pool, *fleet({"A": 16}), *owners, *money)))

    def do(self, command: Command, at_ms: int | None = None) -> None:
        """Carry out a command, together with all changes that are due before and with it."""
        self.wait(self.clock.ms if at_ms is None else at_ms)
        receipt = self.engine.execute(command, actor="test")
        assert not receipt.decision.refusals, receipt.decision.refusals
        Driver(self.engine).step()
        assert sweep(self.engine.view) == []

    def wait(self, until_ms: int) -> None:
        """Make all changes that are due by ``until_ms``."""
        due_ms = Driver(self.engine).step()
        while due_ms is not None and due_ms <= until_ms:
            self.clock.ms = due_ms
            due_ms = Driver(self.engine).step()
        self.clock.ms = until_ms

    def events(self) -> Iterator[Event]:
        """Yield all recorded events."""
        for _, events in open_blocks(self.store.blocks()):
            yield from events

    def planned_ms(self, name: str) -> int | None:
        """Return the firm start of a run."""
        reservation = self.engine.view.runs[name].reservation
        assert reservation is not None, name
        return self.engine.view.reservations[reservation].planned_start_ms

    def width(self, name: str) -> int:
        """Return how many GPUs a run has, without stopping leases."""
        view = self.engine.view
        leases = (view.leases[lease] for lease in view.runs[name].leases)
        return sum(lease.gpus for lease in leases if lease.ending is None)

    def phase(self, name: str) -> Phase:
        """Return the phase of a run."""
        return self.engine.view.runs[name].phase

    def confirm_all(self) -> None:
        """Confirm the end of every lease that was ordered to stop."""
        for name in [n for n, lease in self.engine.view.leases.items() if lease.ending]:
            self.do(Confirm(name))


def of(name: str, gpus: int, owner: str, hours: int, **more: object) -> Run:
    """Return a run that is expected to take ``hours``."""
    return run(name, gpus, owner, expected_duration_ms=hours * HOUR_MS, **more)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("gpu_hours_lost", "planned_ms"),
    [(0, NOW_MS + 6 * HOUR_MS), (100, NOW_MS + 2 * HOUR_MS + NOTICE_MS)],
    ids=["when room is expected", "by a conflict"],
)
def test_reservation_that_slips_at_each_reconcile(gpu_hours_lost: int, planned_ms: int) -> None:
    """However often decisions are made, a firm start stays where it is, and is then kept."""
    life = Pool16(gpu_hours_lost=gpu_hours_lost)
    life.do(Submit(of("old", 16, "one", 6)))
    new = of("new", 16, "two", 2)
    life.do(Submit(new), NOW_MS + 2 * HOUR_MS)
    assert life.planned_ms("new") == planned_ms
    between_ms = (planned_ms - life.clock.ms) // 21
    for number in range(20):
        at_ms = life.clock.ms + between_ms
        life.do(Tick(), at_ms)
        life.do(Tick(), at_ms)
        life.do(Submit(new))
        life.do(Submit(of(f"other-{number}", 12, "one", 1)))
        assert life.planned_ms("new") == planned_ms
    if gpu_hours_lost:
        life.wait(planned_ms)
    else:
        life.do(Complete("old"), planned_ms)
    assert life.phase("new") is Phase.RUNNING
    started = [e for e in life.events() if isinstance(e, LeaseStarted) and e.run == "new"]
    assert [event.start_ms for event in started] == [planned_ms]
    made = [e.run for e in life.events() if isinstance(e, ReservationMade)]
    assert made.count("new") == 1
    moved = [e for e in life.events() if isinstance(e, ReservationMoved)]
    assert not [event for event in moved if event.reservation.startswith("new@")]


ELASTIC = Malleable(gpus_min=8, gpus_max=16, gpus_step=8, gpus_desired=16)


def growths(life: Pool16, name: str) -> list[int]:
    """Return the times at which a run grew."""
    return [
        event.start_ms
        for event in life.events()
        if isinstance(event, LeaseStarted)
        and event.run == name
        and event.reason is StartReason.GROW
    ]


@pytest.mark.parametrize("has_executor", [False, True], ids=["at once", "with an executor"])
def test_no_oscillation_after_a_cut(has_executor: bool) -> None:  # noqa: FBT001 - a parameter
    """A run that was shrunk for another one does not grow back, before or after that one starts."""
    life = Pool16(gpu_hours_lost=100, has_executor=has_executor)
    life.do(Submit(of("el", 16, "one", 24, malleable=ELASTIC, group_gpus=8)))
    life.do(Submit(of("new", 8, "two", 4)), NOW_MS + 2 * HOUR_MS)
    due_ms = NOW_MS + 2 * HOUR_MS + NOTICE_MS
    # With an executor, a cut run takes up to the pool's longest grace, as planned.
    lead_ms = 5 * MINUTE_MS if has_executor else 0
    assert (life.planned_ms("new"), life.width("el")) == (due_ms + lead_ms, 16)
    life.wait(due_ms)
    if has_executor:
        # Its step is stopping, and its GPUs are not free yet; decisions are made again and again.
        assert life.phase("new") is Phase.PENDING
        for _ in range(3):
            life.do(Tick(), life.clock.ms + 20_000)
            assert (life.width("el"), growths(life, "el")) == (8, [])
        life.confirm_all()
    assert (life.phase("new"), life.width("el"), life.width("new")) == (Phase.RUNNING, 8, 8)
    for _ in range(20):
        life.do(Tick(), life.clock.ms + 10 * MINUTE_MS)
        assert (life.width("el"), growths(life, "el")) == (8, [])
    life.do(Complete("new", has_gone=True), life.clock.ms + MINUTE_MS)
    assert (life.width("el"), growths(life, "el")) == (16, [life.clock.ms])


def test_no_growth_into_room_that_is_promised() -> None:
    """GPUs that become free before a firm start go to no run that could not end before it."""
    life = Pool16(gpu_hours_lost=0)
    life.do(Submit(of("short", 8, "one", 2)))
    life.do(Submit(of("el", 8, "one", 24, malleable=ELASTIC, group_gpus=8)))
    life.do(Submit(of("new", 8, "two", 4)), NOW_MS + HOUR_MS)
    assert life.planned_ms("new") == NOW_MS + 2 * HOUR_MS
    life.do(Complete("short"), NOW_MS + HOUR_MS + MINUTE_MS)
    # It starts at once instead, because it has waited, and the other run has its minimum.
    assert (life.phase("new"), life.width("el"), growths(life, "el")) == (Phase.RUNNING, 8, [])
