"""Leaders and their terms: who sends orders, and what happens to a deposed leader."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Cancel, Command, Complete, Submit
from quorate.ledger.chain import Block, Head
from quorate.loop.driver import Driver
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import Owner
from quorate.model.state.records import Phase
from quorate.ports.errors import DecidingStoppedError, NotLeaderError, OldTermError
from quorate.ports.executor_port import Order, Report
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Timeline, VirtualClock
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import memory_engine
from tests.oracles.effort import examples

FLEET = Apply((*fleet({"A": 32}), Owner(name="team"), budget("b", "team", envelope("e", 32))))
RUNS = ("a", "b")


class Handle:
    """One engine's connection to a machine room, on which orders may arrive late."""

    def __init__(self, room: SimExecutor) -> None:
        self._room = room
        self.is_slow = False
        self._late: list[tuple[list[Order], int]] = []

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        if self.is_slow:
            self._late.append((list(orders), term))
        else:
            self.flush()
            self._room.carry_out(orders, term=term)

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        self._room.resume(orders, term=term, is_whole=is_whole)

    def reports(self) -> Sequence[Report]:
        return self._room.reports()

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        return self._room.steps(runs)

    def flush(self) -> None:
        """Deliver the late orders; those of an older term are refused."""
        late, self._late = self._late, []
        for orders, term in late:
            with suppress(OldTermError):
                self._room.carry_out(orders, term=term)


class Cluster:
    """One ledger and one machine room, and engines that may lead."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.timeline = Timeline(VirtualClock(NOW_MS))
        truth = Truth(work_ms=HOUR_MS, checkpoint_every_ms=10 * MINUTE_MS)
        self.room = SimExecutor(
            self.timeline,
            truth_of=lambda _: truth,
            stop_delay=lambda _: MINUTE_MS,
            notice_ms=HOUR_MS,
        )
        store = MemoryStore(is_shared=True) if store is None else store
        memory_engine(store).execute(FLEET, actor="test")
        self.engines = [Engine.open(store, self.timeline.clock) for _ in range(2)]
        self.handles = [Handle(self.room) for _ in range(2)]
        self.term = 0
        for engine in self.engines:
            engine.step_down("another service leads")

    def lead(self, who: int) -> Engine:
        self.term += 1
        self.engines[who].lead(self.term, self.handles[who])
        return self.engines[who]

    def wait(self, minutes: int) -> None:
        """Advance the time of the machine room."""
        until_ms = self.timeline.now_ms + minutes * MINUTE_MS
        while (at_ms := self.timeline.next_ms()) is not None and at_ms <= until_ms:
            self.timeline.take()()
        self.timeline.clock.true_ms = until_ms

    def leases(self, who: int) -> dict[str, bool]:
        view = self.engines[who].view
        return {name: lease.ending is not None for name, lease in view.leases.items()}


def test_engine_that_does_not_lead_decides_nothing() -> None:
    cluster = Cluster()
    with pytest.raises(DecidingStoppedError, match="another service leads"):
        cluster.engines[0].execute(Submit(run("a", 8)), actor="test")
    cluster.lead(0).execute(Submit(run("a", 8)), actor="test")
    assert cluster.room.known() == {"a/0": False}


def test_leader_that_does_not_know_it_is_deposed_has_no_order_carried_out() -> None:
    cluster = Cluster()
    old = cluster.lead(0)
    old.execute(Submit(run("a", 8)), actor="test")
    new = cluster.lead(1)
    # It is recorded, so it is acknowledged; the next leader starts its lease.
    receipt = old.execute(Submit(run("b", 8)), actor="test")
    assert receipt.decision.events
    assert cluster.room.known() == {"a/0": False}
    assert "a leader of term 2 has taken over" in old.stopped
    with pytest.raises(DecidingStoppedError, match="term 2"):
        old.execute(Submit(run("c", 8)), actor="test")
    new.follow()
    assert cluster.room.known() == {"a/0": False, "b/0": False}
    assert cluster.room.wrongs == []


def test_order_of_a_deposed_leader_that_comes_late_is_refused() -> None:
    cluster = Cluster()
    cluster.handles[0].is_slow = True
    cluster.lead(0).execute(Submit(run("a", 8)), actor="test")
    assert cluster.room.known() == {}
    new = cluster.lead(1)
    assert cluster.room.known() == {"a/0": False}
    new.execute(Cancel("a"), actor="test")
    cluster.wait(2)
    Driver(new).step()
    assert cluster.room.known() == {}
    # The start of a lease that has ended by now.
    cluster.handles[0].flush()
    assert (cluster.room.known(), cluster.room.wrongs) == ({}, [])


def test_engine_with_an_older_term_than_the_executor_does_not_lead() -> None:
    cluster = Cluster()
    cluster.lead(0)
    cluster.lead(1)
    late = cluster.engines[0]
    late.step_down("another service leads")
    with pytest.raises(OldTermError):
        late.lead(1, cluster.room)
    assert late.stopped


class LedStore(MemoryStore):
    """A store that accepts blocks of the leader only, which may be another engine."""

    leader = ""

    def append(self, block: Block, *, expected: Head) -> None:
        if self.leader:
            raise NotLeaderError(f"{self.leader} leads; nothing was recorded")
        super().append(block, expected=expected)


def test_engine_whose_store_takes_blocks_of_another_leader_stops_deciding() -> None:
    cluster = Cluster(LedStore(is_shared=True))
    old, store = cluster.lead(0), cluster.engines[0].store
    assert isinstance(store, LedStore)
    store.leader = "the other service"
    with pytest.raises(NotLeaderError):
        old.execute(Submit(run("a", 8)), actor="test")
    assert "a" not in old.view.runs
    assert "the other service leads" in old.stopped
    with pytest.raises(DecidingStoppedError, match="the other service leads"):
        old.execute(Submit(run("a", 8)), actor="test")
    store.leader = ""
    cluster.lead(0).execute(Submit(run("a", 8)), actor="test")
    assert cluster.room.known() == {"a/0": False}


class Between(Handle):
    """A machine room in which something happens while a leader takes over."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.room)
        self._cluster = cluster
        self.resumed: list[tuple[bool, list[Order]]] = []

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        if not self.resumed:
            # The old leader's last commit, whose orders are still accepted; later ones are not.
            self._cluster.engines[0].execute(Submit(run("late", 8)), actor="test")
        self.resumed.append((is_whole, list(orders)))
        super().resume(orders, term=term, is_whole=is_whole)


