"""The fleet as a map: each node, and which lease has which of its GPUs. Pure.

A fleet has thousands of nodes, and a browser draws all of them. So the map consists of columns,
which are shorter than an object for each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.model.events import NodeStatus, Role
from quorate.model.state.free_slots import ordinals
from quorate.views.redaction.redaction import OTHERS
from quorate.views.runs.instant import Moment
from quorate.views.table import Column, right, table

_COLUMNS: Final = (
    Column("NODE"),
    Column("DOMAIN"),
    Column("FLAVOR"),
    Column("STATUS"),
    right("GPUS"),
    right("HELD"),
    Column("BY"),
)
_Columns = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class FleetMap:
    """Nodes, leases, and ranges of GPUs that a lease has on a node, each as columns.

    A range refers to its node and its lease by their positions.
    """

    sequence: int
    nodes: _Columns = field(
        default_factory=lambda: _columns("name", "domain", "flavor", "pool", "gpus", "status")
    )
    leases: _Columns = field(
        default_factory=lambda: _columns("name", "run", "owner", "role", "startMs", "untilMs")
    )
    held: _Columns = field(default_factory=lambda: _columns("node", "first", "gpus", "lease"))

    def tree(self) -> dict[str, Any]:
        """Return the map for programs."""
        return {
            "sequence": self.sequence,
            "nodes": self.nodes,
            "leases": self.leases,
            "held": self.held,
        }

    def lines(self, *, show_wide: bool) -> Iterator[str]:
        """Yield the map for people: one line for each node."""
        held = [0] * len(self.nodes["name"])
        owners: list[dict[str, None]] = [{} for _ in held]
        for node, gpus, lease in zip(
            self.held["node"], self.held["gpus"], self.held["lease"], strict=True
        ):
            held[node] += gpus
            owners[node][self.leases["owner"][lease]] = None
        of_nodes = (self.nodes[each] for each in ("name", "domain", "flavor", "status", "gpus"))
        rows = [
            (*(str(cell) for cell in cells), str(held[at]), ", ".join(owners[at]) or "-")
            for at, cells in enumerate(zip(*of_nodes, strict=True))
        ]
        yield table(_COLUMNS, rows, show_wide=show_wide)


def _columns(*names: str) -> _Columns:
    return {name: [] for name in names}


def _add(columns: _Columns, *cells: Any) -> None:
    """Add a row to ``columns``: one cell to each column."""
    for column, cell in zip(columns.values(), cells, strict=True):
        column.append(cell)


def map_of(moment: Moment, pool: str | None) -> FleetMap:
    """Return the map of one ``pool``, or of all pools; it names only runs that may be shown."""
    found = FleetMap(moment.seq)
    places = _add_nodes(moment, pool, found)
    redaction, view = moment.redaction, moment.view
    for name, lease in view.leases.items():
        fact = lease.fact
        slots = [(places[node], mask) for node, mask in fact.slots if node in places]
        if not slots:
            continue
        is_shown = redaction.shows_run(fact.run)
        row = len(found.leases["name"])
        owner = view.runs[fact.run].spec.owner
        shown = (name, fact.run, owner) if is_shown else (OTHERS, OTHERS, redaction.owner(owner))
        # The caller may see the spares of others, because they show how full the fleet is. The
        # caller may not see whether others borrow or claim nodes.
        role = fact.role if is_shown or fact.role is Role.SPARE else Role.ACTIVE
        _add(found.leases, *shown, role.value, fact.start_ms, lease.hold_ends_ms)
        for node, mask in slots:
            for first, gpus in _stretches(mask):
                _add(found.held, node, first, gpus, row)
    return found


def _add_nodes(moment: Moment, pool: str | None, found: FleetMap) -> dict[str, int]:
    """Add the nodes to ``found``, domain by domain; return the position of each node by name."""
    chosen = [
        record
        for record in moment.view.nodes.values()
        if pool is None or record.island.pool == pool
    ]
    chosen.sort(key=lambda record: (record.island.domain, record.island.flavor, record.spec.name))
    statuses = moment.view.node_status
    for record in chosen:
        spec = record.spec
        status = statuses.get(spec.name, NodeStatus.READY).value
        place = spec.domain_key, spec.flavor, record.island.pool
        _add(found.nodes, spec.name, *place, spec.gpus, status)
    return {name: at for at, name in enumerate(found.nodes["name"])}


def _stretches(mask: int) -> Iterator[tuple[int, int]]:
    """Yield the first GPU and the length of each range of consecutive GPUs in ``mask``."""
    first, length = -1, 0
    for ordinal in ordinals(mask):
        if length and ordinal == first + length:
            length += 1
            continue
        if length:
            yield first, length
        first, length = ordinal, 1
    if length:
        yield first, length
