"""The CPU time of the published traces, relative to the CPU time of Gavel's own simulator.

Each trace is played several times, from its files to its last job, in strict mode or through the
production engine; the median counts. Gavel's CPU time was recorded on another machine, so the
factors compare two machines, and the details have Quorate's seconds. For max-min fairness and
finish-time fairness a range was recorded, and its lower end counts. The benchmark needs the
published traces beside the repository, in ``../shared``; without them it prints a message and
measures nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time
from typing import Final, NamedTuple

from benchmarks.figure import Effort, Figure, additions_ms, median_of
from quorate.sim.scenario import Scenario
from quorate.sim.scenario_play import staged

DATA: Final = Path(__file__).parents[2] / "shared" / "data" / "gavel"
REPEATS: Final = 5


class _Case(NamedTuple):
    """A policy and a trace, the recorded CPU seconds of Gavel, and the target factor."""

    policy: str
    trace: str
    recorded_s: float
    times: float
    strict: bool = True


_FEW: Final = "max_min_fairness.trace"
_MANY: Final = "minimize_makespan.trace"
CASES: Final = (
    _Case("max_min_fairness_packed", _FEW, 3.3, 20.0),
    _Case("max_min_fairness_packed", _MANY, 22.3, 20.0),
    _Case("finish_time_fairness_perf", _MANY, 8.6, 20.0),
    _Case("max_min_fairness", _FEW, 1.1, 5.0),
    _Case("max_min_fairness_perf", _FEW, 1.1, 5.0),
    _Case("max_min_fairness_perf", _FEW, 1.1, 3.0, strict=False),
)


def measure(effort: Effort) -> list[Figure]:
    """Return the recorded CPU time of each case, divided by Quorate's."""
    if not DATA.is_dir():
        print(f"gavel: not measured: there is no {DATA}", file=sys.stderr)
        return []
    return [_measured(case, effort.of(REPEATS, 1)) for case in CASES]


def _measured(case: _Case, repeats: int) -> Figure:
    took_s = median_of(repeats, lambda: _played_s(case))
    way = "strict" if case.strict else "engine"
    return Figure(
        name=f"gavel: {case.policy}, {Path(case.trace).stem}, {way}",
        unit="times",
        value=case.recorded_s / took_s,
        better="more",
        target=case.times,
        details={
            "CPU, s": round(took_s, 3),
            "recorded of Gavel, s": case.recorded_s,
            "a million additions, ms": round(additions_ms()),
        },
    )


def _played_s(case: _Case) -> float:
    scenario = Scenario(
        cluster="v100=8,p100=16,k80=24",
        discipline="rounds",
        policy=case.policy,
        strict=case.strict,
        trace=case.trace,
        throughputs="physical_cluster_throughputs.json",
    )
    began_s = process_time()
    stage = staged(scenario, lambda name: (DATA / name).read_bytes())
    while stage.go_on():
        pass
    return process_time() - began_s
