"""Problems of the published policies, in the format in which their answers were recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from quorate.policy.problem import NO_ENTITY, Entity, EntityRule, Floats, Pairs, Problem

CASES: Final = Path(__file__).parents[3] / "shared" / "conformance" / "gavel"


def read(name: str) -> Any:
    """Return a recorded case, or skip if the cases are not beside this repository."""
    path = CASES / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def problem_of(case: Mapping[str, Any]) -> Problem:
    """Return the problem of a case: ``policy_*`` or ``hierarchical_*``."""
    cluster: Mapping[str, int] = case["cluster_spec"]
    flavors, jobs = tuple(cluster), case["jobs"]
    costs = case.get("instance_costs")
    entities, entity_of = _entities(case)
    ids = [str(job["id"]) for job in jobs]
    return Problem(
        flavors=flavors,
        gpus=np.array([cluster[name] for name in flavors], dtype=np.int64),
        jobs=tuple(ids),
        rates=_column(jobs, lambda job: [job["throughputs"][name] for name in flavors]),
        scales=np.array([job["scale_factor"] for job in jobs], dtype=np.int64),
        weights=_column(jobs, lambda job: job["priority_weight"]),
        steps_left=_column(jobs, lambda job: job.get("num_steps_remaining", 1.0)),
        ages_s=_column(jobs, lambda job: job.get("time_since_start", 0.0)),
        isolated_s=np.zeros(len(jobs)),
        deadlines_s=_column(jobs, lambda job: _or_never(job.get("slo_seconds_left"))),
        costs=None if costs is None else np.array([costs[name] for name in flavors]),
        pairs=_pairs(case.get("pair_throughputs", {}), ids, flavors),
        entities=entities,
        entity_of=entity_of,
    )


def _column(jobs: Sequence[Mapping[str, Any]], read_one: Any) -> Floats:
    return np.array([read_one(job) for job in jobs], dtype=np.float64)


def _or_never(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _pairs(rates: Mapping[str, Any], ids: list[str], flavors: tuple[str, ...]) -> Pairs | None:
    if not rates:
        return None
    ends = [[ids.index(name) for name in key.split(",")] for key in rates]
    return Pairs(
        first=np.array([a for a, _ in ends], dtype=np.int64),
        second=np.array([b for _, b in ends], dtype=np.int64),
        rates=np.array([[pair[name] for name in flavors] for pair in rates.values()]),
    )


def _entities(case: Mapping[str, Any]) -> tuple[tuple[Entity, ...], Any]:
    if "entities" not in case:
        return (), None
    rules = case["entity_policies"]
    entities = tuple(
        Entity(name=name, weight=weight, rule=EntityRule(rules[name]))
        for name, weight in case["entity_weights"].items()
    )
    entity_of = np.full(len(case["jobs"]), NO_ENTITY, dtype=np.int64)
    for number, entity in enumerate(entities):
        entity_of[case["entities"][entity.name]] = number
    return entities, entity_of
