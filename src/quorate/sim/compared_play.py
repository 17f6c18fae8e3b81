"""Several policies on the same drawn jobs, over several seeds: what is played, one task at a time.

A policy is one of rounds, ``bind`` for the production planner, or a baseline of
``sim/baselines``, which knows one flavor. Tasks are values, so that processes can play them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as replace_fields

from quorate.model.amounts import SECOND_MS
from quorate.model.specs import Discipline
from quorate.policy.table import POLICIES
from quorate.sim.baselines.baseline_orders import BASELINES
from quorate.sim.baselines.baseline_simulation import BaselineJob, simulate_baseline
from quorate.sim.outcome import Outcome
from quorate.sim.policy_shares import COSTS
from quorate.sim.report.compare import SEEDS_MIN
from quorate.sim.scenario import Scenario, ScenarioError
from quorate.sim.scenario_play import cluster_of, staged, table_of, trace_of
from quorate.sim.traces.trace_job import TraceJob

BIND: Final = "bind"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTask:
    """One policy and one seed to play."""

    name: str
    scenario: Scenario


def compared_tasks(
    asked: Scenario, names: Sequence[str], seeds: Sequence[int]
) -> list[ComparedTask]:
    """Return what is to be played, seed by seed; raises ``ScenarioError`` where it cannot be."""
    if asked.generate is None:
        raise ScenarioError(
            "compare",
            "a trace is one sample, whatever the seed",
            "draw jobs anew for each seed, with --generate",
        )
    if "seed=" in asked.generate:
        raise ScenarioError("generate", "has a seed", "leave it out; --seeds gives them")
    if asked.record is not None:
        raise ScenarioError("record", "is one file for many ledgers", "leave it out")
    if len(set(names)) != len(names) or len(names) < 2:  # noqa: PLR2004 - a comparison is of two
        raise ScenarioError("compare", "needs different policies", "name two or more")
    if len(set(seeds)) < SEEDS_MIN:
        raise ScenarioError("seeds", f"are {len(set(seeds))}", f"use {SEEDS_MIN} or more, as 0-4")
    known = {*POLICIES, *BASELINES, BIND}
    for name in names:
        if name not in known:
            raise ScenarioError(
                "compare",
                f"has {name!r}",
                f"name {BIND}, one of {', '.join(BASELINES)}, or of `quorate policy list`",
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
    return replace_fields(asked, policy=name, seed=seed)


def play_task(task: ComparedTask, files: Mapping[str, bytes]) -> Outcome:
    """Return what ``task`` came to; ``files`` are those that its scenario names."""
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
            f"has {task.name!r}, which knows one flavor",
            "use a cluster of one, or leave it out",
        )
    trace = trace_of(asked, read, cluster, table_of(asked, read))
    jobs = [_job(job) for job in trace.jobs]
    (flavor,) = (name for name, gpus in zip(cluster.flavors, cluster.gpus, strict=True) if gpus)
    return simulate_baseline(
        task.name,
        jobs,
        sum(cluster.gpus),
        BASELINES[task.name],
        flavor=flavor,
        price=COSTS.get(flavor, 0.0),
    )


def _job(job: TraceJob) -> BaselineJob:
    if job.duration_s is None:
        raise ScenarioError(
            "trace", f"job {job.name} has no duration", "a baseline needs durations"
        )
    took_ms = max(1, math.ceil(job.duration_s * SECOND_MS))
    return BaselineJob(
        name=job.name,
        owner=job.owner,
        gpus=job.gpus,
        submitted_ms=round(job.arrives_s * SECOND_MS),
        duration_ms=took_ms,
        estimate_ms=took_ms,
    )
