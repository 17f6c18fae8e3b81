"""Pack by brute force: every division among domains is written out, in order.

It shares no code with the packer. A division is a list of heaps. A heap is a number of groups of
one size in one domain, with the GPUs that it takes from each node class there. A class is a rack if
racks matter, and a node size if nodes are given whole; otherwise a domain is one class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A node: its place and its free slots."""

    name: str
    domain: str
    labels: tuple[tuple[str, str], ...]
    rack: str | None
    size: int
    free: frozenset[int]


@dataclass(frozen=True)
class Ask:
    """A request for GPUs. Each bundle has its GPUs, in groups of ``group`` if that is set."""

    bundles: tuple[int, ...]
    group: int | None = None
    spares: int = 0
    one_domain: bool = False
    selector: tuple[tuple[str, str], ...] = ()
    tight: bool = True
    whole_nodes: bool = False
    by_rack: bool = False


NodeClass = tuple[str, int]
"""(rack or nothing, node size or 1)."""


@dataclass(frozen=True)
class Heap:
    """``count`` groups of ``gpus`` each in ``domain``, with the GPUs taken from each node class."""

    bundle: int
    gpus: int
    count: int
    domain: str
    takes: tuple[tuple[NodeClass, int], ...]


@dataclass(frozen=True)
class _Item:
    bundle: int
    gpus: int
    count: int
    divisible: bool


DomainOffer = dict[NodeClass, int]
DomainOffers = dict[str, DomainOffer]


def selects(selector: tuple[tuple[str, str], ...], labels: Mapping[str, str]) -> bool:
    """Return whether ``selector`` matches a place with ``labels``."""
    return all(k in labels and v in ("*", labels[k]) for k, v in selector)


def lot_of(machine: Machine, ask: Ask) -> NodeClass:
    """Return the node class of ``machine``."""
    rack = (machine.rack or "") if ask.by_rack else ""
    return rack, machine.size if ask.whole_nodes else 1


def usable(machines: list[Machine], ask: Ask) -> list[Machine]:
    """Return the machines that ``ask`` may use."""
    return [
        m
        for m in machines
        if selects(ask.selector, dict(m.labels)) and (not ask.whole_nodes or len(m.free) == m.size)
    ]


def divisions(machines: list[Machine], ask: Ask) -> Iterator[tuple[Heap, ...]]:
    """Yield every way to divide ``ask`` among domains, in pack order; some may be repeated.

    If the request is ``tight`` or for one domain, single domains are tried first: ``tight`` begins
    with the domain that has the fewest free GPUs, ``classic`` with the one that has the most.
    Unless the request is for one domain, domains are then filled one after the other. Domains in
    use come before the others, and those with more free GPUs before those with fewer. Ties are
    ordered by key.
    """
    domain_offers: DomainOffers = {}
    for machine in usable(machines, ask):
        domain_offer = domain_offers.setdefault(machine.domain, {})
        node_class = lot_of(machine, ask)
        domain_offer[node_class] = domain_offer.get(node_class, 0) + len(machine.free)
    # Lots of a domain: the one with most free GPUs first, then by rack, then larger nodes first.
    for domain, domain_offer in domain_offers.items():
        domain_offers[domain] = dict(
            sorted(domain_offer.items(), key=lambda e: (-e[1], e[0][0], -e[0][1]))
        )
    items = _items(ask)
    if ask.tight or ask.one_domain:
        sign = 1 if ask.tight else -1
        for domain in sorted(
            domain_offers, key=lambda d: (sign * sum(domain_offers[d].values()), d)
        ):
            yield from _in_one(items, ask, domain, domain_offers[domain])
    if not ask.one_domain:
        yield from _Filling(ask, items).place(0, domain_offers, frozenset())


