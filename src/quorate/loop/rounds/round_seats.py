"""Seats: the nodes for each run that is chosen for a round, so that all chosen runs have room.

Candidates get nodes in the order of rank. A run that already has GPUs of its flavor keeps its
nodes, unless a more deserving run fits nowhere else. In that case the least deserving runs make
room, and are placed again when the order reaches their rank. A run that fits nowhere waits for the
next round.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.core.admission.hard_quota import Headroom
from quorate.core.admission.pack import PackPlan
from quorate.core.rounds.round_trial import Room, nodes_of
from quorate.loop.rounds.round_held import HeldLeases
from quorate.loop.rounds.round_snapshot import Member
from quorate.model.events import Slots
from quorate.model.selector import Selector, contradicts
from quorate.model.specs import Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.state_view import StateView
from quorate.policy.rounds.round_book import Row
from quorate.policy.rounds.row_choice import Candidate

Nodes = tuple[tuple[str, int], ...]

RISEN_MAX: Final = 20_000
"""How often runs are moved to make room in one round; after that, runs without room wait."""


@dataclass(frozen=True, slots=True)
class _Held:
    """The slots that a row (a run or a pair) has on a flavor now, lease by lease."""

    row: Row
    run: str
    flavor: str
    parts: tuple[Slots, ...]
    islands: frozenset[IslandKey]
    place: int
    """The rank of the row: the most deserving row has the lowest number."""


class Seats:
    """The nodes of the runs that are chosen for one round.

    ``likely`` are the runs that would be chosen if the nodes of their GPUs did not matter, the most
    deserving first. The present nodes of ``likely`` runs are kept until another run needs them.
    """

    def __init__(
        self,
        view: StateView,
        room: Room,
        members: Mapping[str, Member],
        held: HeldLeases,
        likely: Iterable[Candidate],
    ) -> None:
        self._view = view
        self._room = room
        self._members = members
        self._held_leases = held
        self._kept: dict[str, dict[Row, _Held]] = {}
        self._rows: dict[str, tuple[str, Row]] = {}
        self._hopeless: set[Hashable] = set()
        self._bounds: dict[str, frozenset[str]] = {}
        self._open: dict[tuple[str, Selector], frozenset[IslandKey]] = {}
        self._risen_left = RISEN_MAX
        self.nodes: dict[Row, Nodes] = {}
        """The nodes for the chosen runs that do not keep their present nodes."""
        for place, each in enumerate(likely):
            kept = self._held(each, place)
            if kept is not None:
                self._kept.setdefault(each.flavor, {})[each.row] = kept
                self._rows |= dict.fromkeys(each.row, (each.flavor, each.row))
                self._sit(kept)

    def seat(self, chosen: Candidate) -> bool:
        """Return whether there is room for ``chosen``; if so, keep that room for it."""
        kept = self._kept.get(chosen.flavor, {}).pop(chosen.row, None)
        if kept is not None:
            self._gather(chosen, kept)
            return True
        held = self._held(chosen, 0)
        if held is not None and self._room.has(held.run, held.parts):
            self._sit(held)
            self._gather(chosen, held)
            return True
        spec = self._members[chosen.row[0]].record.spec
        shape = self._room.shape(spec, chosen.flavor)
        if shape in self._hopeless:
            return False
        plan = self._find(chosen) or self._find_for(chosen)
        if plan is None:
            # All runs in the way were moved, and later runs only reduce the room. So no further
            # run of this shape fits.
            self._hopeless.add(shape)
            return False
        self._release(chosen.row)
        self.nodes[chosen.row] = nodes_of(group.slots for group in plan.groups)
        return True

    def gather(self, chosen: Iterable[Candidate], scattered: Collection[Candidate]) -> None:
        """Find fewer nodes for those ``chosen`` runs that are ``scattered``, if there is room.

        The widest runs come first, as when a round begins. Runs that will start are placed here,
        too, because they compete for the same nodes.
        """
        for each in sorted(chosen, key=lambda candidate: -candidate.gpus):
            if each in scattered or each.row not in self._kept.get(each.flavor, {}):
                self.seat(each)

    def pass_over(self, chosen: Candidate) -> None:
        """Release the nodes that were kept for a run that is not chosen after all."""
        held = self._kept.get(chosen.flavor, {}).pop(chosen.row, None)
        if held is not None:
            self._rise(held)

    def _gather(self, chosen: Candidate, held: _Held) -> None:
        """Move a run from its present nodes to fewer nodes, if fewer nodes have room for it."""
        if not is_scattered(self._view, held.parts):
            return
        self._rise(held)
        plan = self._find(chosen)
        if plan is not None and len(plan.nodes) < len(nodes_of(held.parts)):
            self.nodes[chosen.row] = nodes_of(group.slots for group in plan.groups)
            return
        for group in () if plan is None else plan.groups:
            self._room.leave(held.run, group.slots)
        self._sit(held)

    def _find(self, chosen: Candidate) -> PackPlan | None:
        """Place ``chosen`` on free GPUs, and take these GPUs; None if ``chosen`` does not fit."""
        member = self._members[chosen.row[0]]
        nodes = self._view.nodes
        known = [nodes[name].spec for name in member.known.nodes if name in nodes]
        prefer = frozenset(node.domain_key for node in known if node.flavor == chosen.flavor)
        plan = self._room.find(member.record.spec, chosen.flavor, prefer)
        for group in () if plan is None else plan.groups:
            self._room.take(member.record.spec.name, group.slots)
        return plan

    def _find_for(self, chosen: Candidate) -> PackPlan | None:
        """Let less deserving runs make room for ``chosen``, and return the placement of ``chosen``.

        First only the least deserving run makes room. Each further attempt moves twice as many
        runs. Moved runs that were not in the way get their nodes back. If ``chosen`` does not fit
        after the last attempt, return None.
        """
        others = sorted(self._in_the_way(chosen), key=lambda held: held.place)
        risen: list[_Held] = []
        plan, count = None, 1
        while plan is None and others and self._risen_left > 0:
            for _ in range(min(count, len(others))):
                held = others.pop()
                del self._kept[held.flavor][held.row]
                self._rise(held)
                risen.append(held)
            self._risen_left -= count
            count *= 2
            plan = self._find(chosen)
        for held in reversed(risen):
            if plan is None or self._room.has(held.run, held.parts):
                self._sit(held)
                self._kept[held.flavor][held.row] = held
        return plan

    def _in_the_way(self, chosen: Candidate) -> Iterator[_Held]:
        """Yield the runs whose kept room ``chosen`` could use.

        These runs are in domains that ``chosen`` may use, or their nodes count towards a quota that
        also limits the owner of ``chosen``.
        """
        spec = self._members[chosen.row[0]].record.spec
        bounds = self._bounds_of(spec.owner)
        islands = self._open_to(spec, chosen.flavor)
        for flavor, kept in self._kept.items():
            if flavor == chosen.flavor:
                yield from (held for held in kept.values() if not islands.isdisjoint(held.islands))
            elif bounds:
                for held in kept.values():
                    owner = self._members[held.run].record.spec.owner
                    if not bounds.isdisjoint(self._bounds_of(owner)):
                        yield held

    def _open_to(self, run: Run, flavor: str) -> frozenset[IslandKey]:
        """Return the domains that ``run`` may use; all if its owner has a limit on nodes."""
        view, selector = self._view, () if self._bounds_of(run.owner) else run.selector
        key = (flavor, selector)
        if key not in self._open:
            self._open[key] = frozenset(
                island
                for island in view.domains(run.pool, flavor).keys
                if not contradicts(selector, view.island(island).labels)
            )
        return self._open[key]

    def _bounds_of(self, owner: str) -> frozenset[str]:
        """Return the owners whose limits on nodes also limit ``owner``."""
        if owner not in self._bounds:
            headroom = Headroom.of(self._view, owner)
            names = () if headroom is None else (name for name, _ in headroom.bounds)
            self._bounds[owner] = frozenset(names)
        return self._bounds[owner]

    def _release(self, row: Row) -> None:
        """Release the nodes kept for the runs of ``row``, because these runs got other nodes."""
        for name in row:
            flavor, before = self._rows.get(name, ("", ()))
            held = self._kept.get(flavor, {}).pop(before, None)
            if held is not None:
                self._rise(held)

    def _held(self, chosen: Candidate, place: int) -> _Held | None:
        """Return the slots that a row would keep if it were chosen; None if it would keep none."""
        leases = self._held_leases.of(chosen.row, chosen.flavor)
        if not leases:
            return None
        parts, nodes = tuple(lease.fact.slots for lease in leases), self._view.nodes
        islands = frozenset(nodes[node].island for slots in parts for node, _ in slots)
        return _Held(chosen.row, leases[0].fact.run, chosen.flavor, parts, islands, place)

    def _sit(self, held: _Held) -> None:
        for slots in held.parts:
            self._room.take(held.run, slots)

    def _rise(self, held: _Held) -> None:
        for slots in held.parts:
            self._room.leave(held.run, slots)


def is_scattered(view: StateView, parts: Sequence[Slots]) -> bool:
    """Return whether ``parts`` are on more nodes than their number of GPUs needs."""
    nodes = nodes_of(parts)
    if len(nodes) == 1:
        return False
    gpus_max = max(view.nodes[node].spec.gpus for node, _ in nodes)
    return len(nodes) > -(-sum(gpus for _, gpus in nodes) // gpus_max)
