"""Makes a problem from a table of rates, jobs and a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from quorate.model.job_types import ALONE_KEY, JobType
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.file_faults import At, Fault, Faulty
from quorate.policy.files.jobs_file import JobState, problem_of
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.policy.problem import Floats, Ints, Pairs, Problem

OWN: Final = -1
"""The row number of a job that has its own rates, and so needs no row of the table."""


def problem_from_table(
    table: ThroughputTable, jobs: Sequence[JobState], cluster: Cluster, *, with_pairs: bool = True
) -> Problem | Faulty:
    """Return the problem of sharing ``cluster`` among ``jobs``, or all faults.

    If a job has its own rates, these are used instead of the rates of its type. Two jobs are a pair
    if the table has the pair of their types, and if both make progress together on some flavor. A
    job with its own rates is in no pair.
    """
    at = At()
    columns = _columns(table, cluster, at.below("cluster"))
    if at.faults:
        return Faulty(faults=tuple(at.faults))
    types = _types(table, jobs, at.below("jobs"))
    rates = _rates(table, jobs, types, columns, at)
    pairs = _pairs(table, types, columns, at) if with_pairs and not at.faults else None
    if at.faults:
        return Faulty(faults=tuple(dict.fromkeys(at.faults)))
    return replace(problem_of(cluster, jobs, rates), pairs=pairs)


def problem_from_jobs(jobs: Sequence[JobState], cluster: Cluster) -> Problem | Faulty:
    """Return the problem of sharing ``cluster`` among ``jobs``, which have their own rates."""
    at = At()
    rates = rates_of_jobs(jobs, cluster, at.below("jobs"))
    if at.faults:
        return Faulty(faults=tuple(at.faults))
    return problem_of(cluster, jobs, rates)


def rates_of_jobs(jobs: Sequence[JobState], cluster: Cluster, at: At) -> Floats:
    """Return the rates that each of ``jobs`` states; a job that states no rates is a fault."""
    found = np.zeros((len(jobs), len(cluster.flavors)))
    for number, job in enumerate(jobs):
        below = at.below(number)
        if job.rates is None:
            below.below("throughputs").fault("is missing", "add the rate on each flavor")
        else:
            found[number] = own_rates(job, cluster.flavors, below)
    return found


def _columns(table: ThroughputTable, cluster: Cluster, at: At) -> list[int]:
    """Return the column of the table for each flavor of the cluster."""
    found = []
    for flavor in cluster.flavors:
        if flavor in table.flavors:
            found.append(table.flavors.index(flavor))
        else:
            at.below(flavor).fault(
                "is not a flavor of the table", f"it has {', '.join(table.flavors)}"
            )
    return found


def _types(table: ThroughputTable, jobs: Sequence[JobState], at: At) -> Ints:
    """Return the row of the table for each job's type."""
    rows = {each: row for row, each in enumerate(table.types)}
    found = np.full(len(jobs), OWN, dtype=np.int64)
    for number, job in enumerate(jobs):
        if job.rates is not None:
            continue
        below = at.below(number)
        if job.job_type is None:
            below.fault(f"job {job.name} has no type and no throughputs", "add one of the two")
            continue
        wanted = JobType(job.job_type, job.scale)
        if wanted in rows:
            found[number] = rows[wanted]
        else:
            below.fault(
                f"job {job.name} is of type {wanted.key}, which the table does not have",
                _near(table, job),
            )
    return found


def _near(table: ThroughputTable, job: JobState) -> str:
    scales = sorted(each.scale for each in table.types if each.model == job.job_type)
    if scales:
        return f"the table has this model with scale {', '.join(map(str, scales))}"
    return "add it to the table, or give the job throughputs"


def _rates(
    table: ThroughputTable, jobs: Sequence[JobState], types: Ints, columns: list[int], at: At
) -> Floats:
    """Return each job's rate alone on each flavor of the cluster; a missing rate is a fault."""
    found = np.zeros((len(jobs), len(columns)))
    typed = types != OWN
    found[typed] = table.together.alone[types[typed]][:, columns]
    for number, column in np.argwhere(np.isnan(found)):
        place = At().below(table.flavors[columns[column]]).below(table.types[types[number]].key)
        at.faults.append(
            Fault(
                place=place.below(ALONE_KEY).place,
                message="is missing in the table",
                remedy="add its rate, 0 where it cannot run, or estimate it",
            )
        )
    flavors = [table.flavors[column] for column in columns]
    for number, job in enumerate(jobs):
        if job.rates is not None:
            found[number] = own_rates(job, flavors, at.below("jobs").below(number))
    return found


def own_rates(job: JobState, flavors: Sequence[str], at: At) -> list[float]:
    """Return the rates of ``job``, one for each of ``flavors``."""
    rates = job.rates or {}
    below = at.below("throughputs")
    for flavor in rates:
        if flavor not in flavors:
            below.below(flavor).fault(
                "is not a flavor of the cluster", "remove it, or add it to the cluster with 0 GPUs"
            )
    for flavor in flavors:
        if flavor not in rates:
            below.below(flavor).fault("is missing", "add the rate, 0 where the job cannot run")
    return [rates.get(flavor, 0.0) for flavor in flavors]


def _pairs(table: ThroughputTable, types: Ints, columns: list[int], at: At) -> Pairs | None:
    """Return all pairs of jobs that can share GPUs of some flavor, ordered by the jobs' rows."""
    rates = table.together.paired[:, columns]
    known = np.flatnonzero(~np.isnan(rates[:, :, 0]).all(axis=1))
    place = np.full((len(table.types) + 1, len(table.types) + 1), OWN, dtype=np.int64)
    place[table.pair_first[known], table.pair_second[known]] = known
    place[table.pair_second[known], table.pair_first[known]] = known
    first, second = np.triu_indices(len(types), 1)
    # For a job with its own rates, ``OWN`` selects the last row and column of ``place``, which have
    # no pairs.
    row = place[types[first], types[second]]
    listed = row != OWN
    _complete(table, np.unique(row[listed]), columns, at)
    kept = np.flatnonzero(listed)
    kept = kept[np.all(rates[row[kept]] > 0, axis=2).any(axis=1)]
    if not len(kept):
        return None
    first, second, row = first[kept], second[kept], row[kept]
    turned = types[first] > types[second]
    found = rates[row]
    found[turned] = found[turned][:, :, ::-1]
    return Pairs(first=first, second=second, rates=found)


def _complete(table: ThroughputTable, used: Ints, columns: list[int], at: At) -> None:
    """Add a fault for each missing rate of a used pair."""
    gaps = np.isnan(table.together.paired[used][:, columns, 0])
    for number, column in np.argwhere(gaps):
        pair = used[number]
        place = At().below(table.flavors[columns[column]])
        place = place.below(table.types[table.pair_first[pair]].key)
        at.faults.append(
            Fault(
                place=place.below(table.types[table.pair_second[pair]].key).place,
                message="is missing in the table",
                remedy="add the rates of the two, [0, 0] where they cannot share",
            )
        )
