"""Estimates of rates, trials of the estimator, and generated jobs: as lines and as trees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from quorate.policy.files.estimate_table import Estimated
from quorate.policy.files.throughputs_file import write_throughputs
from quorate.sim.job_stream import DrawnJob
from quorate.sim.profile_trial import TrialRow
from quorate.views.table import Column, right, table

NONE: Final = "-"


def estimates_text(found: Estimated) -> str:
    """Return a line for each estimated type, and the number of pairs whose rates were estimated."""
    if not found.matches:
        return _filled(found.filled)
    columns = (Column("TYPE"), Column("LIKE"), right("DISTANCE"), right("MEASURED"))
    rows = [
        (each.type.key, each.like.key, f"{each.distance:.4f}", f"{each.measured}/{each.asked}")
        for each in found.matches
    ]
    return f"{table(columns, rows)}\n\n{_filled(found.filled)}"


def _filled(count: int) -> str:
    if count == 0:
        return "Nothing is missing."
    return f"Estimated the rates of {count} {'pair' if count == 1 else 'pairs'}."


def estimates_tree(found: Estimated) -> dict[str, Any]:
    """Return the estimates for programs, with the whole table of rates that results."""
    return {
        "estimates": [
            {
                "type": each.type.key,
                "like": each.like.key,
                "distance": each.distance,
                "measured": each.measured,
                "asked": each.asked,
            }
            for each in found.matches
        ],
        "filled": found.filled,
        "throughputs": json.loads(write_throughputs(found.table)),
    }


def trial_text(rows: Sequence[TrialRow]) -> str:
    """Return a line for each type of a trial, and how many were matched correctly."""
    columns = (Column("TYPE"), Column("TAKEN FOR"), right("DISTANCE"))
    lines = [
        (
            each.type.key,
            NONE if each.like is None else each.like.key,
            NONE if each.distance is None else f"{each.distance:.4f}",
        )
        for each in rows
    ]
    exact = sum(each.type == each.like for each in rows)
    return f"{table(columns, lines)}\n\n{exact} of {len(rows)} types are matched correctly."


def trial_tree(rows: Sequence[TrialRow]) -> dict[str, Any]:
    """Return a trial for programs."""
    return {
        "match": {each.type.key: None if each.like is None else each.like.key for each in rows},
        "exact": sum(each.type == each.like for each in rows),
    }


def jobs_text(jobs: Sequence[DrawnJob]) -> str:
    """Return a line for each job."""
    columns = (
        right("JOB"),
        right("ARRIVES S"),
        Column("TYPE"),
        right("GPUS"),
        right("STEPS"),
        right("HOURS"),
        right("WEIGHT"),
        right("SLO"),
    )
    rows = [
        (
            str(number),
            f"{job.arrives_s:.1f}",
            job.model,
            str(job.gpus),
            f"{job.steps:.0f}",
            f"{job.duration_s / 3600:.2f}",
            f"{job.weight:g}",
            f"{job.slo:g}",
        )
        for number, job in enumerate(jobs)
    ]
    return table(columns, rows)


def jobs_tree(jobs: Sequence[DrawnJob]) -> list[dict[str, Any]]:
    """Return the jobs for programs, with the published names of their fields."""
    return [
        {
            "id": number,
            "arrival": job.arrives_s,
            "job_type": job.model,
            "scale_factor": job.gpus,
            "total_steps": job.steps,
            "duration": job.duration_s,
            "priority_weight": job.weight,
            "SLO": job.slo,
        }
        for number, job in enumerate(jobs)
    ]