def test_work_that_was_started_while_another_took_over_goes_on() -> None:
    cluster = Cluster()
    cluster.lead(0).execute(Submit(run("a", 8)), actor="test")
    between = Between(cluster)
    cluster.engines[1].lead(2, between)
    assert [(is_whole, len(orders)) for is_whole, orders in between.resumed] == [
        (False, 1),
        (True, 2),
    ]
    assert cluster.room.known() == cluster.leases(1) == {"a/0": False, "late/0": False}
    assert cluster.room.wrongs == []
    assert cluster.engines[1].view.runs["late"].phase is Phase.RUNNING


commands = st.one_of(
    st.builds(
        lambda name: Submit(run(name, 8, expected_duration_ms=HOUR_MS)), st.sampled_from(RUNS)
    ),
    st.builds(Cancel, st.sampled_from(RUNS)),
    st.builds(Complete, st.sampled_from(RUNS)),
)
steps = st.one_of(
    st.tuples(st.just("lead"), st.integers(0, 1), st.none()),
    st.tuples(st.just("drive"), st.integers(0, 1), st.none()),
    st.tuples(st.just("follow"), st.integers(0, 1), st.none()),
    st.tuples(st.just("slow"), st.integers(0, 1), st.none()),
    st.tuples(st.just("flush"), st.integers(0, 1), st.none()),
    st.tuples(st.just("wait"), st.sampled_from((2, 90)), st.none()),
    st.tuples(st.just("give"), st.integers(0, 1), commands),
)


@pytest.mark.heavy
@examples(0.5)
@given(st.lists(steps, min_size=4, max_size=40))
def test_under_any_leader_no_slot_is_worked_on_twice_and_every_lease_is_known_in_the_end(
    drawn: list[tuple[str, int, Command | None]],
) -> None:
    cluster = Cluster()
    cluster.lead(0)
    for what, who, command in drawn:
        if what == "wait":
            cluster.wait(who)
        elif what == "lead":
            cluster.lead(who)
        elif what == "follow":
            cluster.engines[who].follow()
        elif what in ("slow", "flush"):
            cluster.handles[who].is_slow = what == "slow"
            cluster.handles[who].flush()
        else:
            _act(cluster.engines[who], command)
        assert cluster.room.wrongs == []
    for handle in cluster.handles:
        handle.is_slow = False
        handle.flush()
    last = cluster.lead(1)
    assert cluster.room.known() == cluster.leases(1)
    assert last.stopped == ""


def _act(engine: Engine, command: Command | None) -> None:
    """Give ``command`` to an engine that may believe that it leads, or let its driver step."""
    try:
        if command is None:
            Driver(engine).step()
        else:
            engine.execute(command, actor="test")
    except DecidingStoppedError:
        assert engine.stopped
