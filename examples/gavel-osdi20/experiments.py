"""Repeats the published comparisons of Gavel (OSDI 2020), and shows the published results beside.

    python examples/gavel-osdi20/experiments.py --table TABLE --out FOLDER [--full] [--processes N]

FOLDER gets ``results.json``, one entry for each simulation, and ``report.html`` with the plots:
mean completion time against load for jobs of one GPU and of several, makespan against the number of
jobs, and the CPU time of one answer of a policy. The mechanism is the published one; the cluster
has 36 GPUs of each of V100, P100 and K80.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any, Final

from quorate.policy.askable import answer
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.jobs_file import JobState
from quorate.policy.files.table_problem import problem_from_table
from quorate.policy.table import POLICIES
from quorate.sim.scenario import Scenario, scenario_of
from quorate.sim.scenario_play import cluster_of, staged, table_of, trace_of
from quorate.views.reports.html_report import html_page
from quorate.views.reports.svg_plot import (
    Series,
    axes,
    box,
    dot,
    drawing,
    legend,
    line,
    x_scale,
    y_scale,
)

CLUSTER: Final = "v100=36,p100=36,k80=36"
HOUR_S: Final = 3_600.0
HALF: Final = 4.0
"""Half the side of the square that marks a point."""
PUBLISHED: Final = json.loads((Path(__file__).parent / "published.json").read_text("utf-8"))
LOADED: Final = (
    "max_min_fairness",
    "gandiva",
    "max_min_fairness_perf",
    "finish_time_fairness",
    "finish_time_fairness_perf",
)
TOGETHER: Final = ("fifo", "gandiva", "min_total_duration_perf")
ASKED: Final = (
    "max_min_fairness_perf",
    "finish_time_fairness_perf",
    "min_total_duration_perf",
    "max_min_fairness_water_filling_perf",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes of experiments: jobs per hour, measured jobs, seeds, and numbers of jobs."""

    single: Sequence[float]
    multi: Sequence[float]
    measure: str
    seeds: Sequence[int]
    makespan_jobs: Sequence[int]
    runtime_jobs: Sequence[int]


