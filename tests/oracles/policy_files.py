"""Reads files of policies that the program only writes, and writes those that it only reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from quorate.policy.allocation import ALONE, NO_BOUND, Allocation, Method
from quorate.policy.files.cluster_file import PUBLISHED_ORDER, Cluster
from quorate.policy.files.jobs_file import JobState
from quorate.policy.files.json_bytes import encoded
from quorate.policy.pair_index import PAIR_MARK
from quorate.policy.problem import Ints, Problem


def read_allocation(tree: Mapping[str, Mapping[str, float]], problem: Problem) -> Allocation:
    """Return the shares that ``tree`` gives to the jobs of ``problem``.

    Pairs without time are left out. The tree has no objective, so the objective is NaN.
    """
    rows = {name: row for row, name in enumerate(problem.jobs)}
    shares = {key: [entry[flavor] for flavor in problem.flavors] for key, entry in tree.items()}
    together = [key for key, found in shares.items() if key not in rows and any(found)]
    pairs = sorted((sorted(rows[name] for name in key.split(PAIR_MARK)), key) for key in together)
    return Allocation(
        first=np.array([*range(len(rows)), *(first for (first, _), _ in pairs)], dtype=np.int64),
        second=np.array([ALONE] * len(rows) + [second for (_, second), _ in pairs], dtype=np.int64),
        shares=np.array([shares[key] for key in (*rows, *(key for _, key in pairs))]).reshape(
            -1, len(problem.flavors)
        ),
        objective=math.nan,
        bound=NO_BOUND,
        method=Method.RULE,
    )


def cluster_text(cluster: Cluster) -> str:
    """Return ``cluster`` in the form with names."""
    named = zip(cluster.flavors, cluster.gpus, strict=True)
    return ",".join(f"{name}={gpus}" for name, gpus in named)


def published_text(cluster: Cluster) -> str | None:
    """Return ``cluster`` in the form without names; None if it has other flavors."""
    if cluster.flavors != PUBLISHED_ORDER:
        return None
    return ":".join(map(str, cluster.gpus))


def write_clusters(clusters: Mapping[str, tuple[Cluster, ...]]) -> bytes:
    """Return ``clusters`` as the bytes of a file, without names of flavors if possible."""
    return encoded(
        {
            trace: [published_text(each) or cluster_text(each) for each in several]
            for trace, several in clusters.items()
        }
    )


def job_tree(job: JobState) -> dict[str, Any]:
    """Return ``job`` in the form of a file; unknown fields are left out."""
    tree: dict[str, Any] = {
        "id": job.name,
        "type": job.job_type,
        "scale_factor": job.scale,
        "priority_weight": job.weight,
        "time_since_start": job.age_s,
        "isolated_seconds_done": job.isolated_s,
    }
    if not math.isnan(job.steps_left):
        tree["num_steps_remaining"] = job.steps_left
    if math.isfinite(job.deadline_s):
        tree["slo_seconds_left"] = job.deadline_s
    if job.rates is not None:
        tree["throughputs"] = dict(job.rates)
    return tree


def write_problem(problem: Problem) -> bytes:
    """Return ``problem`` as the bytes of a file."""
    tree: dict[str, Any] = {
        "cluster_spec": dict(zip(problem.flavors, problem.gpus.tolist(), strict=True)),
        "jobs": [_job_tree(problem, row) for row in range(len(problem.jobs))],
    }
    if problem.costs is not None:
        tree["instance_costs"] = dict(zip(problem.flavors, problem.costs.tolist(), strict=True))
    if problem.pairs is not None:
        tree["pair_throughputs"] = {
            f"{problem.jobs[first]}{PAIR_MARK}{problem.jobs[second]}": dict(
                zip(problem.flavors, rates.tolist(), strict=True)
            )
            for first, second, rates in zip(
                problem.pairs.first, problem.pairs.second, problem.pairs.rates, strict=True
            )
        }
    if problem.entity_of is not None:
        tree |= _entity_trees(problem, problem.entity_of)
    return encoded(tree)


def _job_tree(problem: Problem, row: int) -> dict[str, Any]:
    return job_tree(
        JobState(
            name=problem.jobs[row],
            scale=int(problem.scales[row]),
            weight=float(problem.weights[row]),
            steps_left=float(problem.steps_left[row]),
            age_s=float(problem.ages_s[row]),
            isolated_s=float(problem.isolated_s[row]),
            deadline_s=float(problem.deadlines_s[row]),
            rates=dict(zip(problem.flavors, problem.rates[row].tolist(), strict=True)),
        )
    )


def _entity_trees(problem: Problem, entity_of: Ints) -> dict[str, Any]:
    entities = problem.entities
    return {
        "entities": {
            each.name: [problem.jobs[row] for row in np.flatnonzero(entity_of == number)]
            for number, each in enumerate(entities)
        },
        "entity_weights": {each.name: each.weight for each in entities},
        "entity_policies": {each.name: each.rule.value for each in entities},
    }
