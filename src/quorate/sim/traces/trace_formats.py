"""The table of the forms of traces, by name, for the command line and scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from quorate.sim.traces.cluster_traces import (
    PHILLY,
    PODS,
    SACCT,
    read_openb_pods,
    read_philly,
    read_sacct,
)
from quorate.sim.traces.gavel_trace import COLUMNS, OLD_COLUMNS, gavel_line, read_gavel
from quorate.sim.traces.mapped_trace import FIELDS, NEEDED, read_own, write_own
from quorate.sim.traces.trace_job import Trace, TraceError

READERS: Final[Mapping[str, Callable[[str], Trace]]] = MappingProxyType(
    {
        "gavel": read_gavel,
        "philly": read_philly,
        "openb": read_openb_pods,
        "sacct": read_sacct,
        "quorate": read_own,
    }
)
"""The reader of each form, except two forms: ``csv`` needs a map of its columns (``read_mapped``),
and ``ledger`` is read from events (``ledger_trace``)."""
WRITERS: Final[Mapping[str, Callable[[Trace], str]]] = MappingProxyType(
    {
        "quorate": write_own,
        "gavel": lambda trace: "".join(f"{gavel_line(job)}\n" for job in trace.jobs),
    }
)


_HEADERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        "philly": (",", PHILLY),
        "openb": (",", PODS),
        "sacct": ("|", SACCT),
        "quorate": (",", ("arrives_s", *NEEDED)),
    }
)
"""The separator and the required columns of each form with a header."""
_LIKE: Final = 0.5
"""A header is compared with a form if it has at least this part of the form's columns."""


def form_of(text: str) -> str:
    """Return the form of the first line of ``text``; raise ``TraceError`` if it is unknown."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.count("\t") + 1 in (len(COLUMNS), len(OLD_COLUMNS)):
        return "gavel"
    if set(SACCT) <= {cell.strip() for cell in first.split("|")}:
        return "sacct"
    header = {cell.strip() for cell in first.split(",")}
    for form, needed in (("philly", PHILLY), ("openb", PODS)):
        if set(needed) <= header:
            return form
    if "gpus" in header and header <= set(FIELDS):
        return "quorate"
    raise _no_form(first)


def _no_form(first: str) -> TraceError:
    """Return the error for a first line of no known form; the error names the most similar form."""
    forms = ", ".join(READERS)
    if not first:
        return TraceError(0, "", "is empty", "choose another file")
    if "\t" in first:
        columns = first.count("\t") + 1
        what = (
            f"has {columns} columns, where Gavel's jobs have {len(COLUMNS)} or {len(OLD_COLUMNS)}"
        )
        return TraceError(1, "", what, f"the columns are {', '.join(COLUMNS)}")
    nearest = max(_HEADERS, key=lambda form: _likeness(first, form))
    if _likeness(first, nearest) < _LIKE:
        what = "is not the first line of a known format"
        return TraceError(1, "", what, f"name the format ({forms}), or map its columns")
    mark, needed = _HEADERS[nearest]
    header = [cell.strip() for cell in first.split(mark)]
    missing = [name for name in needed if name not in header]
    others = [name for name in header if name not in (FIELDS if nearest == "quorate" else needed)]
    if missing:
        what = f"is missing in the header, which is most like the header of {nearest}"
        remedy = f"rename or add it: other columns are {', '.join(others)}" if others else "add it"
        return TraceError(1, missing[0], what, f"{remedy}; or map the columns with --map")
    what = f"is not a column of {nearest}, the format with the most similar header"
    return TraceError(
        1,
        others[0],
        what,
        f"remove or rename it: the columns are {', '.join(FIELDS)}; or map them with --map",
    )


def _likeness(first: str, form: str) -> float:
    """Return the part of the required columns of ``form`` that the header ``first`` has."""
    mark, needed = _HEADERS[form]
    header = {cell.strip() for cell in first.split(mark)}
    return len(header & set(needed)) / len(needed)


def read_trace(text: str, form: str | None = None) -> Trace:
    """Return the trace in ``text``, in ``form`` or, if None, in the form of its first line."""
    return READERS[form_of(text) if form is None else form](text)
