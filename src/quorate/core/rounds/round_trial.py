"""Try which runs of a pool fit together into the empty pool, to choose the runs of a round.

If a run that cannot start were chosen, GPUs would be idle until the next round. This module checks
the placement and the limits on nodes, but not money. See docs/adr/0024-rounds-pools.md.
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
"""How many placements of a run are tried to find one within its limits on nodes.

If none of them does, the run has to wait for the next round."""


def is_free_to_spread(run: Run) -> bool:
    """Return whether ``run`` can use any GPUs of a flavor, in any combination."""
    return run.cross_group_spread and run.group_gpus is None and not run.selector


class Room:
    """The free GPUs of a pool as if its runs had no GPUs; runs are then placed in it on trial.

    Work outside the pool keeps its GPUs. The state of the ledger does not change.
    """

    __slots__ = ("_pool", "_state")

    def __init__(self, state: State, pool: Pool) -> None:
        self._state = state
        self._pool = pool

    @classmethod
    def empty(cls, view: StateView, pool: str) -> Room:
        """Return the room of ``pool`` in which none of its runs has GPUs."""
        room = cls(view.overlay(), view.pools[pool])
        for name, known in view.in_rounds.items():
            for lease in view.runs[name].leases if known.pool == pool else ():
                room.leave(name, view.leases[lease].fact.slots)
        return room

    def over(self) -> Room:
        """Return a copy of this room; changes of the copy do not change this room."""
        return Room(self._state.overlay(), self._pool)

    def shape(self, run: Run, flavor: str) -> Hashable:
        """Return a key that is equal for runs with the same size and placement rules."""
        owner = run.owner if Headroom.of(self._state, run.owner) is not None else ""
        groups = (run.group_gpus, run.cross_group_spread)
        return (flavor, run.gpus, groups, run.selector, owner)

    def find(self, run: Run, flavor: str, prefer: frozenset[str] = frozenset()) -> PackPlan | None:
        """Return a placement of ``run``, in the domains ``prefer`` if possible, or None."""
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
        """Return whether all slots in ``parts`` are free, and quotas allow ``run`` to use them."""
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
    """Return why ``run`` would not fit into the empty pool, judged by the sizes of its domains.

    If the result is None, the run may still not fit. ``Room`` also considers cordoned nodes, racks
    and parts of nodes, which this function does not.
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
    """Return (node, number of GPUs in ``parts`` on this node) for each node, sorted by node."""
    found: dict[str, int] = {}
    for slots in parts:
        for node, mask in slots:
            found[node] = found.get(node, 0) + mask.bit_count()
    return tuple(sorted(found.items()))
