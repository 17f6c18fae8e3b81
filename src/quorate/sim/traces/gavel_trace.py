"""Reads and writes Gavel's traces: tab-separated, no header, ten columns (or seven, if old).

Arrivals are in seconds from the beginning and never decrease. The name of a job is its place in the
trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.sim.traces.trace_cells import STEPS_MAX, Line, separated
from quorate.sim.traces.trace_job import Trace, TraceError, TraceJob

COLUMNS: Final = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "SLO",
    "arrival_time",
)
OLD_COLUMNS: Final = (
    "job_type",
    "command",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "arrival_time",
    "scale_factor",
)
NO_SLO: Final = -1.0
_WEIGHT_MAX: Final = 1e9
_MARK: Final = "\t"


def read_gavel(text: str) -> Trace:
    """Return the trace in ``text``; the number of columns in the first line decides the form."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    width = first.count(_MARK) + 1
    columns: Sequence[str] = OLD_COLUMNS if width == len(OLD_COLUMNS) else COLUMNS
    jobs: list[TraceJob] = []
    for line in separated(text, _MARK, columns):
        job = _job(line, len(jobs))
        if jobs and job.arrives_s < jobs[-1].arrives_s:
            raise line.fault(
                "arrival_time",
                f"is {job.arrives_s:g}, earlier than {jobs[-1].arrives_s:g} in the line before",
                "sort the lines by arrival",
            )
        jobs.append(job)
    if not jobs:
        raise TraceError(0, "", "has no jobs", "write a line for each job")
    return Trace(jobs=tuple(jobs))


def _job(line: Line, order: int) -> TraceJob:
    weight, slo = 1.0, NO_SLO
    if "priority_weight" in line.cells:
        weight = line.number_of("priority_weight", least=1e-9, most=_WEIGHT_MAX)
        slo = line.number_of("SLO", least=NO_SLO, most=_WEIGHT_MAX)
        if slo < 0.0 and slo != NO_SLO:
            raise line.fault("SLO", f"is {slo:g}", "write -1 where there is no SLO")
    return TraceJob(
        name=str(order),
        arrives_s=line.number_of("arrival_time"),
        gpus=line.gpus("scale_factor"),
        steps=line.number_of("total_steps", least=1, most=STEPS_MAX),
        job_type=line.text("job_type"),
        weight=weight,
        slo=None if slo == NO_SLO else slo,
        order=order,
        line=line.number,
    )


def gavel_line(job: TraceJob) -> str:
    """Return ``job`` as a line of ten columns. The column of the command is a dash."""
    if job.job_type is None or job.steps is None:
        raise TraceError(
            0,
            "job_type",
            f"of job {job.name} is not known, and this form needs the steps of a type",
            "convert to the format quorate, which has durations",
        )
    slo = NO_SLO if job.slo is None else job.slo
    cells = (job.job_type, "-", "-", "-", "0", f"{job.steps:.17g}", str(job.gpus))
    return _MARK.join((*cells, f"{job.weight:.17g}", f"{slo:.17g}", f"{job.arrives_s:.17g}"))