QUICK: Final = Size(
    single=(5.6,),
    multi=(2.6,),
    measure="3:6",
    seeds=(0,),
    makespan_jobs=(8,),
    runtime_jobs=(16, 64),
)
FULL: Final = Size(
    single=(2.0, 4.0, 5.2, 5.6),
    multi=(2.0, 2.6, 2.8),
    measure="4000:5000",
    seeds=(0, 1, 2),
    makespan_jobs=(100, 300, 500, 700),
    runtime_jobs=(32, 128, 512, 1024, 2048),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One simulation: ``x`` is the load in jobs per hour, or the number of jobs."""

    kind: str
    policy: str
    x: float
    seed: int
    table: str
    measure: str | None

    def scenario(self) -> Scenario:
        """Return the scenario of the simulation."""
        if self.kind == "makespan":
            drawn = f"lam=0,arrivals=static,jobs={self.x:.0f},multi=1,seed={self.seed}"
        else:
            drawn = f"lam={HOUR_S / self.x:.2f},multi={int(self.kind == 'multi')},seed={self.seed}"
        given = {
            "cluster": CLUSTER,
            "policy": self.policy,
            "strict": True,
            "generate": drawn,
            "measure": self.measure,
            "throughputs": self.table,
        }
        return scenario_of({}, given)


def experiments(size: Size, table: str) -> list[Experiment]:
    """Return all simulations of a size."""
    loads = {"single": size.single, "multi": size.multi}
    found = [
        Experiment(kind=kind, policy=policy, x=load, seed=seed, table=table, measure=size.measure)
        for kind, some in loads.items()
        for policy in LOADED
        for load in some
        for seed in size.seeds
    ]
    return found + [
        Experiment(kind="makespan", policy=policy, x=jobs, seed=seed, table=table, measure=None)
        for policy in TOGETHER
        for jobs in size.makespan_jobs
        for seed in size.seeds
    ]


def played(asked: Experiment) -> dict[str, Any]:
    """Play an experiment; return it with its figures, in hours."""
    stage = staged(asked.scenario(), _bytes)
    while stage.go_on():
        pass
    found = stage.figures()
    jct_s, makespan_s = found["jct_mean_s"], found["makespan_s"]
    assert jct_s is not None, asked
    assert makespan_s is not None, asked
    figures = {"jct_hours": jct_s / HOUR_S, "makespan_hours": makespan_s / HOUR_S}
    return {**asdict(asked), **figures, "jobs_done": found["jobs_done"]}


def runtimes(size: Size, table: str) -> Iterable[dict[str, Any]]:
    """Yield the CPU time of one answer of each policy, by the number of jobs."""
    for jobs in size.runtime_jobs:
        drawn = f"lam=0,arrivals=static,jobs={jobs},multi=1,seed=0"
        asked = Scenario(cluster=CLUSTER, generate=drawn, throughputs=table)
        rates, cluster = table_of(asked, _bytes), cluster_of(asked)
        assert rates is not None, asked
        states = [
            JobState(
                name=each.name,
                job_type=each.job_type,
                scale=each.gpus,
                steps_left=each.steps or 0.0,
            )
            for each in trace_of(asked, _bytes, cluster, rates).jobs
        ]
        problem = problem_from_table(rates, states, cluster, with_pairs=False)
        assert not isinstance(problem, Faulty), problem.faults
        for policy in ASKED:
            answer(
                POLICIES[policy], problem
            )  # This call does late imports, which should not be measured.
            began_s = process_time()
            answer(POLICIES[policy], problem)
            yield {
                "kind": "runtime",
                "policy": policy,
                "x": jobs,
                "cpu_s": process_time() - began_s,
            }


def page(results: Sequence[dict[str, Any]]) -> str:
    """Return the plots as one HTML page that needs no network."""
    plots = [
        _plot(results, "single", "jct_hours", "Jobs of one GPU: completion time", "jobs per hour"),
        _plot(
            results, "multi", "jct_hours", "Jobs of 1 to 8 GPUs: completion time", "jobs per hour"
        ),
        _plot(results, "makespan", "makespan_hours", "Makespan of jobs that come at once", "jobs"),
        _plot(results, "runtime", "cpu_s", "CPU time of one answer", "jobs"),
    ]
    title = "Gavel (OSDI 2020), played again"
    about = "Squares and lines: played. Dots: published. Each policy has one colour."
    return html_page(
        title,
        [f"<h1>{title}</h1>", f"<p>{about}</p>", '<div class="plots">', *plots, "</div>"],
    )


def _plot(results: Sequence[dict[str, Any]], kind: str, key: str, title: str, x_title: str) -> str:
    lines: list[Series] = []
    mine = [each for each in results if each["kind"] == kind]
    for policy in dict.fromkeys(each["policy"] for each in mine):
        values: dict[float, list[float]] = {}
        for each in mine:
            if each["policy"] == policy:
                values.setdefault(float(each["x"]), []).append(each[key])
        lines.append(Series(policy, [(x, mean(found)) for x, found in sorted(values.items())]))
    known = PUBLISHED.get(key, {})
    known = known if kind == "makespan" else known.get(kind, {})
    points = [
        (colour, float(x), hours)
        for colour, each in enumerate(lines)
        for x, hours in known.get(each.name, {}).items()
    ]
    both = [*(point for each in lines for point in each.points), *((x, y) for _, x, y in points)]
    xs = [px for px, _ in both]
    x = x_scale(min(xs), max(xs))
    y = y_scale(0.0, max(py for _, py in both))
    drawn = [line(each, x, y, colour) for colour, each in enumerate(lines)]
    for colour, series in enumerate(lines):
        for px, py in series.points:
            across, down = x.at(px), y.at(py)
            where = (across - HALF, across + HALF), (down - HALF, down + HALF)
            drawn.append(box(*where, colour, f"{series.name}: {py:.3g}"))
    drawn += [dot(x.at(px), y.at(py), colour, f"published: {py}") for colour, px, py in points]
    unit = "seconds" if key == "cpu_s" else "hours"
    svg = drawing(title, [*axes(x, y, x_title, unit), *drawn])
    names = legend([each.name for each in lines])
    return f"<figure><figcaption><h3>{escape(title)}</h3></figcaption>\n{svg}\n{names}</figure>\n"


def _bytes(name: str) -> bytes:
    return Path(name).read_bytes()


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all experiments of the chosen size, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--table", required=True, help="the table of rates")
    parser.add_argument("--out", required=True, type=Path, help="the folder for the results")
    parser.add_argument("--full", action="store_true", help="the published sizes; takes hours")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args(arguments)
    size = FULL if asked.full else QUICK
    asked.out.mkdir(parents=True, exist_ok=True)
    tasks = experiments(size, asked.table)
    if asked.processes > 1:
        with ProcessPoolExecutor(asked.processes) as pool:
            results = list(pool.map(played, tasks))
    else:
        results = [played(task) for task in tasks]
    results += runtimes(size, asked.table)
    (asked.out / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    (asked.out / "report.html").write_text(page(results), encoding="utf-8")
    print(f"{len(results)} results in {asked.out}")  # noqa: T201 - a program for people


if __name__ == "__main__":
    main()
