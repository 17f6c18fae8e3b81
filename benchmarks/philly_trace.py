"""The whole Philly trace through the production engine: CPU time and memory.

82,247 jobs on 1,280 GPUs that bind until runs end, with a budget for each virtual cluster; and a
part of them, half a day of 1,500 jobs, in rounds of ten minutes by max-min fairness. Needs
the published trace beside the repository, in ``../shared``; without it it says so and measures
nothing.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.figure import Effort, Figure
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RoundShared
from quorate.model.specs import Discipline, Pool
from quorate.policy.files.cluster_file import Cluster
from quorate.sim.fleet_simulation import FleetPlay, plain_fleet
from quorate.sim.scenario import Scenario
from quorate.sim.scenario_play import FleetStage, staged
from quorate.sim.traces.trace_job import TraceJob

TRACE: Final = Path(__file__).parents[2] / "shared" / "data" / "traces" / "philly.csv"
BUDGETS: Final = 3.0
"""Each cluster's part of the fleet by the GPU time of its jobs, times this."""
GPUS: Final = 1_280
CPU_S_MAX: Final = 90.0
MEMORY_MB_MAX: Final = 2_000.0
ROUNDS_PART: Final = slice(24_000, 25_500)
ROUNDS_H: Final = 11
RUN_AND_ROUND_MS_MAX: Final = 0.2
_ADDITIONS: Final = 1_000_000


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of the trace and the memory of the process after it."""
    if not TRACE.is_file():
        print(f"philly: not measured: there is no {TRACE}", file=sys.stderr)
        return []
    scenario = Scenario(cluster=f"gpu={GPUS}", discipline="bind", trace=TRACE.name, budgets=BUDGETS)
    stage = staged(scenario, lambda _: TRACE.read_bytes())
    assert isinstance(stage, FleetStage), stage
    play, jobs_max = stage.play, effort.of(len(stage.play.jobs) + 1, 1_000)
    began_s, waited = process_time(), 0
    while stage.go_on() and play.came < jobs_max:
        waited = max(waited, play.waiting)
    took_s = process_time() - began_s
    outcome_s = _outcome_s(play)
    details: dict[str, float | int | str] = {
        "jobs": play.came,
        "budgets, times the use": BUDGETS,
        "most runs waiting, seen 400 times": waited,
        "refused": len(play.refused),
        "CPU of the outcome, s": round(outcome_s, 1),
        "a million additions, ms": round(_additions_s() * 1_000),
    }
    rounds = _rounds(play.jobs[ROUNDS_PART], effort.of(ROUNDS_H, 1))
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return [
        Figure(
            name="philly: every job, bind",
            unit="s",
            value=took_s,
            better="less",
            target=CPU_S_MAX,
            details=details,
        ),
        Figure(
            name="philly: memory of the process",
            unit="MB",
            value=memory_mb,
            better="less",
            target=MEMORY_MB_MAX,
        ),
        rounds,
    ]


def _rounds(jobs: Sequence[TraceJob], hours: int) -> Figure:
    """Return the CPU time of each run and round of ``jobs``, from the arrival of the first on."""
    began_s = jobs[0].arrives_s
    part = [replace(job, arrives_s=job.arrives_s - began_s) for job in jobs]
    owners = dict.fromkeys(sorted({job.owner for job in part}), GPUS)
    pool = Pool(
        name="rounds",
        discipline=Discipline.ROUNDS,
        policy="max_min_fairness_perf",
        round_ms=10 * MINUTE_MS,
    )
    fleet = plain_fleet(Cluster(flavors=("gpu",), gpus=(GPUS,)), owners, pool)
    store = MemoryStore()
    play = FleetPlay(fleet, part, store=store)
    began = process_time()
    play.go_on(hours * HOUR_MS)
    took_s = process_time() - began
    events = (event for _, block in open_blocks(store.blocks()) for event in block)
    sizes = [len(event.shares) for event in events if isinstance(event, RoundShared)]
    return Figure(
        name="philly: a run and round, max-min",
        unit="ms",
        value=1_000 * took_s / max(1, sum(sizes)),
        better="less",
        target=RUN_AND_ROUND_MS_MAX,
        details={
            "rounds": len(sizes),
            "runs in a round": round(sum(sizes) / max(1, len(sizes))),
            "a million additions, ms": round(_additions_s() * 1_000),
        },
    )


def _outcome_s(play: FleetPlay) -> float:
    began_s = process_time()
    play.outcome("bind")
    return process_time() - began_s


def _additions_s() -> float:
    """Return how long this machine takes for a million additions: a busy one takes longer."""
    began_s, total = process_time(), 0
    for number in range(_ADDITIONS):
        total += number
    return process_time() - began_s
