"""Shows nodes as sinfo does: nodes of one pool, state and flavor share a row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.cli.slurm.job_rows import node_list
from quorate.cli.slurm.slurm_format import Field

_LONG: Final = {
    "idle": "idle",
    "mix": "mixed",
    "alloc": "allocated",
    "drain": "drained",
    "drng": "draining",
    "down": "down",
}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """Nodes with the same pool, state and flavor."""

    pool: str
    state: str
    flavor: str
    gpus: int
    nodes: tuple[str, ...]


def node_rows(nodes: Iterable[Mapping[str, Any]], *, each: bool) -> list[NodeRow]:
    """Return the rows of ``nodes``, sorted by pool and state; with ``each``, one row per node."""
    found: dict[tuple[str, str, str, int, str], list[str]] = {}
    for node in nodes:
        name, spec, status = node["metadata"]["name"], node["spec"], node["status"]
        state = node_state(status, spec["gpus"])
        key = (status["pool"] or "-", state, spec["flavor"], spec["gpus"], name if each else "")
        found.setdefault(key, []).append(name)
    return [NodeRow(*key[:4], tuple(names)) for key, names in sorted(found.items())]


def node_state(status: Mapping[str, Any], gpus: int) -> str:
    """Return the state of a node as sinfo writes it."""
    free, has_work = status["freeGPUs"], bool(status["leases"])
    if status["status"] == "Failed":
        return "down"
    if status["status"] == "Cordoned":
        return "drng" if has_work else "drain"
    if not has_work:
        return "idle"
    return "mix" if 0 < free < gpus else "alloc"


NODE_FIELDS: Final[dict[str, Field[NodeRow]]] = {
    "P": Field("PARTITION", lambda row: row.pool),
    "R": Field("PARTITION", lambda row: row.pool),
    "a": Field("AVAIL", lambda _: "up"),
    "l": Field("TIMELIMIT", lambda _: "infinite"),
    "D": Field("NODES", lambda row: str(len(row.nodes))),
    "t": Field("STATE", lambda row: row.state),
    "T": Field("STATE", lambda row: _LONG[row.state]),
    "G": Field("GRES", lambda row: f"gpu:{row.flavor}:{row.gpus}"),
    "N": Field("NODELIST", lambda row: node_list(row.nodes)),
}
"""Maps each letter of a sinfo format to its column."""
