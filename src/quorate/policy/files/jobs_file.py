"""The file format of the states of jobs; makes a problem from a cluster and jobs.

Fields have the names that Gavel's simulator uses. Some fields have two names: one of a job's state
(``job_id``, ``job_type``, ``total_steps``, ``SLO``) and one of recorded problems (``id``, ``type``,
``num_steps_remaining``, ``slo_seconds_left``). A file may use either name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from quorate.model.amounts import GPUS_MAX
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.file_faults import (
    At,
    Faulty,
    above_0,
    entries_of,
    items_of,
    known_fields,
    number_of,
    quantity_of,
    shown,
    text_of,
    whole_of,
)
from quorate.policy.files.json_bytes import decoded
from quorate.policy.pair_index import PAIR_MARK
from quorate.policy.problem import Floats, Problem

FIELDS: Final = frozenset(
    {
        "SLO",
        "id",
        "isolated_seconds_done",
        "job_id",
        "job_type",
        "num_steps_remaining",
        "priority_weight",
        "scale_factor",
        "slo_seconds_left",
        "throughputs",
        "time_since_start",
        "total_steps",
        "type",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """One job: its type, its progress, and its terms.

    ``steps_left`` is NaN if it is not known. ``deadline_s`` is the time from now to the deadline;
    it is infinite without a deadline. ``rates`` has the job's own rates by flavor; it is None if
    the job uses the rates of its type in the table.
    """

    name: str
    job_type: str | None = None
    scale: int = 1
    weight: float = 1.0
    steps_left: float = math.nan
    age_s: float = 0.0
    isolated_s: float = 0.0
    deadline_s: float = math.inf
    rates: Mapping[str, float] | None = None


def read_jobs(data: bytes) -> tuple[JobState, ...] | Faulty:
    """Return the jobs of a file, or all faults of the file.

    A file is a list of jobs, an object from ids to jobs, or an object whose only field is ``jobs``.
    """
    at = At()
    tree = decoded(data, at)
    if isinstance(tree, dict) and isinstance(tree.get("jobs"), list):
        known_fields(tree, frozenset({"jobs"}), at)
        found = jobs_of(tree["jobs"], at.below("jobs"))
    elif isinstance(tree, dict):
        found = _judged([({"id": name}, entry, at.below(name)) for name, entry in tree.items()])
    else:
        found = jobs_of(tree, at)
    return Faulty(faults=tuple(at.faults)) if at.faults else found


def jobs_of(value: object, at: At) -> tuple[JobState, ...]:
    """Return the jobs that ``value`` lists, in order; a faulty entry becomes a job as well."""
    items = items_of(value, at) or []
    return _judged([({}, entry, at.below(number)) for number, entry in enumerate(items)])


def _judged(entries: list[tuple[dict[str, Any], Any, At]]) -> tuple[JobState, ...]:
    """Return the job of each entry (fields, value, place); check each field."""
    found: list[JobState] = []
    names: set[str] = set()
    for more, entry, at in entries:
        fields = entries_of(entry, at)
        job = _job((fields or {}) | more, at) if fields is not None else JobState(name="")
        if job.name and job.name in names:
            at.fault(f"is another job called {job.name}", "give each job its own id")
        names.add(job.name)
        found.append(job)
    return tuple(found)


def _job(fields: dict[str, Any], at: At) -> JobState:
    known_fields(fields, FIELDS, at)
    name = _name(*_either(fields, at, "id", "job_id"))
    job_type, below = _either(fields, at, "type", "job_type")
    total, steps_at = _steps(fields, at)
    deadline, deadline_at = _either(fields, at, "slo_seconds_left", "SLO")
    return JobState(
        name=name,
        job_type=None if job_type is None else text_of(job_type, below),
        scale=_scale(fields.get("scale_factor", 1), at.below("scale_factor")),
        weight=above_0(fields.get("priority_weight", 1.0), at.below("priority_weight")),
        steps_left=math.nan if total is None else quantity_of(total, steps_at),
        age_s=number_of(fields.get("time_since_start", 0.0), at.below("time_since_start")) or 0.0,
        isolated_s=_isolated(fields, at),
        deadline_s=math.inf if deadline is None else above_0(deadline, deadline_at),
        rates=_rates(fields.get("throughputs"), at.below("throughputs")),
    )


def _either(fields: dict[str, Any], at: At, name: str, synonym: str) -> tuple[Any, At]:
    """Return the value and the place of a field that has two names."""
    if name in fields and synonym in fields:
        at.below(synonym).fault(f"means the same as {name}", "remove one of the two")
    used = synonym if synonym in fields else name
    return fields.get(used), at.below(used)


def _steps(fields: dict[str, Any], at: At) -> tuple[Any, At]:
    """Return value and place of the remaining steps or, if these are not given, the total steps."""
    used = "num_steps_remaining" if "num_steps_remaining" in fields else "total_steps"
    return fields.get(used), at.below(used)


def _scale(value: object, at: At) -> int:
    return whole_of(value, at, least=1, most=GPUS_MAX) or 1


def _isolated(fields: dict[str, Any], at: At) -> float:
    used = "isolated_seconds_done"
    return number_of(fields.get(used, 0.0), at.below(used)) or 0.0


def _name(value: object, at: At) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip() and PAIR_MARK not in value:
        return value
    at.fault(f"must be a number, or a text without commas, got {shown(value)}", "name the job")
    return ""


def _rates(value: object, at: At) -> dict[str, float] | None:
    if value is None:
        return None
    found = entries_of(value, at) or {}
    return {flavor: quantity_of(rate, at.below(flavor)) for flavor, rate in found.items()}


def problem_of(cluster: Cluster, jobs: Sequence[JobState], rates: Floats) -> Problem:
    """Return the problem of sharing ``cluster`` among ``jobs`` with these ``rates``."""
    return Problem(
        flavors=cluster.flavors,
        gpus=np.array(cluster.gpus, dtype=np.int64),
        jobs=tuple(job.name for job in jobs),
        rates=rates,
        scales=np.array([job.scale for job in jobs], dtype=np.int64),
        weights=np.array([job.weight for job in jobs], dtype=np.float64),
        steps_left=np.array([job.steps_left for job in jobs], dtype=np.float64),
        ages_s=np.array([job.age_s for job in jobs], dtype=np.float64),
        isolated_s=np.array([job.isolated_s for job in jobs], dtype=np.float64),
        deadlines_s=np.array([job.deadline_s for job in jobs], dtype=np.float64),
    )
