"""The whole Philly trace through the production engine: CPU time and memory.

82,247 jobs on 1,280 GPUs that bind until runs end, with a budget for each virtual cluster. Needs
the published trace beside the repository, in ``../shared``; without it it says so and measures
nothing.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.figure import Effort, Figure
from quorate.sim.fleet_simulation import FleetPlay
from quorate.sim.scenario import Scenario
from quorate.sim.scenario_play import FleetStage, staged

TRACE: Final = Path(__file__).parents[2] / "shared" / "data" / "traces" / "philly.csv"
BUDGETS: Final = 3.0
"""Each cluster's part of the fleet by the GPU time of its jobs, times this."""
CPU_S_MAX: Final = 90.0
MEMORY_MB_MAX: Final = 2_000.0
_ADDITIONS: Final = 1_000_000


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of the trace and the memory of the process after it."""
    if not TRACE.is_file():
        print(f"philly: not measured: there is no {TRACE}", file=sys.stderr)
        return []
    scenario = Scenario(cluster="gpu=1280", discipline="bind", trace=TRACE.name, budgets=BUDGETS)
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
    ]


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
