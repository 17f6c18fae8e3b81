"""Default mode beside strict mode, on average over generated traces.

The production engine with its default mechanism, and Gavel's published mechanism, play the same
jobs: ten traces of the published generator (seeds 0 to 9), with as many jobs as the recorded
traces. Under max-min fairness, 96 jobs arrive over time, and the figure is their mean completion
time. Under makespan, 100 jobs arrive at once, and the figure is the end of the last job. Default
mode must not be worse on average. In Gavel's mechanism a job is as fast on several servers as on
one, so both modes play without the rates on several servers. The benchmark needs the published
table of rates beside the repository, in ``../shared``. Without the table, the benchmark prints a
message and measures nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from statistics import mean
from typing import Final, NamedTuple

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.gavel_traces import DATA
from quorate.model.amounts import HOUR_MS, SECOND_MS
from quorate.model.job_types import SPREAD_SUFFIX
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.throughputs_file import ThroughputTable, read_throughputs
from quorate.sim.report.metrics import Metrics, metrics_of
from quorate.sim.scenario import Scenario
from quorate.sim.scenario_play import REFERENCE, staged
from quorate.sim.table_rates import rates_on, templates_of
from quorate.sim.traces.generated import Generated, generated_jobs
from quorate.sim.traces.mapped_trace import write_own
from quorate.sim.traces.trace_job import Trace, TraceJob

SEEDS: Final = 10
SHORTER: Final = 6
"""The published durations are divided by this number. Published durations are 17 hours on average;
durations of the recorded traces are between two and three hours."""
_RATES: Final = "physical_cluster_throughputs.json"
_TRACE: Final = "jobs.csv"


class _Case(NamedTuple):
    """A policy, the number of its jobs, the mean time between their arrivals, and the figure."""

    policy: str
    jobs: int
    lam_s: float
    what: str
    hours: Callable[[Metrics], float]


def _jct_h(found: Metrics) -> float:
    assert found.jct_s is not None, found
    return found.jct_s.mean * SECOND_MS / HOUR_MS


def _makespan_h(found: Metrics) -> float:
    return found.makespan_s * SECOND_MS / HOUR_MS


CASES: Final = (
    _Case("max_min_fairness_perf", 96, 487.5, "mean completion time", _jct_h),
    _Case("min_total_duration_perf", 100, 0.0, "makespan", _makespan_h),
)


def measure(effort: Effort) -> list[Figure]:
    """Return a figure for each policy: the mean of default mode, with strict mode as the target."""
    if not DATA.is_dir():
        print(f"gavel-default: not measured: there is no {DATA}", file=sys.stderr)
        return []
    rates = _rates_on_one_server((DATA / _RATES).read_bytes())
    return [_measured(case, rates, effort.of(SEEDS, 1)) for case in CASES]


def _rates_on_one_server(table: bytes) -> bytes:
    flavors = json.loads(table)
    near = {name: rates for name, rates in flavors.items() if not name.endswith(SPREAD_SUFFIX)}
    return json.dumps(near).encode()


def _measured(case: _Case, rates: bytes, seeds: int) -> Figure:
    table = read_throughputs(rates)
    assert not isinstance(table, Faulty), table
    default, strict = list[float](), list[float]()
    for seed in range(seeds):
        trace = write_own(Trace(jobs=tuple(_jobs(case, table, seed)))).encode()
        files = {_TRACE: trace, _RATES: rates}
        default.append(_played_h(case, files, strict=False))
        strict.append(_played_h(case, files, strict=True))
    differences = [a - b for a, b in zip(default, strict, strict=True)]
    return Figure(
        name=f"gavel-default: {case.what}, {case.policy}",
        unit="h",
        value=mean(default),
        better="less",
        target=mean(strict),
        baseline=Baseline("strict mode", mean(strict)),
        details={
            "mean difference to strict mode, h": round(mean(differences), 3),
            "seeds in which default mode is better": sum(each < 0 for each in differences),
            "by seed, default / strict, h": ", ".join(
                f"{a:.2f} / {b:.2f}" for a, b in zip(default, strict, strict=True)
            ),
        },
    )


def _jobs(case: _Case, table: ThroughputTable, seed: int) -> Iterator[TraceJob]:
    wishes = Generated(
        lam_s=case.lam_s, seed=seed, has_sizes=True, templates=templates_of(table, REFERENCE)
    )
    for job in islice(generated_jobs(wishes, rates_on(table, REFERENCE)), case.jobs):
        assert job.steps is not None, job
        assert job.duration_s is not None, job
        yield replace(
            job,
            steps=max(1, round(job.steps / SHORTER)),
            duration_s=job.duration_s / SHORTER,
        )


def _played_h(case: _Case, files: Mapping[str, bytes], *, strict: bool) -> float:
    scenario = Scenario(
        cluster="v100=8,p100=16,k80=24",
        discipline="rounds",
        policy=case.policy,
        strict=strict,
        trace=_TRACE,
        throughputs=_RATES,
    )
    stage = staged(scenario, files.__getitem__)
    while stage.go_on():
        pass
    found = metrics_of(stage.outcome())
    assert found.completed == case.jobs, found
    return case.hours(found)
