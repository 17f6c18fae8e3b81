"""The cost of a round in the whole system, from the policy to the last invariant.

A thousand runs of ten owners share a hundred nodes of three flavors by the recommended policy:
owners share by their targets, and the runs of an owner share the part of their owner. As in
production, there are the engine, a ledger (in memory, but sealed and encoded), an executor whose
stops take time, and checks of the changed objects' invariants after every commit. The figure
includes all of this. It does not include the checks at the end, of the whole state and of the whole
history. If a check fails, no figure is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import median
from time import process_time
from typing import Final

from benchmarks.figure import Effort, Figure
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.audit.commit_checks import check_touched
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import Violation, sweep
from quorate.core.commands import Applied, Apply, Command
from quorate.ledger.chain import open_blocks
from quorate.loop.commit_types import Receipt
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM, SECOND_MS
from quorate.model.events import HoldExtended, LeaseStarted, RoundCause, RoundShared
from quorate.model.specs import Discipline, Node, Owner, Pool, Quota, RoundsWork, Run
from quorate.model.state.state_view import StateView
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Simulation, Timeline, VirtualClock
from quorate.testing.builders import ANYWHERE, NOW_MS, budget, envelope, node

FLAVORS: Final = {"a100": 4.0, "v100": 2.0, "k80": 0.5}
OWNERS: Final = 10
GPUS_PER_OWNER: Final = 800
ROUND_MS: Final = 6 * MINUTE_MS
POLICY: Final = "max_min_fairness_water_filling_perf"
TARGET_S: Final = 0.1
LEARNING_TARGET_S: Final = 0.2


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of a round, from the end of the last round to its last started grant.

    There are two cases, each with the median and the slowest round. In the first case, runs are as
    fast as declared, so the policy is not called again. In the second case, runs are faster or
    slower, so every round has new measured rates and calls the policy.
    """
    known, slowest = _measured(effort, is_true=True)
    learnt, slowest_learnt = _measured(effort, is_true=False)
    name = "rounds: CPU of a round through the whole system"
    learning = f"{name}, rates measured anew"
    return [
        replace(known, name=name, target=TARGET_S),
        replace(slowest, name=f"{name}, the slowest"),
        replace(learnt, name=learning, target=LEARNING_TARGET_S),
        replace(slowest_learnt, name=f"{learning}, the slowest"),
    ]


def _measured(effort: Effort, *, is_true: bool) -> tuple[Figure, Figure]:
    nodes, runs, rounds = effort.of(100, 10), effort.of(1_000, 100), effort.of(20, 4)
    watch = _Watch()
    simulation, executor = _pool(nodes, runs, watch, is_true=is_true)
    taken_s = []
    for _ in range(rounds):
        start = process_time()
        simulation.run(simulation.timeline.now_ms + ROUND_MS)
        taken_s.append(process_time() - start)
    assert watch.rounds > rounds, (watch.rounds, rounds)
    assert watch.causes == [], watch.causes
    assert watch.wrong == [], watch.wrong
    assert executor.wrongs == [], executor.wrongs
    _look_back(simulation)
    details: dict[str, float | int | str] = {
        "runs": runs,
        "nodes": nodes,
        "policy": POLICY,
        "rounds": watch.rounds,
        "starts a round": round(watch.starts / watch.rounds),
        "staying a round": round(watch.stays / watch.rounds),
    }
    usual = Figure(name="", unit="s", value=median(taken_s), better="less", details=details)
    return usual, Figure(name="", unit="s", value=max(taken_s), better="less")


