"""The node classes that a domain offers to one request.

A node class is a set of nodes in one domain that are equally good for this request. Usually all
nodes of a domain form one class. If an envelope or the run selects racks, each rack is a class. If
the pool gives whole nodes, each node size is a class, and only nodes without any lease are offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from quorate.core.admission.layout import PackRequest
from quorate.core.admission.payers import Place
from quorate.model.selector import RACK, contradicts, matches, names_label
from quorate.model.specs import Node
from quorate.model.state.free_slots import Island, IslandKey, lowest_slots
from quorate.model.state.state_view import StateView

ALL_NODES = -1
"""The bit set that contains every node of an island."""


class NodeClass(Struct, frozen=True, gc=False):
    """The nodes of a class, and their free GPUs, which can be taken in multiples of ``unit``.

    ``nodes`` is a bit set: bit n is set if the n-th node of the island belongs to the class.
    """

    place: Place
    nodes: int
    gpus_free: int
    unit: int


class DomainOffer(Struct, frozen=True, gc=False):
    """The GPUs of one domain that a request may use."""

    domain: str
    island: Island
    node_classes: tuple[NodeClass, ...]
    gpus_free: int

    @property
    def is_plain(self) -> bool:
        """Whether the domain is one class in which every GPU is as good as any other."""
        return len(self.node_classes) == 1 and self.node_classes[0].unit == 1


class DomainOffers:
    """The offers of the domains that a request may use, computed on demand.

    ``by_rack`` is true if an envelope that may pay selects racks.
    """

    __slots__ = ("_index", "_made", "_offers", "_simple", "by_rack", "request", "view")

    def __init__(self, view: StateView, request: PackRequest, *, by_rack: bool = False) -> None:
        self.view = view
        self.request = request
        self.by_rack = by_rack or names_label(request.selector, RACK)
        self._index = view.domains(request.pool, request.flavor)
        self._made: dict[str, DomainOffer | None] = {}
        self._simple = not (self.by_rack or request.whole_nodes or request.within)
        self._offers: list[DomainOffer] = []
        if not self._simple:
            # A domain may offer fewer GPUs than it has free, so the offers are sorted by the
            # offered GPUs.
            domain_offers = (self.make(key) for key in self._keys())
            self._offers = sorted(
                (domain_offer for domain_offer in domain_offers if domain_offer is not None),
                key=lambda domain_offer: (-domain_offer.gpus_free, domain_offer.domain),
            )

    def most_free(self, need: int = 0) -> Iterator[DomainOffer]:
        """Yield the offers of at least ``need`` GPUs: largest offer first, equal offers by key."""
        if not self._simple:
            for domain_offer in self._offers:
                if domain_offer.gpus_free >= need:
                    yield domain_offer
            return
        for _, key in self._index.most_free(need):
            found = self.make(key)
            if found is not None:
                yield found

    def least_free(self, need: int) -> Iterator[DomainOffer]:
        """Yield the offers of at least ``need`` GPUs: smallest offer first, equal offers by key."""
        if not self._simple:
            offers = [
                domain_offer for domain_offer in self._offers if domain_offer.gpus_free >= need
            ]
            yield from sorted(offers, key=lambda domain_offer: domain_offer.gpus_free)
            return
        for _, key in self._index.least_free(need):
            found = self.make(key)
            if found is not None:
                yield found

    def at(self, domain: str) -> DomainOffer | None:
        """Return the offer of ``domain``; None if ``domain`` offers nothing to this request."""
        if domain in self._made:
            return self._made[domain]
        number = self._index.numbers.get(domain)
        return None if number is None else self.make(self._index.keys[number])

    def make(self, key: IslandKey) -> DomainOffer | None:
        """Return the offer of the island under ``key``; None if the request excludes the island."""
        domain = key.domain
        if domain in self._made:
            return self._made[domain]
        request = self.request
        island = self._within(key) if request.within else self.view.island(key)
        domain_offer: DomainOffer | None = None
        if island is None:
            pass  # The request's ``within`` has no node of this island.
        elif not request.selector or not contradicts(request.selector, island.labels):
            if self._simple:
                gpus = island.gpus_free
                node_class = NodeClass(Place(domain, island.labels), ALL_NODES, gpus, 1)
                domain_offer = DomainOffer(domain, island, (node_class,), gpus)
            else:
                node_classes = _split(island, request, by_rack=self.by_rack)
                if node_classes:
                    domain_offer = DomainOffer(
                        domain,
                        island,
                        node_classes,
                        sum(node_class.gpus_free for node_class in node_classes),
                    )
        self._made[domain] = domain_offer
        return domain_offer

    def _keys(self) -> Iterable[IslandKey]:
        """Return the islands that the request may use."""
        if not self.request.within:
            return (key for _, key in self._index.most_free())
        nodes = self.view.nodes
        named = (nodes[name].island for name, _ in self.request.within if name in nodes)
        known = set(self._index.keys)
        return [key for key in dict.fromkeys(named) if key in known]

    def _within(self, key: IslandKey) -> Island | None:
        """Return the part of an island that ``within`` allows; None if it allows nothing there."""
        nodes, island = self.view.nodes, self.view.island(key)
        offered: dict[int, int] = {}
        for name, gpus in self.request.within:
            if name in nodes and nodes[name].island == key:
                place = nodes[name].position
                offered[place] = offered.get(place, 0) + gpus
        if not offered:
            return None
        places = sorted(offered)
        free = [island.free[place] for place in places]
        bounds = (min(offered[p], mask.bit_count()) for p, mask in zip(places, free, strict=True))
        cut = [lowest_slots(mask, gpus) for mask, gpus in zip(free, bounds, strict=True)]
        return Island.build(key, tuple(island.nodes[place] for place in places), cut)


def _split(island: Island, request: PackRequest, *, by_rack: bool) -> tuple[NodeClass, ...]:
    """Return the node classes of ``island``, the class with the most free GPUs first.

    Nodes are divided by rack, by node size, or by both.
    """
    members: dict[tuple[str, int], int] = {}
    firsts: dict[tuple[str, int], Node] = {}
    offered = island.whole if request.whole_nodes else ALL_NODES
    for position, node in enumerate(island.nodes):
        if by_rack and not matches(request.selector, node.location):
            continue
        rack = (node.rack or "") if by_rack else ""
        key = (rack, node.gpus if request.whole_nodes else 1)
        # A class without free GPUs is listed, too, because an envelope may pay for its GPUs.
        members[key] = members.get(key, 0) | 1 << position & offered
        firsts.setdefault(key, node)
    node_classes = []
    for (rack, unit), nodes in members.items():
        first = firsts[rack, unit]
        labels = first.location
        if not by_rack:
            labels.pop(RACK, None)
        where = f"{first.domain_key}/{rack}" if rack else first.domain_key
        gpus = sum(c * (bits & nodes).bit_count() for c, bits in enumerate(island.buckets))
        node_classes.append(NodeClass(Place(where, labels), nodes, gpus, unit))
    return tuple(
        sorted(
            node_classes,
            key=lambda node_class: (
                -node_class.gpus_free,
                node_class.place.where,
                -node_class.unit,
            ),
        )
    )
