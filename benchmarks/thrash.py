"""The work that conflicts lose in a week of excess demand, with and without the guards.

The pool's owners have envelopes with more GPUs in total than the pool. Runs of one day and of
different sizes arrive as fast as their owners can pay for them. Work checkpoints every full hour
but not when it is stopped, so a cut loses the work since the last checkpoint. The production engine
makes all decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from msgspec.structs import replace

from benchmarks.figure import Baseline, Effort, Figure
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply, Submit
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import DAY_MS, HOUR_MS, SECOND_MS
from quorate.model.events import EndReason, LeaseEnding
from quorate.model.specs import Budget, Envelope, Malleable, Node, Owner, Pool, Run
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Simulation, Timeline, VirtualClock
from quorate.testing.builders import NOW_MS

OWNERS = ("ant", "bee", "cat", "dog", "eel")
WIDTHS = (4, 8, 8, 16, 16, 32, 64)
RUN_MS = 24 * HOUR_MS
NODES_PER_DOMAIN = 16
TARGETS = {130: 3.0, 110: 1.0}
"""The funded demand in percent of the pool, and the most work in percent that may be lost."""
GUARDED = Pool(name="default")
UNGUARDED = replace(
    GUARDED,
    notice_ms=SECOND_MS,
    runtime_min_ms=0,
    cool_down_ms=0,
    disruption_rate_ppm=1_000_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """The result of a pool in GPU-milliseconds, and the numbers of cut leases by reason."""

    done_gpu_ms: int
    lost_gpu_ms: int
    capacity_gpu_ms: int
    cuts: Counter[EndReason]

    @property
    def lost_percent(self) -> float:
        """The GPU-hours that were lost for every hundred GPU-hours done."""
        return 100 * self.lost_gpu_ms / max(1, self.done_gpu_ms)


def measure(effort: Effort) -> list[Figure]:
    """Return the lost work at each level of demand, with and without the guards."""
    nodes, days = effort.of(16, 8), effort.of(7, 2)
    found = []
    for percent, target in TARGETS.items():
        guarded = live(GUARDED, percent, nodes=nodes, days=days)
        unguarded = live(UNGUARDED, percent, nodes=nodes, days=days)
        found.append(
            Figure(
                name=f"thrash: work lost to cuts at {percent} % demand",
                unit="%",
                value=guarded.lost_percent,
                better="less",
                target=target,
                baseline=Baseline("without the guards", unguarded.lost_percent),
                details={
                    "GPUs": nodes * 8,
                    "days": days,
                    "in use, %": round(100 * guarded.done_gpu_ms / guarded.capacity_gpu_ms, 1),
                    "leases cut": sum(guarded.cuts.values()),
                    "in use without, %": round(
                        100 * unguarded.done_gpu_ms / unguarded.capacity_gpu_ms, 1
                    ),
                    "leases cut without": sum(unguarded.cuts.values()),
                },
            )
        )
    return found


def live(pool: Pool, percent: int, *, nodes: int, days: int, seed: int = 1) -> Week:
    """Return the result of ``nodes`` nodes of 8 GPUs in ``pool``, at ``percent`` funded demand."""
    timeline = Timeline(VirtualClock(NOW_MS))
    executor = SimExecutor(
        timeline,
        truth_of=lambda _: Truth(work_ms=RUN_MS, checkpoint_every_ms=HOUR_MS),
        stop_delay=lambda left_ms: left_ms // 2,
        notice_ms=HOUR_MS,
        saves_at_stop=False,
    )
    store = MemoryStore()
    simulation = Simulation(timeline, store, executor)
    simulation.send(Apply(_specs(pool, percent, nodes, days)), actor="operator")
    for at_ms, run in _arrivals(Random(seed), percent, nodes * 8, days):
        timeline.at(at_ms, partial(_submit, simulation, run))
    simulation.run(NOW_MS + days * DAY_MS)
    assert not executor.wrongs, executor.wrongs
    return Week(
        done_gpu_ms=executor.done_gpu_ms(),
        lost_gpu_ms=executor.lost_gpu_ms,
        capacity_gpu_ms=nodes * 8 * days * DAY_MS,
        cuts=Counter(
            event.reason
            for _, events in open_blocks(store.blocks())
            for event in events
            if isinstance(event, LeaseEnding)
        ),
    )


def _submit(simulation: Simulation, run: Run) -> None:
    simulation.send(Submit(run), actor="people")


def _specs(pool: Pool, percent: int, nodes: int, days: int) -> tuple[Applied, ...]:
    fleet = (
        Node(
            name=f"n{number:03d}",
            flavor="H100",
            gpus=8,
            region="r",
            cluster="c",
            domain=f"d{number // NODES_PER_DOMAIN}",
        )
        for number in range(nodes)
    )
    each = nodes * 8 * percent // (100 * len(OWNERS))
    budgets = (
        Budget(
            name=owner,
            owner=owner,
            envelopes=(
                Envelope(
                    name="all",
                    flavor="H100",
                    selector=(("region", "r"),),
                    start_ms=NOW_MS,
                    end_ms=NOW_MS + (days + 30) * DAY_MS,
                    concurrency=each,
                ),
            ),
        )
        for owner in OWNERS
    )
    return (pool, *fleet, *(Owner(name=owner) for owner in OWNERS), *budgets)


def _arrivals(chance: Random, percent: int, gpus: int, days: int) -> Sequence[tuple[int, Run]]:
    """Return runs with random arrivals, whose total is the funded demand.

    The runs of the previous day arrive in the first hour, so that the pool is full afterwards.
    """
    widths = [width for width in WIDTHS if width <= gpus // 4]
    wanted = gpus * percent // 100 * (days + 1) * DAY_MS
    found: list[tuple[int, Run]] = []
    while wanted > 0:
        width = chance.choice(widths)
        run = Run(
            name=f"run{len(found):04d}",
            owner=chance.choice(OWNERS),
            flavors=("H100",),
            gpus=width,
            expected_duration_ms=RUN_MS,
            nonce=f"{chance.getrandbits(64):016x}",
        )
        if width >= 16 and chance.randrange(4) == 0:
            elastic = Malleable(
                gpus_min=width // 2, gpus_max=width, gpus_step=width // 4, gpus_desired=width
            )
            run = replace(run, malleable=elastic)
        at_ms = chance.randrange(-DAY_MS, days * DAY_MS)
        found.append((NOW_MS + (chance.randrange(HOUR_MS) if at_ms < 0 else at_ms), run))
        wanted -= width * RUN_MS
    return sorted(found, key=lambda entry: entry[0])
