"""Narrow runs that are due in every round, beside gangs that take most of a small pool.

No choice of whole rounds gives all runs their shares. In the pool below, even the best choice
misses the shares by 18 %, as a linear program over all sets of runs that fit at once shows.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import RoundShared
from quorate.model.specs import Discipline, Owner, Pool, Quota, RoundsWork, Run
from quorate.model.state.entitlements import received_ms
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Simulation, Timeline, VirtualClock
from quorate.testing.builders import ANYWHERE, NOW_MS, budget, envelope, node

ROUND_MS: Final = 6 * MINUTE_MS
ROUNDS: Final = 100
RUNS: Final = (
    ("ant", 4, 5.0),
    ("cat", 7, 1.0),
    ("dog", 4, 2.0),
    ("ant", 1, 5.0),
    ("cat", 1, 2.0),
    ("dog", 8, 1.0),
    ("bee", 4, 2.0),
    ("bee", 5, 1.0),
)
"""(owner, GPUs, weight). The runs of one GPU are due in every round."""


@pytest.mark.slow
def test_no_run_is_short_by_a_fifth_where_rounds_can_be_chosen_so() -> None:
    simulation = _opened()
    simulation.run(NOW_MS + ROUNDS * ROUND_MS)
    assert simulation.engine is not None
    view, now_ms = simulation.engine.view, simulation.timeline.now_ms
    due_ms: Counter[str] = Counter()
    for _, block in open_blocks(simulation.store.blocks()):
        for event in block:
            if isinstance(event, RoundShared):
                lasted_ms = min(event.until_ms, now_ms) - event.at_ms
                for share in event.shares:
                    due_ms[share.run] += sum(share.shares_ppm) * lasted_ms // PPM
    short = {
        run: 1 - sum(received_ms(view, run, now_ms).values()) / ms for run, ms in due_ms.items()
    }
    assert len(short) == len(RUNS)
    assert max(short.values()) <= 0.2, short


def _opened() -> Simulation:
    pool = Pool(
        name="shared",
        selector=ANYWHERE,
        discipline=Discipline.ROUNDS,
        policy="max_min_fairness_water_filling_perf",
        round_ms=ROUND_MS,
    )
    specs: list[Applied] = [pool, node("n0", flavor="h100")]
    for owner in ("ant", "bee", "cat", "dog"):
        specs.append(Owner(name=owner, quota=Quota(fair_share_target_ppm=PPM // 4)))
        specs.append(budget(f"b-{owner}", owner, envelope("all", 1_000, flavor="h100")))
    specs += [
        Run(
            name=f"run{number}",
            owner=owner,
            flavors=("h100",),
            gpus=gpus,
            pool="shared",
            checkpoint_ms=MINUTE_MS,
            rounds=RoundsWork(throughputs=(("h100", 1.0),), weight=weight),
        )
        for number, (owner, gpus, weight) in enumerate(RUNS)
    ]
    timeline = Timeline(VirtualClock(NOW_MS))
    truth = Truth(work_ms=10_000 * HOUR_MS, checkpoint_every_ms=HOUR_MS)
    executor = SimExecutor(
        timeline,
        truth_of=lambda _: truth,
        stop_delay=lambda left_ms: min(left_ms, 2_000),
        notice_ms=HOUR_MS,
        flavor_of=lambda _: "h100",
    )
    simulation = Simulation(timeline, MemoryStore(), executor)
    done = simulation.send(Apply(tuple(specs)), actor="operator")
    assert done is not None
    assert not done.decision.refusals, done.decision.refusals
    simulation.step()
    return simulation