def _items(ask: Ask) -> list[_Item]:
    items: list[_Item] = []
    for bundle, gpus in enumerate(ask.bundles):
        if ask.group is None:
            items.append(_Item(bundle, gpus, 1, divisible=True))
            continue
        if gpus // ask.group:
            items.append(_Item(bundle, ask.group, gpus // ask.group, divisible=False))
        if gpus % ask.group:
            items.append(_Item(bundle, gpus % ask.group, 1, divisible=False))
    return items


def _in_one(
    items: list[_Item], ask: Ask, domain: str, domain_offer: DomainOffer
) -> Iterator[tuple[Heap, ...]]:
    if not items:
        yield ()
        return
    item = items[0]
    for takes in _ways(domain_offer, item.gpus + ask.spares, item.count, ask):
        heap = Heap(item.bundle, item.gpus, item.count, domain, tuple(takes.items()))
        for rest in _in_one(items[1:], ask, domain, _less(domain_offer, takes)):
            yield (heap, *rest)


class _Filling:
    """Places items into domains in order, as many GPUs as possible first.

    A state that failed is not tried again.
    """

    def __init__(self, ask: Ask, items: list[_Item]) -> None:
        self.ask, self.items = ask, items
        self.hopeless: set[object] = set()

    def place(
        self, at: int, domain_offers: DomainOffers, used: frozenset[str]
    ) -> Iterator[tuple[Heap, ...]]:
        if at == len(self.items):
            yield ()
            return
        left = {
            domain: sum(domain_offer.values()) for domain, domain_offer in domain_offers.items()
        }
        order = sorted(left, key=lambda d: (d not in used, -left[d], d))
        item = self.items[at]
        yield from self._fill(
            at, item.gpus if item.divisible else item.count, order, domain_offers, used
        )

    def _fill(
        self,
        at: int,
        rest: int,
        order: list[str],
        domain_offers: DomainOffers,
        used: frozenset[str],
    ) -> Iterator[tuple[Heap, ...]]:
        if rest == 0:
            yield from self.place(at + 1, domain_offers, used)
            return
        if not order:
            return
        here = (at, rest, tuple(order), str(sorted(domain_offers.items())), used)
        if here in self.hopeless:
            return
        found = False
        item, domain, spares = self.items[at], order[0], self.ask.spares
        for amount in range(rest, -1, -1):
            if amount == 0:
                for others in self._fill(at, rest, order[1:], domain_offers, used):
                    found = True
                    yield others
                continue
            size, count = (amount, 1) if item.divisible else (item.gpus, amount)
            for takes in _ways(domain_offers[domain], size + spares, count, self.ask):
                heap = Heap(item.bundle, size, count, domain, tuple(takes.items()))
                after = {**domain_offers, domain: _less(domain_offers[domain], takes)}
                for others in self._fill(at, rest - amount, order[1:], after, used | {domain}):
                    found = True
                    yield (heap, *others)
        if not found:
            self.hopeless.add(here)


def _less(domain_offer: DomainOffer, takes: Mapping[NodeClass, int]) -> DomainOffer:
    return {
        node_class: free - takes.get(node_class, 0) for node_class, free in domain_offer.items()
    }


def _ways(
    domain_offer: DomainOffer, gpus: int, count: int, ask: Ask
) -> Iterator[dict[NodeClass, int]]:
    """Yield the ways to take ``count`` times ``gpus`` from ``domain_offer``, the first class first.

    If nodes are given whole, each group must consist of whole nodes.
    """
    if not ask.whole_nodes:
        yield from _split(list(domain_offer.items()), gpus * count)
        return
    seen: list[dict[NodeClass, int]] = []
    for takes in _group_by_group(domain_offer, gpus, count):
        if takes not in seen:
            seen.append(takes)
            yield takes


def _group_by_group(
    domain_offer: DomainOffer, gpus: int, count: int
) -> Iterator[dict[NodeClass, int]]:
    if count == 0:
        yield {}
        return
    for first in _split(list(domain_offer.items()), gpus):
        for rest in _group_by_group(_less(domain_offer, first), gpus, count - 1):
            node_classes = {**first, **rest}
            yield {
                node_class: first.get(node_class, 0) + rest.get(node_class, 0)
                for node_class in domain_offer
                if node_class in node_classes
            }


def _split(node_classes: list[tuple[NodeClass, int]], gpus: int) -> Iterator[dict[NodeClass, int]]:
    if gpus == 0:
        yield {}
        return
    if not node_classes:
        return
    (node_class, free), unit = node_classes[0], node_classes[0][0][1]
    for here in range(min(gpus, free) // unit * unit, -1, -unit):
        for rest in _split(node_classes[1:], gpus - here):
            yield {node_class: here, **rest} if here else rest


# --- Nodes --------------------------------------------------------------------------------------


@dataclass
class Group:
    """A group: its slots on each node, and the slots of its spares on each node."""

    bundle: int
    domain: str
    gpus: int
    slots: dict[str, set[int]]
    spares: dict[str, set[int]]


def on_nodes(machines: list[Machine], ask: Ask, division: tuple[Heap, ...]) -> list[Group]:
    """Return every group of ``division`` with its slots; all groups get slots before any spare.

    If nodes are given whole, each heap first gets its nodes, by name, and uses only these nodes.
    """
    free = {m: set(m.free) for m in usable(machines, ask)}
    groups: list[Group] = []
    rest: list[tuple[dict[Machine, set[int]], dict[NodeClass, int]]] = []
    for heap in division:
        takes = dict(heap.takes)
        mine = _given_whole(free, ask, heap) if ask.whole_nodes else free
        for _ in range(heap.count):
            slots = _take_lots(mine, ask, heap.domain, takes, heap.gpus, avoid=set())
            groups.append(Group(heap.bundle, heap.domain, heap.gpus, slots, {}))
            rest.append((mine, takes))
    for group, (mine, takes) in zip(groups, rest, strict=True):
        avoid = set(group.slots)
        group.spares = _take_lots(mine, ask, group.domain, takes, ask.spares, avoid=avoid)
    return groups


def _given_whole(free: dict[Machine, set[int]], ask: Ask, heap: Heap) -> dict[Machine, set[int]]:
    """Remove the nodes that ``heap`` uses from ``free``, and return them."""
    mine: dict[Machine, set[int]] = {}
    for node_class, gpus in heap.takes:
        nodes = [m for m in free if m.domain == heap.domain and lot_of(m, ask) == node_class]
        for machine in sorted(nodes, key=lambda m: m.name)[: gpus // node_class[1]]:
            mine[machine] = free.pop(machine)
    return mine


def _take_lots(
    free: dict[Machine, set[int]],
    ask: Ask,
    domain: str,
    takes: dict[NodeClass, int],
    gpus: int,
    *,
    avoid: set[str],
) -> dict[str, set[int]]:
    """Take ``gpus`` in ``domain``, class by class, and return the taken slots by node.

    ``takes`` is how many GPUs may still be taken from each class, and is reduced by the taken GPUs.
    Nodes in ``avoid`` are used last.
    """
    slots: dict[str, set[int]] = {}
    for node_class, left in list(takes.items()):
        here = min(gpus, left)
        takes[node_class] -= here
        gpus -= here
        nodes = [m for m in free if m.domain == domain and lot_of(m, ask) == node_class]
        outside = [m for m in nodes if m.name not in avoid]
        room = min(here, sum(len(free[m]) for m in outside))
        for candidates, amount in ((outside, room), (nodes, here - room)):
            for name, taken in _take(free, candidates, amount, tight=ask.tight):
                slots.setdefault(name, set()).update(taken)
    assert gpus == 0, (gpus, domain)
    return slots


def _take(
    free: dict[Machine, set[int]], nodes: list[Machine], gpus: int, *, tight: bool
) -> Iterator[tuple[str, set[int]]]:
    """Yield nodes and slots until ``gpus`` are taken.

    ``classic`` takes the node with the most free slots. ``tight`` depends on whether one node can
    hold all remaining GPUs. If so, ``tight`` takes a node with exactly that many free slots,
    otherwise the fullest node in use, otherwise the smallest unused node. If not, ``tight`` takes
    the node with the most free slots. Of equal nodes, ``tight`` prefers a node in use in the first
    case, and an unused node in the second case. Ties are ordered by name.
    """
    while gpus:
        left = [m for m in nodes if free[m]]
        holding = [m for m in left if len(free[m]) >= gpus]
        if tight and holding:
            wanted = gpus
            node = min(
                holding,
                key=lambda m: (
                    len(free[m]) != wanted and len(free[m]) == m.size,
                    len(free[m]),
                    len(free[m]) == m.size,
                    m.name,
                ),
            )
        elif tight:
            node = min(left, key=lambda m: (-len(free[m]), len(free[m]) != m.size, m.name))
        else:
            node = min(left, key=lambda m: (-len(free[m]), m.name))
        taken = set(sorted(free[node])[:gpus])
        free[node] -= taken
        gpus -= len(taken)
        yield node.name, taken
