"""Rounds pools: what a round costs the whole system, from the policy to the last invariant.

A thousand runs of ten owners share a hundred nodes of three flavors. Everything is as in
production: the engine, a ledger in memory that is sealed and encoded, an executor that takes its
time to stop, and after every commit the invariants of what was touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import median
from time import process_time
from typing import Final

from benchmarks.figure import Effort, Figure
from quorate.adapters.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply, Command
from quorate.core.touched import check_touched
from quorate.loop.engine import Receipt
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import HoldExtended, LeaseStarted, RoundShared
from quorate.model.selector import REGION
from quorate.model.specs import (
    Budget,
    Discipline,
    Envelope,
    Node,
    Owner,
    Pool,
    Quota,
    RoundsWork,
    Run,
)
from quorate.model.view import StateView
from quorate.policy.table import POLICIES
from quorate.sim.engine import Simulation, Timeline, VirtualClock
from quorate.sim.executor import SimExecutor, Truth
from quorate.testing.world import NOW_MS

FLAVORS: Final = {"a100": 4.0, "v100": 2.0, "k80": 0.5}
OWNERS: Final = 10
ROUND_MS: Final = 6 * MINUTE_MS
POLICY: Final = "max_min_fairness_water_filling_perf"
TARGET_S: Final = 0.2


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of a round, from the end of one to the start of the last grant."""
    nodes, runs, rounds = effort.of(100, 10), effort.of(1_000, 100), effort.of(20, 4)
    watch = _Watch()
    simulation = _pool(nodes, runs, watch)
    taken_s = []
    for _ in range(rounds):
        start = process_time()
        simulation.run(simulation.timeline.now_ms + ROUND_MS)
        taken_s.append(process_time() - start)
    return [
        Figure(
            name="rounds: CPU of a round through the whole system",
            unit="s",
            value=median(taken_s),
            better="less",
            target=TARGET_S,
            details={
                "runs": runs,
                "nodes": nodes,
                "policy": POLICY,
                "rounds": watch.rounds,
                "the slowest, s": round(max(taken_s), 3),
                "starts a round": round(watch.starts / max(1, watch.rounds)),
                "staying a round": round(watch.stays / max(1, watch.rounds)),
                "wrong": watch.wrong,
            },
        )
    ]


class _Watch:
    """Looks at the invariants of what every commit has touched, and counts."""

    def __init__(self) -> None:
        self.rounds = self.starts = self.stays = self.wrong = 0

    def asked(self, commands: Sequence[Command], now_ms: int) -> None:
        """Let it be asked."""

    def decided(self, command: Command, receipt: Receipt, view: StateView) -> None:
        """Count what was decided."""
        del command, view
        for event in receipt.decision.events:
            self.rounds += isinstance(event, RoundShared)
            self.starts += isinstance(event, LeaseStarted)
            self.stays += isinstance(event, HoldExtended)

    def committed(self, receipts: Sequence[Receipt], view: StateView) -> None:
        """Look at what was touched."""
        events = [event for receipt in receipts for event in receipt.decision.events]
        self.wrong += len(check_touched(view, events))

    def reopened(self, view: StateView) -> None:
        """Never happens here."""


def _pool(nodes: int, runs: int, watch: _Watch) -> Simulation:
    timeline = Timeline(VirtualClock(NOW_MS))
    specs = _specs(nodes)
    flavors = {spec.name: spec.flavor for spec in specs if isinstance(spec, Node)}
    speeds = tuple((flavor, round(rate / 4.0 * PPM)) for flavor, rate in FLAVORS.items())
    executor = SimExecutor(
        timeline,
        truth_of=lambda _: Truth(
            work_ms=1_000 * HOUR_MS, checkpoint_every_ms=HOUR_MS, speeds_ppm=speeds
        ),
        stop_delay=lambda left_ms: left_ms // 4,
        notice_ms=HOUR_MS,
        flavor_of=flavors.__getitem__,
    )
    simulation = Simulation(timeline, MemoryStore(), executor, observers=[watch])
    simulation.is_crowded = True
    assert POLICY in POLICIES, POLICY
    done = simulation.send(Apply(specs), actor="operator")
    assert done is not None, "nothing crashes here"
    assert not done.decision.refusals, done.decision.refusals
    done = simulation.send(Apply(_runs(Random(1), runs)), actor="operator")
    assert done is not None, "nothing crashes here"
    assert not done.decision.refusals, done.decision.refusals[:3]
    simulation.step()
    return simulation


def _specs(nodes: int) -> tuple[Applied, ...]:
    owners = [f"owner{number}" for number in range(OWNERS)]
    kinds = tuple(FLAVORS)
    return (
        Pool(
            name="shared",
            selector=((REGION, "r"),),
            discipline=Discipline.ROUNDS,
            policy=POLICY,
            round_ms=ROUND_MS,
        ),
        *(
            Node(
                name=f"n{number:03d}",
                flavor=kinds[number % len(kinds)],
                gpus=8,
                region="r",
                cluster="c",
                domain=f"d{number // 30}-{number % len(kinds)}",
            )
            for number in range(nodes)
        ),
        *(Owner(name=o, quota=Quota(fair_share_target_ppm=PPM // OWNERS)) for o in owners),
        *(_budget(owner) for owner in owners),
    )


def _budget(owner: str) -> Budget:
    lines = tuple(
        Envelope(
            name=flavor,
            flavor=flavor,
            selector=((REGION, "r"),),
            start_ms=NOW_MS - HOUR_MS,
            end_ms=NOW_MS + 1_000 * HOUR_MS,
            concurrency=800,
        )
        for flavor in FLAVORS
    )
    return Budget(name=f"b-{owner}", owner=owner, envelopes=lines)


def _runs(chance: Random, count: int) -> tuple[Run, ...]:
    """Return runs of 1 to 8 GPUs whose rates are all different."""
    return tuple(
        Run(
            name=f"run{number:04d}",
            owner=f"owner{number % OWNERS}",
            flavors=tuple(FLAVORS),
            gpus=chance.choice((1, 1, 1, 2, 2, 4, 8)),
            pool="shared",
            checkpoint_ms=MINUTE_MS,
            rounds=RoundsWork(
                throughputs=tuple(
                    (flavor, rate * chance.uniform(0.5, 2.0)) for flavor, rate in FLAVORS.items()
                ),
                total_steps=10**7,
                weight=chance.choice((1.0, 1.0, 2.0)),
            ),
        )
        for number in range(count)
    )
