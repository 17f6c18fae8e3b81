"""Problems as one file: cluster, jobs with their rates, pairs, costs and entities.

Recorded problems of Gavel's policies have this format. Other fields of such a file (``case``,
``results`` and so on) do not belong to the problem, and are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from quorate.model.amounts import GPUS_MAX
from quorate.policy.files.cluster_file import Cluster, cluster_of
from quorate.policy.files.file_faults import (
    At,
    Faulty,
    above_0,
    are_two_rates,
    entries_of,
    items_of,
    known_fields,
    quantity_of,
    shown,
    whole_of,
)
from quorate.policy.files.jobs_file import jobs_of, problem_of
from quorate.policy.files.json_bytes import decoded
from quorate.policy.files.table_problem import rates_of_jobs
from quorate.policy.pair_index import pair_of
from quorate.policy.problem import NO_ENTITY, Entity, EntityRule, Floats, Ints, Pairs, Problem

ASKED: Final = frozenset(
    {
        "cluster_spec",
        "entities",
        "entity_policies",
        "entity_weights",
        "instance_costs",
        "jobs",
        "pair_throughputs",
    }
)
RECORDED: Final = frozenset({"allocation", "case", "metrics", "results", "worker_type_order"})


def read_problem(data: bytes) -> Problem | Faulty:
    """Return the problem in a file, or all faults of the file."""
    at = At()
    fields = entries_of(decoded(data, at), at)
    if fields is None:
        return Faulty(faults=tuple(at.faults))
    known_fields(fields, ASKED | RECORDED, at)
    for name in ("cluster_spec", "jobs"):
        if name not in fields:
            at.below(name).fault("is missing", "add it")
    cluster = _cluster(fields.get("cluster_spec", {}), at.below("cluster_spec"))
    jobs = jobs_of(fields.get("jobs", []), at.below("jobs"))
    rates = rates_of_jobs(jobs, cluster, at.below("jobs"))
    found = problem_of(cluster, jobs, rates)
    found = replace(
        found,
        costs=_costs(fields.get("instance_costs"), cluster, at.below("instance_costs")),
        pairs=_pairs(fields.get("pair_throughputs"), found, at.below("pair_throughputs")),
    )
    entities, entity_of = _entities(fields, found, at)
    if at.faults:
        return Faulty(faults=tuple(at.faults))
    return replace(found, entities=entities, entity_of=entity_of)


def _cluster(value: object, at: At) -> Cluster:
    if isinstance(value, str):
        return cluster_of(value, at) or Cluster(flavors=(), gpus=())
    counts = entries_of(value, at) or {}
    gpus = tuple(
        whole_of(count, at.below(name), most=GPUS_MAX) or 0 for name, count in counts.items()
    )
    return Cluster(flavors=tuple(counts), gpus=gpus)


def _costs(value: object, cluster: Cluster, at: At) -> Floats | None:
    if value is None:
        return None
    costs = entries_of(value, at) or {}
    known_fields(costs, frozenset(cluster.flavors), at)
    found = np.ones(len(cluster.flavors))
    for column, name in enumerate(cluster.flavors):
        if name in costs:
            found[column] = above_0(costs[name], at.below(name))
        else:
            at.below(name).fault("is missing", "add the cost of an hour of one GPU")
    return found


def _pairs(value: object, problem: Problem, at: At) -> Pairs | None:
    """Return the pairs that ``value`` lists, in the order of their jobs' rows."""
    rows = {name: row for row, name in enumerate(problem.jobs)}
    found: dict[tuple[int, int], list[list[float]]] = {}
    for key, entry in (entries_of({} if value is None else value, at) or {}).items():
        below = at.below(key)
        pair = pair_of(key, rows, below)
        rates = entries_of(entry, below)
        if pair is None or rates is None:
            continue
        if problem.scales[pair[0]] != problem.scales[pair[1]]:
            below.fault(
                "has jobs of different scales", "remove it; only jobs of the same scale share GPUs"
            )
        order = tuple(sorted(pair))
        if order in found:
            below.fault("is given twice", "remove one of the two")
        both = _pair_rates(rates, problem.flavors, below)
        found[order[0], order[1]] = [each[::-1] for each in both] if pair != order else both
    if not found:
        return None
    ordered = sorted(found)
    return Pairs(
        first=np.array([first for first, _ in ordered], dtype=np.int64),
        second=np.array([second for _, second in ordered], dtype=np.int64),
        rates=np.array([found[pair] for pair in ordered]).reshape(len(ordered), -1, 2),
    )


def _pair_rates(rates: dict[str, Any], flavors: tuple[str, ...], at: At) -> list[list[float]]:
    given = [rates.get(flavor) for flavor in flavors]
    if len(rates) == len(flavors) and all(map(are_two_rates, given)):
        return [both for both in given if both is not None]
    known_fields(rates, frozenset(flavors), at)
    found = []
    for flavor in flavors:
        below = at.below(flavor)
        both = rates.get(flavor)
        if flavor not in rates:
            below.fault("is missing", "add the rates of the two, [0, 0] where they cannot share")
        elif not isinstance(both, list) or len(both) != 2:  # noqa: PLR2004 - the two of a pair
            what = f"must be the rates of the two jobs, got {shown(both)}"
            below.fault(what, "write two numbers")
        else:
            found.append([quantity_of(each, below.below(k)) for k, each in enumerate(both)])
            continue
        found.append([0.0, 0.0])
    return found


def _entities(
    fields: dict[str, Any], problem: Problem, at: At
) -> tuple[tuple[Entity, ...], Ints | None]:
    """Return the entities, and the index of each job's entity.

    If there are entities, a job without an entity is a fault.
    """
    members = entries_of(fields.get("entities", {}), at.below("entities")) or {}
    weights = entries_of(fields.get("entity_weights", {}), at.below("entity_weights")) or {}
    rules = entries_of(fields.get("entity_policies", {}), at.below("entity_policies")) or {}
    known_fields(weights, frozenset(members), at.below("entity_weights"))
    known_fields(rules, frozenset(members), at.below("entity_policies"))
    if not members:
        return (), None
    rows = {name: row for row, name in enumerate(problem.jobs)}
    entity_of = np.full(len(problem.jobs), NO_ENTITY, dtype=np.int64)
    for number, (name, jobs) in enumerate(members.items()):
        below = at.below("entities").below(name)
        for k, job in enumerate(items_of(jobs, below) or ()):
            row = rows.get(str(job))
            if row is None:
                below.below(k).fault(
                    f"names {shown(job)}, which is not a job", "name a job by its id"
                )
            elif entity_of[row] != NO_ENTITY:
                below.below(k).fault(
                    f"names job {job}, which already has an entity", "name each job once"
                )
            else:
                entity_of[row] = number
    for lone in np.flatnonzero(entity_of == NO_ENTITY):
        at.below("entities").fault(f"leaves job {problem.jobs[lone]} out", "add it to an entity")
    return tuple(_entity(name, weights, rules, at) for name in members), entity_of


def _entity(name: str, weights: dict[str, Any], rules: dict[str, Any], at: At) -> Entity:
    weight = above_0(weights.get(name, 1.0), at.below("entity_weights").below(name))
    rule = rules.get(name, EntityRule.FAIRNESS)
    if rule not in list(EntityRule):
        at.below("entity_policies").below(name).fault(
            f"must be {' or '.join(EntityRule)}, got {shown(rule)}", "choose one of them"
        )
        rule = EntityRule.FAIRNESS
    return Entity(name=name, weight=weight, rule=EntityRule(rule))
