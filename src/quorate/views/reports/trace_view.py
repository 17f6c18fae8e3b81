"""A summary of a trace for people and programs: jobs, owners, widths and work. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from quorate.sim.traces.trace_job import Trace
from quorate.views.table import Column, right, table

_HOUR_S: Final = 3_600.0
_WHOLE_HOURS: Final = 100
"""From this amount on, hours are written without decimals."""


def trace_tree(found: Trace) -> dict[str, Any]:
    """Return the summary of ``found``, for programs."""
    jobs = found.jobs
    known = [job for job in jobs if job.duration_s is not None]
    return {
        "jobs": len(jobs),
        "owners": len(found.owners),
        "span_s": jobs[-1].arrives_s - jobs[0].arrives_s if jobs else 0.0,
        "gpus_max": found.gpus_max,
        "jobs_with_duration": len(known),
        "jobs_with_steps": sum(job.steps is not None for job in jobs),
        "gpu_hours": sum(job.gpus * (job.duration_s or 0.0) for job in known) / _HOUR_S,
        "by_gpus": {str(n): c for n, c in sorted(Counter(job.gpus for job in jobs).items())},
        "by_owner": dict(sorted(Counter(job.owner for job in jobs).items())),
        "skipped": [
            {"reason": each.reason, "count": each.count, "first_line": each.first_line}
            for each in found.skipped
        ],
    }


def _hours(value: float) -> str:
    """Return hours in whole numbers, and small amounts with two decimals."""
    return f"{value:,.0f}" if value >= _WHOLE_HOURS else f"{value:.2f}"


def trace_lines(found: Trace) -> list[str]:
    """Return the summary of ``found``, for people."""
    tree = trace_tree(found)
    lines = [
        f"Jobs:           {tree['jobs']:,}",
        f"Owners:         {tree['owners']:,}",
        f"Arrivals over:  {tree['span_s'] / _HOUR_S:,.1f} h",
        f"With duration:  {tree['jobs_with_duration']:,} ({_hours(tree['gpu_hours'])} GPU-hours)",
        f"With steps:     {tree['jobs_with_steps']:,}",
        "",
    ]
    rows = [(gpus, f"{count:,}") for gpus, count in tree["by_gpus"].items()]
    lines += table((right("GPUS"), right("JOBS")), rows).splitlines()
    if found.skipped:
        left = [(each.reason, f"{each.count:,}", str(each.first_line)) for each in found.skipped]
        columns = (Column("NOT PLAYED BECAUSE IT"), right("LINES"), right("FIRST"))
        lines += ["", *table(columns, left).splitlines()]
    return lines
