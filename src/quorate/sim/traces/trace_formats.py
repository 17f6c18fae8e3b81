"""The forms of traces by name: one table, from which the command line and scenarios choose."""

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
from quorate.sim.traces.mapped_trace import FIELDS, read_own, write_own
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
"""The reader of each form. ``csv`` needs a map of its columns (``read_mapped``), ``ledger``
events."""
WRITERS: Final[Mapping[str, Callable[[Trace], str]]] = MappingProxyType(
    {
        "quorate": write_own,
        "gavel": lambda trace: "".join(f"{gavel_line(job)}\n" for job in trace.jobs),
    }
)


def form_of(text: str) -> str:
    """Return the form in ``READERS`` that the first line of ``text`` has; raise ``TraceError``."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.count("\t") + 1 in (len(COLUMNS), len(OLD_COLUMNS)):
        return "gavel"
    if set(SACCT) <= set(first.split("|")):
        return "sacct"
    header = {cell.strip() for cell in first.split(",")}
    for form, needed in (("philly", PHILLY), ("openb", PODS)):
        if set(needed) <= header:
            return form
    if "gpus" in header and header <= set(FIELDS):
        return "quorate"
    raise TraceError(
        1,
        "",
        "is not the first line of a known format",
        f"name the format ({', '.join(READERS)}), or map the columns",
    )


def read_trace(text: str, form: str | None = None) -> Trace:
    """Return the trace in ``text``, of ``form`` or of the form of its first line."""
    return READERS[form_of(text) if form is None else form](text)
