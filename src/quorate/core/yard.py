"""What a domain offers one request: its lots.

A lot is a set of nodes in one domain that are alike for this request. Usually a domain is one lot.
Where money or the run asks for racks, each rack is a lot; where nodes are given whole, each node
size is one, and only untouched nodes count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from quorate.core.layout import PackRequest
from quorate.core.purse import Place
from quorate.model.island import Island, IslandKey
from quorate.model.selector import RACK, contradicts, matches, names_label
from quorate.model.state import StateView

ALL_NODES = -1
"""The bit set of every node of an island."""


@dataclass(frozen=True, slots=True)
class Lot:
    """``nodes`` (bits of positions) of a domain with ``gpus_free``, given in multiples of ``unit``."""

    place: Place
    nodes: int
    gpus_free: int
    unit: int


@dataclass(frozen=True, slots=True)
class Yard:
    """A domain as a request sees it."""

    domain: str
    island: Island
    lots: tuple[Lot, ...]
    gpus_free: int


@dataclass(slots=True)
class Yards:
    """The domains a request may use, most free first, made as they are asked for.

    ``by_rack`` says that racks matter to whoever pays.
    """

    view: StateView
    request: PackRequest
    by_rack: bool = False
    order: Sequence[tuple[int, str]] = field(init=False)
    made: dict[str, Yard | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order = self.view.domain_order(self.request.pool, self.request.flavor)
        self.by_rack = self.by_rack or names_label(self.request.selector, RACK)
        if self.by_rack or self.request.whole_nodes:
            # A lot may offer less than its domain has free, so the order is by what is offered.
            yards = [yard for _, domain in self.order if (yard := self.at(domain)) is not None]
            self.order = sorted((-yard.gpus_free, yard.domain) for yard in yards)

    def __iter__(self) -> Iterator[Yard]:
        for _, domain in self.order:
            yard = self.at(domain)
            if yard is not None:
                yield yard

    def at(self, domain: str) -> Yard | None:
        """Return the yard of ``domain``, or None where the request's selector excludes it."""
        if domain in self.made:
            return self.made[domain]
        request = self.request
        island = self.view.island(IslandKey(request.pool, request.flavor, domain))
        labels = island.nodes[0].location
        labels.pop(RACK, None)
        yard: Yard | None = None
        if not contradicts(request.selector, labels):
            if self.by_rack or request.whole_nodes:
                lots = _split(island, request, by_rack=self.by_rack)
            else:
                lots = (Lot(Place(domain, labels), ALL_NODES, island.gpus_free, 1),)
            if lots:
                yard = Yard(domain, island, lots, sum(lot.gpus_free for lot in lots))
        self.made[domain] = yard
        return yard


def _split(island: Island, request: PackRequest, *, by_rack: bool) -> tuple[Lot, ...]:
    """Return the lots of ``island``: by rack, by node size, or both; most free first."""
    members: dict[tuple[str, int], int] = {}
    for position, node in enumerate(island.nodes):
        if request.whole_nodes and not island.whole >> position & 1:
            continue
        if by_rack and not matches(request.selector, node.location):
            continue
        rack = (node.rack or "") if by_rack else ""
        key = (rack, node.gpus if request.whole_nodes else 1)
        members[key] = members.get(key, 0) | 1 << position
    lots = []
    for (rack, unit), nodes in members.items():
        first = island.nodes[(nodes & -nodes).bit_length() - 1]
        labels = first.location
        if not by_rack:
            labels.pop(RACK, None)
        where = f"{first.domain_key}/{rack}" if rack else first.domain_key
        gpus = sum(c * (bits & nodes).bit_count() for c, bits in enumerate(island.buckets))
        lots.append(Lot(Place(where, labels), nodes, gpus, unit))
    return tuple(sorted(lots, key=lambda lot: (-lot.gpus_free, lot.place.where, -lot.unit)))
