"""The whole Philly trace through the production engine: CPU time and memory.

82,247 jobs run on 1,280 GPUs, with a budget for each virtual cluster. A run keeps its GPUs until it
ends. A part of the jobs is also played in rounds (``philly_rounds.py`` plays all jobs in rounds).
The benchmark needs the published trace beside the repository, in ``../shared``. Without the trace,
the benchmark prints a message and measures nothing.
"""

from __future__ import annotations

import resource
import sys
from time import process_time
from typing import Final

from benchmarks.figure import Effort, Figure, additions_ms
from benchmarks.philly_rounds import GPUS, TRACE, part_in_rounds
from quorate.sim.fleet_simulation import FleetPlay
from quorate.sim.scenario import Scenario
from quorate.sim.scenario_play import FleetStage, staged

BUDGETS: Final = 3.0
"""Each virtual cluster's budget: its part of the fleet by its jobs' GPU time, times this."""
CPU_S_MAX: Final = 90.0
MEMORY_MB_MAX: Final = 2_000.0


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of the trace, and the memory of the process afterwards."""
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
        "a million additions, ms": round(additions_ms()),
    }
    rounds = part_in_rounds(play.jobs, effort)
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


def _outcome_s(play: FleetPlay) -> float:
    began_s = process_time()
    play.outcome("bind")
    return process_time() - began_s
