"""Runs several policies on the same generated jobs, over several seeds.

Each task is one policy with one seed. A policy here is a policy of rounds, a baseline of
``sim/baselines``, or the production planner, which has the name ``bind``. Baselines support only
one flavor. Tasks are values, so that other processes can play them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as replace_fields

from quorate.model.amounts import SECOND_MS
from quorate.model.specs import Discipline
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.policy.plugin_policies import known_policies
from quorate.sim.baselines.baseline_orders import BASELINES
from quorate.sim.baselines.baseline_simulation import (
    BaselineError,
    BaselineJob,
    StopCost,
    simulate_baseline,
)
from quorate.sim.fleet_simulation import Costs
from quorate.sim.outcome import Outcome
from quorate.sim.policy_shares import COST_UNIT, COSTS
from quorate.sim.report.compare import SEEDS_MIN
from quorate.sim.scenario import Scenario, ScenarioError, measured_of
from quorate.sim.scenario_play import (
    cluster_of,
    costs_of,
    measured_names,
    staged,
    table_of,
    trace_of,
)
from quorate.sim.table_rates import rates_on
from quorate.sim.traces.trace_job import TraceJob

BIND: Final = "bind"
_WEIGHT_UNITS: Final = 1_000
"""The priority of a job is its weight times this number, because priorities are whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTask:
    """One policy and one seed to play."""

    name: str
    scenario: Scenario


def compared_tasks(
    asked: Scenario, names: Sequence[str], seeds: Sequence[int]
) -> list[ComparedTask]:
    """Return the tasks to play, seed by seed; raise ``ScenarioError`` if they cannot be played."""
    if asked.generate is None:
        raise ScenarioError(
            "compare",
            "a trace is the same sample for every seed",
            "draw new jobs for each seed, with --generate",
        )
    if "seed=" in asked.generate:
        raise ScenarioError("generate", "has a seed, but --seeds gives the seeds", "leave it out")
    if asked.record is not None:
        raise ScenarioError("record", "would write many ledgers to one file", "leave it out")
    if len(set(names)) != len(names) or len(names) < 2:  # noqa: PLR2004 - a comparison is of two
        raise ScenarioError("compare", "needs different policies", "name two or more")
    if len(set(seeds)) < SEEDS_MIN:
        raise ScenarioError(
            "seeds",
            f"{len(set(seeds))} are too few",
            f"give at least {SEEDS_MIN}, such as 0-{SEEDS_MIN - 1}",
        )
    known = {*known_policies().by_name, *BASELINES, BIND}
    for name in names:
        if name not in known:
            raise ScenarioError(
                "compare",
                f"has {name!r}",
                f"name {BIND}, {', '.join(BASELINES)}, or a policy of `quorate policy list`",
            )
    others = [name for name in names if asked.strict and name in {*BASELINES, BIND}]
    if others:
        raise ScenarioError(
            "compare",
            f"has {others[0]!r}, which the published mechanism does not support",
            "leave it out, or compare without --gavel-strict",
        )
    return [
        ComparedTask(name=name, scenario=_scenario(asked, name, seed))
        for seed in sorted(set(seeds))
        for name in names
    ]


def _scenario(asked: Scenario, name: str, seed: int) -> Scenario:
    if name == BIND:
        discipline = Discipline.BIND.value
        return replace_fields(asked, policy=None, discipline=discipline, strict=False, seed=seed)
    rounds = Discipline.ROUNDS.value
    return replace_fields(asked, policy=name, discipline=rounds, seed=seed)


def play_task(task: ComparedTask, files: Mapping[str, bytes]) -> Outcome:
    """Return the outcome of ``task``.

    ``files`` has the content of each file that the scenario names.
    """
    asked = task.scenario
    if task.name in BASELINES:
        found = _baseline(task, files)
    else:
        stage = staged(asked, files.__getitem__)
        while stage.go_on():
            pass
        found = stage.outcome()
    return replace(found, name=task.name, seed=asked.seed)


def _baseline(task: ComparedTask, files: Mapping[str, bytes]) -> Outcome:
    asked, read = task.scenario, files.__getitem__
    cluster = cluster_of(asked)
    if sum(gpus > 0 for gpus in cluster.gpus) > 1:
        raise ScenarioError(
            "compare",
            f"has {task.name!r}, which supports only one flavor",
            f"use a cluster with one flavor, or leave {task.name!r} out",
        )
    table = table_of(asked, read)
    trace = trace_of(asked, read, cluster, table)
    (flavor,) = (name for name, gpus in zip(cluster.flavors, cluster.gpus, strict=True) if gpus)
    jobs = [_job(job, _seconds(job, flavor, table)) for job in trace.jobs]
    try:
        found = simulate_baseline(
            task.name,
            jobs,
            sum(cluster.gpus),
            BASELINES[task.name],
            cost=_cost(costs_of(asked)),
            flavor=flavor,
            price=COSTS.get(flavor, 0.0),
        )
    except BaselineError as error:
        fault, _, remedy = str(error).partition("; ")
        raise ScenarioError("compare", fault, remedy) from None
    return replace(
        found,
        cost_unit=COST_UNIT if flavor in COSTS else "",
        measured=measured_names(trace.jobs, measured_of(asked)),
    )


def _cost(costs: Costs) -> StopCost:
    """Return what a stop costs a baseline: the same as in a simulation with the engine."""
    if costs.saves_at_stop:
        return StopCost(stop_ms=costs.stop_ms)
    every_ms = costs.checkpoint_every_ms
    return StopCost(lost_ms=lambda done_ms: done_ms % every_ms, stop_ms=costs.stop_ms)


def _seconds(job: TraceJob, flavor: str, table: ThroughputTable | None) -> float:
    """Return how long ``job`` takes on ``flavor``: by its steps and the table, or its duration."""
    if table is None or job.steps is None or job.job_type is None:
        if job.duration_s is None:
            raise ScenarioError(
                "trace", f"job {job.name} has no duration", "a baseline needs durations"
            )
        return job.duration_s
    rate = rates_on(table, flavor)(job.job_type, job.gpus)
    if not rate:
        raise ScenarioError(
            "throughputs", f"job {job.name} does not run on {flavor}", "use another cluster"
        )
    return job.steps / rate


def _job(job: TraceJob, seconds: float) -> BaselineJob:
    took_ms = max(1, math.ceil(seconds * SECOND_MS))
    came_ms = round(job.arrives_s * SECOND_MS)
    alone_s = seconds if job.duration_s is None else job.duration_s
    return BaselineJob(
        name=job.name,
        owner=job.owner,
        gpus=job.gpus,
        submitted_ms=came_ms,
        duration_ms=took_ms,
        estimate_ms=took_ms,
        priority=round(job.weight * _WEIGHT_UNITS),
        deadline_ms=None if job.slo is None else came_ms + round(job.slo * alone_s * SECOND_MS),
    )
