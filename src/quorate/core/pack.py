"""Pack: which slots. Design section 5; docs/adr/0007-pack.md.

A spread says how much each domain gives; here the nodes and slots are picked. ``classic`` takes
the node with the most free slots, then by name. ``tight`` takes whole nodes for whole-node parts
and puts a remainder on the fullest node that holds it. Spares come after all groups, in their
group's domain, off its working nodes where possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.core.layout import PackRequest
from quorate.core.slices import no_placement
from quorate.core.spread import Piece, Spread, spreads
from quorate.core.steps import Steps
from quorate.core.yard import ALL_NODES, Yard, Yards
from quorate.model.events import Slots
from quorate.model.island import Island, lowest_slots
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Placement
from quorate.model.state import StateView


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A group with its slots. ``places`` and ``spare_places`` say who may pay for each of them."""

    index: int
    bundle: int
    domain: str
    gpus: int
    slots: Slots
    places: tuple[str, ...]
    spare_slots: Slots
    spare_places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackPlan:
    """Where everything goes."""

    groups: tuple[PlacedGroup, ...]

    @property
    def gpus(self) -> int:
        """The GPUs that work; spares come on top."""
        return sum(group.gpus for group in self.groups)


def pack_gang(view: StateView, request: PackRequest) -> PackPlan | Refusal:
    """Return the slots for ``request``, or what is missing where."""
    yards, steps = Yards(view, request), Steps()
    spread = next(spreads(yards, None, steps), None)
    if spread is not None:
        return pick_slots(spread, request)
    if steps.exhausted:
        return Refusal(code=RefusalCode.SEARCH_LIMIT, wanted=request.gpus)
    return no_placement(yards)


def residual(view: StateView, request: PackRequest, plan: PackPlan) -> dict[str, int]:
    """Return the free GPUs left in each domain of the request's pool and flavor."""
    left = {d: -free for free, d in view.domain_order(request.pool, request.flavor)}
    for group in plan.groups:
        left[group.domain] -= sum(m.bit_count() for _, m in (*group.slots, *group.spare_slots))
    return dict(sorted(left.items()))


def pick_slots(spread: Spread, request: PackRequest) -> PackPlan:
    """Return the slots for ``spread``, which must fit."""
    drafts: dict[str, _Draft] = {}
    tight = request.placement is Placement.TIGHT
    opened: list[tuple[Piece, int, _Draft, Picked, list[int]]] = []
    for piece in spread:
        domain = piece.yard.domain
        if domain not in drafts:
            drafts[domain] = _Draft.of(piece.yard.island, tight=tight)
        draft, amounts = drafts[domain], list(piece.amounts)
        for number in range(piece.count):
            picked = _pick(draft, piece.yard, amounts, piece.gpus, 0)
            opened.append((piece, number, draft, picked, amounts))
    groups = []
    for index, (piece, _, draft, picked, amounts) in enumerate(opened):
        spare = Picked([], [])
        if piece.spares:
            working = 0
            for position, _ in picked.slots:
                working |= 1 << position
            spare = _pick(draft, piece.yard, amounts, piece.spares, working)
        nodes = piece.yard.island.nodes
        groups.append(
            PlacedGroup(
                index,
                piece.bundle,
                piece.yard.domain,
                piece.gpus,
                tuple((nodes[position].name, mask) for position, mask in picked.slots),
                tuple(picked.places),
                tuple((nodes[position].name, mask) for position, mask in spare.slots),
                tuple(spare.places),
            )
        )
    return PackPlan(tuple(groups))


@dataclass(frozen=True, slots=True)
class Picked:
    """(position, mask) pairs, and for each the place that is charged."""

    slots: list[tuple[int, int]]
    places: list[str]


def _pick(draft: _Draft, yard: Yard, amounts: list[int], gpus: int, avoid: int) -> Picked:
    """Take ``gpus`` out of what is left of ``amounts``, off the nodes in ``avoid`` if it can be."""
    picked = Picked([], [])
    for index, lot in enumerate(yard.lots):
        here = min(gpus, amounts[index])
        if here == 0:
            continue
        amounts[index] -= here
        gpus -= here
        taken = draft.take_avoiding(here, lot.nodes, avoid) if avoid else draft.take(here, lot.nodes)
        picked.slots.extend(taken)
        picked.places.extend([lot.place.where] * len(taken))
        if gpus == 0:
            break
    assert gpus == 0, (gpus, yard.domain)
    return picked


@dataclass(slots=True)
class _Draft:
    """An island's index while one plan is made; the island itself is not touched."""

    island: Island
    buckets: list[int]
    whole: int
    changed: dict[int, int]
    tight: bool

    @classmethod
    def of(cls, island: Island, *, tight: bool) -> _Draft:
        """Return a fresh draft of ``island``."""
        return cls(island, island.buckets.copy(), island.whole, {}, tight)

    def take(self, gpus: int, nodes: int) -> list[tuple[int, int]]:
        """Take ``gpus`` slots from ``nodes``, and return (position, mask) pairs in picking order."""
        found: list[tuple[int, int]] = []
        for count, bits, each in self._tight(gpus, nodes) if self.tight else self._classic(gpus, nodes):
            found.append(self._claim(count, bits, each))
        return _merged(found)

    def take_avoiding(self, gpus: int, nodes: int, avoid: int) -> list[tuple[int, int]]:
        """Take ``gpus`` slots from ``nodes``, from those in ``avoid`` only as a last resort."""
        outside = (ALL_NODES ^ avoid) & nodes
        room = sum(c * (bits & outside).bit_count() for c, bits in enumerate(self.buckets))
        first = self.take(min(gpus, room), outside) if room else []
        rest = gpus - sum(mask.bit_count() for _, mask in first)
        return _merged([*first, *(self.take(rest, nodes) if rest else [])])

    def _classic(self, gpus: int, nodes: int) -> Iterator[tuple[int, int, int]]:
        """Yield (free count, node bit, take): most free first, then by name."""
        count = len(self.buckets) - 1
        while gpus:
            bits = self.buckets[count] & nodes
            if not bits:
                count -= 1
                assert count > 0, gpus
                continue
            each = min(gpus, count)
            yield count, bits & -bits, each
            gpus -= each

    def _tight(self, gpus: int, nodes: int) -> Iterator[tuple[int, int, int]]:
        """Yield (free count, node bit, take): best fit for a remainder, else the emptiest node."""
        buckets = self.buckets
        top = len(buckets) - 1
        while gpus:
            count = gpus
            while count <= top and not buckets[count] & nodes:
                count += 1
            if count <= top:
                bits = buckets[count] & nodes
                bits = bits & ~self.whole or bits
                yield count, bits & -bits, gpus
                return
            count = min(gpus - 1, top)
            while not buckets[count] & nodes:
                count -= 1
                assert count > 0, gpus
            bits = buckets[count] & nodes
            bits = bits & self.whole or bits
            yield count, bits & -bits, count
            gpus -= count

    def _claim(self, count: int, bit: int, gpus: int) -> tuple[int, int]:
        """Take ``gpus`` slots of the node ``bit``, which has ``count`` free."""
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


def _merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ``found`` with each node once."""
    masks: dict[int, int] = {}
    for position, mask in found:
        masks[position] = masks.get(position, 0) | mask
    return list(masks.items())