class _Watch:
    """Checks the invariants of the objects that each commit changed, and counts decisions."""

    def __init__(self) -> None:
        self.rounds = self.starts = self.stays = 0
        self.causes: list[RoundCause] = []
        self.wrong: list[Violation] = []

    def asked(self, commands: Sequence[Command], now_ms: int) -> None:
        """Do nothing."""

    def decided(self, command: Command, receipt: Receipt, view: StateView) -> None:
        """Count the decision, and note the causes of rounds in which the policy had no answer."""
        del command, view
        for event in receipt.decision.events:
            self.starts += isinstance(event, LeaseStarted)
            self.stays += isinstance(event, HoldExtended)
            if isinstance(event, RoundShared):
                self.rounds += 1
                self.causes += event.causes

    def committed(self, receipts: Sequence[Receipt], view: StateView) -> None:
        """Check the invariants of the changed objects."""
        events = [event for receipt in receipts for event in receipt.decision.events]
        self.wrong += check_touched(view, events)

    def reopened(self, view: StateView) -> None:
        """Do nothing, because the engine never ends here."""


def _look_back(simulation: Simulation) -> None:
    """Check the whole state and the whole history."""
    engine = simulation.engine
    assert engine is not None, "nothing crashes here"
    found = sweep(engine.view)
    blocks = open_blocks(simulation.store.blocks())
    found += audit((event for _, block in blocks for event in block), view=engine.view)
    assert found == [], found[:3]


def _pool(nodes: int, runs: int, watch: _Watch, *, is_true: bool) -> tuple[Simulation, SimExecutor]:
    timeline = Timeline(VirtualClock(NOW_MS))
    specs = _specs(nodes)
    flavors = {spec.name: spec.flavor for spec in specs if isinstance(spec, Node)}
    executor = SimExecutor(
        timeline,
        truth_of=_truth if is_true else lambda _: _ALIKE,
        stop_delay=lambda left_ms: left_ms // 4,
        notice_ms=HOUR_MS,
        flavor_of=flavors.__getitem__,
    )
    simulation = Simulation(timeline, MemoryStore(), executor, observers=[watch])
    simulation.is_crowded = True
    for applied in (specs, _runs(Random(1), runs)):
        done = simulation.send(Apply(applied), actor="operator")
        assert done is not None, "nothing crashes here"
        assert not done.decision.refusals, done.decision.refusals[:3]
    simulation.step()
    return simulation, executor


_ALIKE: Final = Truth(
    work_ms=1_000 * HOUR_MS,
    checkpoint_every_ms=HOUR_MS,
    speeds_ppm=tuple((flavor, round(rate / 4.0 * PPM)) for flavor, rate in FLAVORS.items()),
)
"""The real rates of runs whose declarations are wrong."""


def _truth(run: Run) -> Truth:
    """Return real behaviour with the rates that ``run`` declares."""
    assert run.rounds is not None, run
    assert run.rounds.total_steps is not None, run
    fastest = max(rate for _, rate in run.rounds.throughputs)
    return Truth(
        work_ms=round(run.rounds.total_steps / fastest * SECOND_MS),
        checkpoint_every_ms=HOUR_MS,
        speeds_ppm=tuple((f, round(rate / fastest * PPM)) for f, rate in run.rounds.throughputs),
    )


def _specs(nodes: int) -> tuple[Applied, ...]:
    owners = [f"owner{number}" for number in range(OWNERS)]
    kinds = tuple(FLAVORS)
    return (
        Pool(
            name="shared",
            selector=ANYWHERE,
            discipline=Discipline.ROUNDS,
            policy=POLICY,
            round_ms=ROUND_MS,
        ),
        *(
            node(
                f"n{number:03d}",
                domain=f"d{number // 30}-{number % len(kinds)}",
                flavor=kinds[number % len(kinds)],
            )
            for number in range(nodes)
        ),
        *(Owner(name=o, quota=Quota(fair_share_target_ppm=PPM // OWNERS)) for o in owners),
        *(
            budget(f"b-{o}", o, *(envelope(f, GPUS_PER_OWNER, flavor=f) for f in kinds))
            for o in owners
        ),
    )


def _runs(chance: Random, count: int) -> tuple[Run, ...]:
    """Return runs of 1 to 8 GPUs with different rates."""
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
