"""Pack: choose the nodes and slots. See docs/design/calculus.md and docs/adr/0007-pack.md.

A spread says how many GPUs each domain gives; this module picks the nodes and slots. There are two
placement rules. ``classic`` always takes the node with the most free slots; of equal nodes, the
first by name. ``tight`` first fills whole nodes, and puts the remaining GPUs on the fullest node
with room for them. Spares are picked last. They are in the domain of their group, and if possible
on nodes that the group does not use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from quorate.core.admission.domain_offer import DomainOffer, DomainOffers, NodeClass
from quorate.core.admission.layout import PackRequest
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.spread import Spread, spreads
from quorate.core.admission.target_slices import no_placement
from quorate.model.events import Slots
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Placement
from quorate.model.state.free_slots import Island, lowest_slots
from quorate.model.state.state_view import StateView


class PlacedGroup(Struct, frozen=True, gc=False):
    """A group with its slots.

    ``places`` and ``spare_places`` have one entry per node: the name of the place in which the
    payers pay for GPUs on this node. Both are empty if this place is the whole domain.
    """

    index: int
    bundle: int
    domain: str
    gpus: int
    slots: Slots
    places: tuple[str, ...]
    spare_slots: Slots
    spare_places: tuple[str, ...]


class PackPlan(Struct, frozen=True, gc=False):
    """The placed groups of a run."""

    groups: tuple[PlacedGroup, ...]

    @property
    def gpus(self) -> int:
        """The number of GPUs that work, without spares."""
        return sum(group.gpus for group in self.groups)

    @property
    def nodes(self) -> set[str]:
        """The nodes of the plan, including those of spares."""
        return {node for g in self.groups for node, _ in (*g.slots, *g.spare_slots)}


def pack_gang(view: StateView, request: PackRequest) -> PackPlan | Refusal:
    """Return the slots for ``request``, or a refusal with the shortage of each domain."""
    domain_offers, steps = DomainOffers(view, request), SearchBudget()
    spread = next(spreads(domain_offers, None, steps), None)
    if spread is not None:
        return pick_slots(spread, request)
    if steps.exhausted:
        return Refusal(code=RefusalCode.SEARCH_LIMIT, wanted=request.gpus)
    return no_placement(request, list(domain_offers.most_free()))


def residual(view: StateView, request: PackRequest, plan: PackPlan) -> dict[str, int]:
    """Return the GPUs of each domain that stay free after ``plan``.

    The domains are those with nodes of the request's pool and flavor.
    """
    left = {d: -free for free, d in view.domain_order(request.pool, request.flavor)}
    for group in plan.groups:
        left[group.domain] -= sum(m.bit_count() for _, m in (*group.slots, *group.spare_slots))
    return dict(sorted(left.items()))


Kept = Callable[[Island], int]
"""A function that returns, as a bit set, the nodes of an island that are used before others."""


def pick_slots(spread: Spread, request: PackRequest, kept: Kept | None = None) -> PackPlan:
    """Return the slots for ``spread``, which must fit.

    If ``kept`` is given, the plan uses as few nodes outside ``kept`` as possible. It uses kept
    nodes first, and then the emptiest nodes.
    """
    drafts: dict[str, _Draft] = {}
    tight = request.placement is Placement.TIGHT
    groups: list[PlacedGroup] = []
    unspent: list[tuple[_Draft, DomainOffer, list[int]]] = []
    for piece in spread:
        domain_offer = piece.domain_offer
        domain = domain_offer.domain
        draft = drafts.get(domain)
        if draft is None:
            draft = drafts[domain] = _Draft(domain_offer.island, tight=tight and kept is None)
            if kept is not None:
                draft.others = ~kept(domain_offer.island)
        amounts = list(piece.amounts)
        if request.whole_nodes:
            domain_offer = draft.set_aside(domain_offer, amounts)
        for _ in range(piece.count):
            slots, places = _pick(draft, domain_offer, amounts, piece.gpus, 0)
            group = PlacedGroup(
                len(groups), piece.bundle, domain, piece.gpus, slots, places, (), ()
            )
            groups.append(group)
            unspent.append((draft, domain_offer, amounts))
    spares = request.spares_per_group
    if spares:
        groups = [_with_spares(g, spares, *left) for g, left in zip(groups, unspent, strict=True)]
    return PackPlan(tuple(groups))


def _with_spares(
    group: PlacedGroup, spares: int, draft: _Draft, domain_offer: DomainOffer, amounts: list[int]
) -> PlacedGroup:
    """Return ``group`` with its spares, picked after every group has its slots."""
    working = draft.bits_of(group.slots) if draft.others == 0 else 0
    slots, places = _pick(draft, domain_offer, amounts, spares, working)
    return replace(group, spare_slots=slots, spare_places=places)


_Picked = tuple[Slots, tuple[str, ...]]


def _pick(
    draft: _Draft, domain_offer: DomainOffer, amounts: list[int], gpus: int, avoid: int
) -> _Picked:
    """Take ``gpus`` of the GPUs left in ``amounts``, if possible on nodes outside ``avoid``."""
    if len(amounts) == 1 and domain_offer.node_classes[0].place.where == domain_offer.domain:
        amounts[0] -= gpus
        return tuple(draft.take_avoiding(gpus, domain_offer.node_classes[0].nodes, avoid)), ()
    slots: list[tuple[str, int]] = []
    places: list[str] = []
    for index, node_class in enumerate(domain_offer.node_classes):
        here = min(gpus, amounts[index])
        if here == 0:
            continue
        amounts[index] -= here
        gpus -= here
        taken = draft.take_avoiding(here, node_class.nodes, avoid)
        slots.extend(taken)
        places.extend([node_class.place.where] * len(taken))
    assert gpus == 0, (gpus, domain_offer.domain)
    return tuple(slots), tuple(places)


class _Draft:
    """A working copy of an island's index while one plan is made; the island stays unchanged."""

    __slots__ = ("aside", "buckets", "changed", "island", "others", "tight", "whole")

    def __init__(self, island: Island, *, tight: bool) -> None:
        self.island = island
        self.buckets = island.buckets.copy()
        # If all nodes have one size, this index is not needed: a node is wholly free if its number
        # of free slots equals this size.
        self.whole = island.whole if len(island.sizes) > 1 else 0
        self.changed: dict[int, int] = {}
        self.tight = tight
        self.aside = 0
        # The nodes that are used last, because they are not in ``kept``.
        self.others = 0

    def set_aside(self, domain_offer: DomainOffer, amounts: Sequence[int]) -> DomainOffer:
        """Return ``domain_offer`` reduced to as many whole nodes as ``amounts`` fill.

        ``amounts`` has one number of GPUs for each node class. From each class, the method sets
        aside the first nodes, by name, that are not set aside yet. When all GPUs of the result have
        been picked, including spares, no node is partly used.
        """
        node_classes = []
        for node_class, gpus in zip(domain_offer.node_classes, amounts, strict=True):
            nodes = 0
            for _ in range(gpus // node_class.unit):
                open_nodes = node_class.nodes & ~self.aside
                first = open_nodes & -open_nodes
                nodes |= first
                self.aside |= first
            node_classes.append(NodeClass(node_class.place, nodes, gpus, node_class.unit))
        return DomainOffer(
            domain_offer.domain, domain_offer.island, tuple(node_classes), sum(amounts)
        )

    def take_avoiding(self, gpus: int, nodes: int, avoid: int) -> list[tuple[str, int]]:
        """Take ``gpus`` slots of ``nodes``; the nodes in ``avoid`` are used last.

        The result has one (node, mask of slots) pair for each node, in the order in which the nodes
        were picked.
        """
        picked: list[tuple[int, int]] = []
        avoid |= self.others
        if avoid:
            outside = ~avoid & nodes
            room = sum(c * (bits & outside).bit_count() for c, bits in enumerate(self.buckets))
            self._take(min(gpus, room), outside, picked)
            gpus -= min(gpus, room)
        if gpus:
            self._take(gpus, nodes, picked)  # All nodes outside ``avoid`` are used up.
        if self.others:
            # From now on, a node that the plan uses is preferred to unused nodes.
            self.others &= ~sum(1 << position for position, _ in picked)
        known = self.island.nodes
        return [(known[position].name, mask) for position, mask in picked]

    def bits_of(self, slots: Slots) -> int:
        """Return the nodes of ``slots`` as a bit set of their positions in the island."""
        names = {node for node, _ in slots}
        return sum(1 << p for p, node in enumerate(self.island.nodes) if node.name in names)

    def _take(self, gpus: int, nodes: int, found: list[tuple[int, int]]) -> None:
        """Take ``gpus`` slots, and append them to ``found`` as (position, mask) pairs."""
        if gpus >= len(self.buckets) - 1:
            gpus = self._take_whole(gpus, nodes, found)
        if gpus:
            if self.tight:
                self._take_tight(gpus, nodes, found)
            else:
                self._take_classic(gpus, nodes, found)

    def _take_whole(self, gpus: int, nodes: int, found: list[tuple[int, int]]) -> int:
        """Take whole nodes of the largest size, by name; return how many GPUs are still wanted.

        As long as the remaining GPUs fill a whole node, both placement rules take such nodes first.
        So no search is needed for them.
        """
        top = len(self.buckets) - 1
        bits = self.buckets[top] & nodes
        free, taken = self.island.free, 0
        while bits and gpus >= top:
            bit = bits & -bits
            bits ^= bit
            taken |= bit
            gpus -= top
            position = bit.bit_length() - 1
            found.append((position, free[position]))
        self.buckets[top] ^= taken
        self.buckets[0] |= taken
        self.whole &= ~taken
        return gpus

    def _take_classic(self, gpus: int, nodes: int, found: list[tuple[int, int]]) -> None:
        """Take slots from the node with the most free slots; of equal nodes, the first by name."""
        count = len(self.buckets) - 1
        while gpus:
            bits = self.buckets[count] & nodes
            if bits:
                each = min(gpus, count)
                found.append(self._pick(count, bits & -bits, each))
                gpus -= each
            else:
                count -= 1
                assert count > 0, gpus

    def _take_tight(self, gpus: int, nodes: int, found: list[tuple[int, int]]) -> None:
        """Take the best node for the GPUs; while no node has room for all, fill the emptiest.

        The best node is a node that the GPUs fill exactly; else the fullest node in use that has
        room for them; else the smallest free node. So no free node is used while a node in use has
        room.
        """
        buckets = self.buckets
        top = len(buckets) - 1
        while gpus:
            untouched = 0
            for count in range(gpus, top + 1):
                bits = buckets[count] & nodes
                if not bits:
                    continue
                fit = bits & ~self.whole or (bits if count == gpus else 0)
                if fit:
                    found.append(self._pick(count, fit & -fit, gpus))
                    return
                untouched = untouched or count
            if untouched:
                bits = buckets[untouched] & nodes
                found.append(self._pick(untouched, bits & -bits, gpus))
                return
            count = min(gpus - 1, top)
            while not buckets[count] & nodes:
                count -= 1
                assert count > 0, gpus
            bits = buckets[count] & nodes
            bits = bits & self.whole or bits
            found.append(self._pick(count, bits & -bits, count))
            gpus -= count

    def _pick(self, count: int, bit: int, gpus: int) -> tuple[int, int]:
        """Take ``gpus`` slots of the node ``bit``, which has ``count`` free slots."""
        position = bit.bit_length() - 1
        free = self.changed.get(position)
        if free is None:
            free = self.island.free[position]
        mask = free if gpus == count else lowest_slots(free, gpus)
        self.changed[position] = free ^ mask
        self.buckets[count] ^= bit
        self.buckets[count - gpus] |= bit
        self.whole &= ~bit
        return position, mask
