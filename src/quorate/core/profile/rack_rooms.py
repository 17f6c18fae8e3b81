"""Rooms of racks: the free GPUs over time on the nodes that a selector with a rack allows.

If the run of a firm start, or one of its payers, names racks, only some nodes of the domains may be
used. Then counting the GPUs of domains is not enough. A *rack room* is the set of nodes that may be
used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from quorate.core.profile.expected_returns import ExpectedReturns
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.resource import Resource, curve_of
from quorate.model.events import Share, Slice, Slots
from quorate.model.selector import RACK, matches, names_label
from quorate.model.specs import Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.state_view import StateView

Nodes = frozenset[str]


def rack_demands(view: StateView, entry: Entry) -> tuple[tuple[Nodes, int], ...]:
    """Return (nodes, GPUs) pairs: the GPUs that a firm start needs on the nodes that racks allow.

    The result is kept until a budget, owner, pool or node changes.
    """
    run, key = view.runs[entry.run].spec, ("racks", entry.run)
    known = view.ask_cache.get(key)
    if not isinstance(known, _Demands) or not known.is_of(run, entry):
        demands = tuple(_find_demands(view, run, entry))
        known = view.ask_cache[key] = _Demands(run, entry.slice, entry.shares, demands)
    return known.demands


class _Demands(Struct, frozen=True, gc=False):
    run: Run
    slice: Slice
    shares: tuple[Share, ...]
    demands: tuple[tuple[Nodes, int], ...]

    def is_of(self, run: Run, entry: Entry) -> bool:
        return self.run is run and self.slice == entry.slice and self.shares == entry.shares


def _find_demands(view: StateView, run: Run, entry: Entry) -> Iterator[tuple[Nodes, int]]:
    for share in entry.shares:
        selector = view.envelopes[share.payer].spec.selector
        if names_label(run.selector, RACK) or names_label(selector, RACK):
            nodes = frozenset(
                node.name
                for key in islands_of(view, entry)
                for node in view.island(key).nodes
                if matches(selector, node.location) and matches(run.selector, node.location)
            )
            yield nodes, share.gpus


def islands_of(view: StateView, entry: Entry) -> Iterator[IslandKey]:
    """Yield the islands of a planned start that still exist."""
    there = view.domains(entry.pool, entry.slice.flavor).numbers
    for domain, _ in entry.slice.domains:
        if domain in there:
            yield IslandKey(entry.pool, entry.slice.flavor, domain)


def wanted_of(demands: Iterable[tuple[Nodes, int]], nodes: Nodes) -> int:
    """Return how many GPUs of ``demands`` must be on ``nodes``, as they may be nowhere else."""
    return sum(gpus for only, gpus in demands if only <= nodes)


def rack_room(view: StateView, returns: ExpectedReturns, nodes: Nodes) -> Resource:
    """Return the free GPUs of ``nodes`` over time, as if the plan took none of them."""
    free, gains = 0, list[tuple[int, int]]()
    used = [n for n in sorted(nodes) if n not in view.node_status and n not in view.unwiped]
    for name in used:
        known = view.nodes[name]
        ends = [
            (returns.lease_end_ms(lease), gpus_on(view.leases[lease].fact.slots, (name,)))
            for lease in view.node_leases.get(name, ())
        ]
        if ends and view.pools[known.island.pool].whole_nodes:
            ends = [(max(end_ms for end_ms, _ in ends), known.spec.gpus)]
        free += known.spec.gpus - sum(gpus for _, gpus in ends)
        gains += ends
    room = Resource(free, curve_of(gains))
    for pledge in view.pledges.values():
        gpus = gpus_on(pledge.slots, used)
        if gpus:
            room.take(*returns.pledge_span(pledge), gpus)
    return room


def gpus_on(slots: Slots, nodes: Iterable[str]) -> int:
    """Return how many of ``slots`` are on ``nodes``."""
    return sum(mask.bit_count() for name, mask in slots if name in nodes)
