"""Tries which runs of a pool fit into the empty pool together, to choose the runs of a round.

If a round chose a run that cannot start, GPUs would be idle until the next round. This module
checks the placement and the limits on nodes, but not money. docs/adr/0024-rounds-pools.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import chain
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.domain_offer import DomainOffers
from quorate.core.admission.hard_quota import Headroom
from quorate.core.admission.layout import pack_request
from quorate.core.admission.pack import PackPlan, pick_slots
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.spread import spreads
from quorate.core.admission.target_slices import least_deficit, no_placement
from quorate.model.events import Slots
from quorate.model.refusal import Refusal
from quorate.model.specs import Pool, Run
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

STEPS_MAX: Final = 200
"""How many placements are tried to keep within a limit on nodes, before the run has to wait for the
next round."""


def is_free_to_spread(run: Run) -> bool:
    """Return whether ``run`` can use any GPUs of a flavor, in any combination."""
    return run.cross_group_spread and run.group_gpus is None and not run.selector


class Room:
    """The GPUs of a pool without its runs. GPUs that are taken from the room are no longer free.

    Work outside the pool keeps its GPUs. The state of the ledger does not change.
    """

    __slots__ = ("_pool", "_state")

    def __init__(self, state: State, pool: Pool) -> None:
        self._state = state
        self._pool = pool

    @classmethod
    def empty(cls, view: StateView, pool: str) -> Room:
        """Return the room of ``pool`` without its runs."""
        room = cls(view.overlay(), view.pools[pool])
        for name, known in view.in_rounds.items():
            for lease in view.runs[name].leases if known.pool == pool else ():
                room.leave(name, view.leases[lease].fact.slots)
        return room

    def over(self) -> Room:
        """Return a copy of this room. Taking GPUs from the copy does not change this room."""
        return Room(self._state.overlay(), self._pool)

    def shape(self, run: Run, flavor: str) -> Hashable:
        """Return a key that is equal for runs with the same size and placement rules."""
        owner = run.owner if Headroom.of(self._state, run.owner) is not None else ""
        groups = (run.group_gpus, run.cross_group_spread)
        return (flavor, run.gpus, groups, run.selector, owner)

    def find(self, run: Run, flavor: str, prefer: frozenset[str] = frozenset()) -> PackPlan | None:
        """Return a placement of ``run``, if possible in the domains ``prefer``; else None."""
        state, headroom = self._state, Headroom.of(self._state, run.owner)
        request = replace(pack_request(run, self._pool, flavor, run.gpus), prefer=prefer)
        domain_offers = DomainOffers(state, request)
        if headroom is None:
            spread = next(spreads(domain_offers, None, SearchBudget()), None)
            return None if spread is None else pick_slots(spread, request)
        islands = [domain_offer.island for domain_offer in domain_offers.most_free()]
        if headroom.refuses_wherever(islands, run.gpus) is not None:
            return None
        for spread in spreads(domain_offers, lambda _: True, SearchBudget(STEPS_MAX)):
            for kept in (headroom.kept, None):
                plan = pick_slots(spread, request, kept)
                if headroom.refuses(plan.nodes) is None:
                    return plan
        return None

    def why_not(self, run: Run, flavor: str) -> Refusal | None:
        """Return why ``run`` does not fit, with the number of missing GPUs; None if it fits."""
        if self.find(run, flavor) is not None:
            return None
        headroom = Headroom.of(self._state, run.owner)
        request = pack_request(run, self._pool, flavor, run.gpus)
        refused = None if headroom is None else headroom.refuses_at_least(run)
        return refused or no_placement(
            request, list(DomainOffers(self._state, request).most_free())
        )

    def has(self, run: str, parts: Iterable[Slots]) -> bool:
        """Return whether all slots in ``parts`` are free and quotas let ``run`` use them."""
        state, names = self._state, set[str]()
        for name, mask in chain.from_iterable(parts):
            record = state.nodes[name]
            if mask & ~state.island(record.island).free[record.position]:
                return False
            names.add(name)
        headroom = Headroom.of(state, state.runs[run].spec.owner)
        return headroom is None or headroom.refuses(names) is None

    def take(self, run: str, slots: Slots) -> None:
        """Give ``slots`` to ``run``; all of them must be free."""
        self._state.occupy(slots)
        self._state.hold_slots(run, slots)

    def leave(self, run: str, slots: Slots) -> None:
        """Take ``slots`` back from ``run``."""
        self._state.vacate(slots)
        self._state.drop_slots(run, slots)


def too_big(view: StateView, run: Run, flavor: str) -> Refusal | None:
    """Return why ``run`` would not fit into the empty pool, by the sizes of its domains.

    If the result is None, the run may still not fit: ``Room`` also considers cordoned nodes, racks
    and parts of nodes.
    """
    request = pack_request(run, view.pools[run.pool], flavor, run.gpus)
    domain_offers = list(DomainOffers(view, request).most_free())
    if domain_offers and least_deficit(request, domain_offers) is not None:
        return None
    empty = [
        replace(domain_offer, gpus_free=domain_offer.island.gpus_total)
        for domain_offer in domain_offers
    ]
    return no_placement(request, empty)


def nodes_of(parts: Iterable[Slots]) -> tuple[tuple[str, int], ...]:
    """Return the number of GPUs in ``parts`` on each node, sorted by node."""
    found: dict[str, int] = {}
    for slots in parts:
        for node, mask in slots:
            found[node] = found.get(node, 0) + mask.bit_count()
    return tuple(sorted(found.items()))
