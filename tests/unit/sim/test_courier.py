"""The courier: reports about the machine room are true whenever a program would rely on them."""

from __future__ import annotations

from random import Random

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Release, Submit, Wiped
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import DEFAULT_POOL, Owner, Pool
from quorate.sim.fault_plan import Courier, FaultRates
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Simulation, Timeline, VirtualClock
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run

TRUTH = Truth(work_ms=HOUR_MS, checkpoint_every_ms=10 * MINUTE_MS)


@pytest.mark.parametrize(("claim", "is_clean"), [("c", True), ("other", False)])
def test_who_says_that_a_node_was_wiped_has_wiped_it(
    claim: str,
    is_clean: bool,  # noqa: FBT001 - a parameter
) -> None:
    timeline = Timeline(VirtualClock(NOW_MS))
    executor = SimExecutor(
        timeline,
        truth_of=lambda _: TRUTH,
        stop_delay=lambda _: 0,
        notice_ms=HOUR_MS,
        wipe=lambda: (None, True),
    )
    simulation = Simulation(timeline, MemoryStore(), executor)
    courier = Courier(simulation, executor, FaultRates(), Random(0))
    (node,) = fleet({"A": 8})
    said = Wiped(node.name, is_clean=True, claim=claim)
    specs = (Pool(name=DEFAULT_POOL), Owner(name="one"), node)
    courier.insist(Apply((*specs, budget("b", "one", envelope("e", 64)))), actor="test")
    sensitive = run("c", 8, "one", user="ada", sensitive=True, expected_duration_ms=HOUR_MS)
    for command in (Submit(sensitive), said, Release("c", ""), said, Submit(run("r", 8, "one"))):
        courier.insist(command, actor="test")
        simulation.run(timeline.now_ms + MINUTE_MS)
    assert ("r/0" in executor.known()) is is_clean
    assert executor.wrongs == []
