"""Reads any CSV by a map from fields of jobs to columns, and Quorate's own form of a trace.

Quorate's own form is CSV whose header has the names of the fields, so it needs no map.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Final

from quorate.sim.traces.trace_cells import STEPS_MAX, Line, headed, header_of
from quorate.sim.traces.trace_job import (
    Trace,
    TraceError,
    TraceJob,
    by_arrival,
    must_differ,
    numbered,
)

FIELDS: Final = tuple(each.name for each in fields(TraceJob) if each.name not in ("order", "line"))
"""The fields of a job that a column may have, in the order in which columns are written."""
ARRIVES_AT: Final = "arrives_at"
"""A column with dates and times, instead of ``arrives_s``; the first job then arrives at 0."""
NEEDED: Final = ("gpus",)
FLAVOR_MARK: Final = "|"
_NUMBER_MAX: Final = 1e9

_READ: Final[Mapping[str, Callable[[Line, str], object]]] = {
    "name": Line.text,
    "owner": Line.text,
    "job_type": Line.text,
    "gpus": Line.gpus,
    "arrives_s": Line.number_of,
    "duration_s": lambda line, column: line.number_of(column, least=0.001),
    "steps": lambda line, column: line.number_of(column, least=1e-9, most=STEPS_MAX),
    "weight": lambda line, column: line.number_of(column, least=1e-9, most=_NUMBER_MAX),
    "slo": lambda line, column: line.number_of(column, least=1e-9, most=_NUMBER_MAX),
    "declared_s": lambda line, column: line.number_of(column, least=0.001),
    "flavors": lambda line, column: tuple(line.text(column).split(FLAVOR_MARK)),
}


def column_map(text: str) -> dict[str, str]:
    """Return the map from job fields to columns in a text such as ``gpus=num_gpus,arrives_s=t``."""
    found: dict[str, str] = {}
    for part in text.split(","):
        field, equals, column = part.partition("=")
        if not equals or not column or field not in (*FIELDS, ARRIVES_AT):
            raise TraceError(
                0,
                "",
                f"the map has {part!r}, which is not FIELD=COLUMN",
                f"fields are {', '.join((*FIELDS, ARRIVES_AT))}",
            )
        if field in found:
            raise TraceError(0, "", f"the map has {field} twice", "name it once")
        found[field] = column
    for field in NEEDED:
        if field not in found:
            raise TraceError(0, "", f"the map has no {field}", f"add {field}=COLUMN")
    if ("arrives_s" in found) == (ARRIVES_AT in found):
        raise TraceError(
            0, "", "the map must have exactly one of arrives_s and arrives_at", "name one field"
        )
    if "duration_s" not in found and "steps" not in found:
        raise TraceError(
            0,
            "",
            ("the map has neither duration_s nor steps"),
            "state the duration or the steps of jobs",
        )
    return found


def read_mapped(text: str, columns: Mapping[str, str]) -> Trace:
    """Return the trace in a table with a header; ``columns`` maps fields to its columns.

    An empty cell means that the job does not have the field.
    """
    lines = list(headed(text, ",", tuple(columns.values())))
    if not lines:
        raise TraceError(0, "", "has no jobs", "write a line for each job")
    at = columns.get(ARRIVES_AT)
    instants = [0 if at is None else line.instant_ms(at) for line in lines]
    origin_ms = min(instants)
    jobs = [
        _job(line, columns, order, (instant_ms - origin_ms) / 1_000)
        for order, (line, instant_ms) in enumerate(zip(lines, instants, strict=True))
    ]
    must_differ(jobs, columns.get("name", "name"), "give each job a different name")
    return Trace(jobs=by_arrival(jobs), origin_ms=origin_ms)


def _job(line: Line, columns: Mapping[str, str], order: int, arrives_s: float) -> TraceJob:
    values: dict[str, object] = {"name": numbered(order), "arrives_s": arrives_s}
    for field, column in columns.items():
        if field != ARRIVES_AT and (line.cells[column].strip() or field in NEEDED):
            values[field] = _READ[field](line, column)
    if "duration_s" not in values and "steps" not in values:
        column = columns.get("duration_s") or columns["steps"]
        raise line.fault(column, "is empty", "give the job's duration or its steps")
    return TraceJob(order=order, line=line.number, **values)  # type: ignore[arg-type] # each is read by its field


def read_own(text: str) -> Trace:
    """Return the trace that ``write_own`` wrote; a job lacks the fields of missing columns."""
    header = header_of(text, ",")
    unknown = [name for name in header if name not in FIELDS]
    if unknown:
        raise TraceError(
            1,
            unknown[0],
            "is not a field of a job",
            (f"fields are {', '.join(FIELDS)}; or give a map"),
        )
    for field in ("arrives_s", *NEEDED):
        if field not in header:
            raise TraceError(1, field, "is missing in the header", "add it")
    if not {"duration_s", "steps"} & set(header):
        raise TraceError(1, "duration_s", "is missing in the header", "add it, or steps")
    return read_mapped(text, {name: name for name in header})


def write_own(trace: Trace) -> str:
    """Return ``trace`` in Quorate's own form; ``read_own`` reads the same numbers back."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for job in trace.jobs:
        writer.writerow([_cell(getattr(job, name)) for name in FIELDS])
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return FLAVOR_MARK.join(value)
    return f"{value:.17g}" if isinstance(value, float) else str(value)
