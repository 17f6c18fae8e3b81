"""A cache between decisions: the domains that runs may use, and when leases leave room there.

A site is a set of domains that runs may use. For a site and a number of GPUs, the index has a bound
for each domain: an instant before which the domain cannot have this number of GPUs free. The bound
is valid until an event concerns the domain. A bound in the past is still correct, because the
expected end of an overdue lease never becomes earlier as time passes. But past bounds are computed
again, because otherwise every search would examine the domains of these bounds. An overlay records
which domains change in the overlay, and reads everything else from the base index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from heapq import heapify
from typing import Any, Final

from msgspec import Struct

from quorate.model.specs import EnvelopeId
from quorate.model.state.free_slots import IslandKey

Bound = tuple[int, int]
"""(instant before which a domain has too few free GPUs, number of the domain in its site)."""
BoundOf = Callable[[IslandKey, int], int | None]
"""A function of a domain and a number of GPUs. It returns when the domain has so many free GPUs if
no start is planned; None means never."""

_CHANGES_MAX: Final = 4_096
"""How many changes of domains are remembered before all bounds are computed again."""
_KEPT_MAX: Final = 1_024
"""The most pairs of a site and a number of GPUs that may have cached bounds."""


class Domain(Struct, frozen=True, gc=False):
    """A domain that a run may use; ``nodes_gpus`` is the size of the domain's largest nodes."""

    key: IslandKey
    labels: Mapping[str, str]
    nodes_gpus: int


class Site(Struct, frozen=True, gc=False):
    """The domains that a run may use, ordered by their keys. ``number`` identifies the site."""

    number: int
    domains: tuple[Domain, ...]
    numbers: dict[IslandKey, int]
    node_sizes: frozenset[int]


class _Bounds:
    """The heap of bounds of one site for one number of GPUs.

    The first ``changes`` entries of ``RoomIndex.changes`` are taken into account in the bounds.
    """

    __slots__ = ("changes", "found", "site", "stale")

    def __init__(self, site: Site, changes: int, stale: set[IslandKey]) -> None:
        self.site = site
        self.found: list[Bound] = []
        self.changes = changes
        self.stale = stale
        """The domains whose bounds were not computed, because they had changed in a layer."""


class RoomIndex:
    """The sites and the bounds that were cached so far."""

    __slots__ = (
        "asked_ms",
        "below",
        "bounds",
        "changed",
        "changed_payers",
        "changes",
        "kept",
        "plan",
        "sites",
        "touched",
        "touched_payers",
    )

    def __init__(self, below: RoomIndex | None = None) -> None:
        self.below = below
        self.asked_ms = -1
        """The instant for which bounds were last read; -1 if no bounds were read yet."""
        self.kept: dict[Hashable, Any] = {}
        """Cached results that depend on no lease: which domains a run may use, and a run's payers.
        """
        self.sites = 0
        self.bounds: dict[tuple[int, int], _Bounds] = {}
        self.changes: list[IslandKey] = []
        self.changed: set[IslandKey] = set()
        """The domains that differ from the layer below."""
        self.changed_payers: set[EnvelopeId] = set()
        """The payers whose leases or GPU-hours differ from the layer below."""
        self.plan: Any = None
        """The plan of the last walk over the queue; None before the first walk, and in a layer."""
        self.touched: set[IslandKey] = set()
        """The domains that have changed since the last walk over the queue."""
        self.touched_payers: set[EnvelopeId] = set()
        """The payers whose leases or GPU-hours have changed since the last walk."""

    def layer(self) -> RoomIndex:
        """Return a layer over this index, which records its changes separately."""
        return RoomIndex(self)

    @property
    def last_asked_ms(self) -> int:
        """The instant for which bounds were last read, in any layer; -1 if none were read yet."""
        return self.base.asked_ms

    @property
    def base(self) -> RoomIndex:
        """The base index, which keeps all entries."""
        index = self
        while index.below is not None:
            index = index.below
        return index

    def site(self, domains: Collection[Domain], node_sizes: Collection[int]) -> Site:
        """Return a new site of ``domains``."""
        base = self.base
        base.sites += 1
        numbers = {domain.key: number for number, domain in enumerate(domains)}
        return Site(base.sites, tuple(domains), numbers, frozenset(node_sizes))

    def kept_bounds(self) -> list[tuple[Site, int]]:
        """Return the sites and numbers of GPUs whose bounds are cached."""
        return [(bounds.site, gpus) for (_, gpus), bounds in self.base.bounds.items()]

    def island_changed(self, key: IslandKey) -> None:
        """Record that a domain has changed."""
        if self.below is not None:
            self.changed.add(key)
            return
        if self.plan is not None:
            self.touched.add(key)
        if self.bounds:
            self.changes.append(key)
            if len(self.changes) > _CHANGES_MAX:
                self.changes, self.bounds = [], {}

    def payer_changed(self, payer: EnvelopeId) -> None:
        """Record that ``payer`` has changed: its leases, or the amount that it has promised."""
        if self.below is not None:
            self.changed_payers.add(payer)
        elif self.plan is not None:
            self.touched_payers.add(payer)

    def changed_above(self) -> set[IslandKey]:
        """Return the domains that differ between this layer and the base index."""
        changed, index = set[IslandKey](), self
        while index.below is not None:
            changed |= index.changed
            index = index.below
        return changed

    def payers_changed_above(self) -> set[EnvelopeId]:
        """Return the payers that differ between this layer and the base index."""
        changed, index = set[EnvelopeId](), self
        while index.below is not None:
            changed |= index.changed_payers
            index = index.below
        return changed

    def last_plan(self) -> tuple[Any, set[IslandKey]]:
        """Return the last walk's plan, or None, and the domains that have changed since then."""
        base = self.base
        return base.plan, base.touched | self.changed_above()

    def payers_since_plan(self) -> set[EnvelopeId]:
        """Return the payers that have changed since the last walk."""
        return self.base.touched_payers | self.payers_changed_above()

    def keep_plan(self, plan: object) -> None:
        """Keep the plan of a walk over the queue, for the next walk."""
        base = self.base
        base.plan, base.touched = plan, self.changed_above()
        base.touched_payers = self.payers_changed_above()

    def bounds_of(self, site: Site, gpus: int, now_ms: int, bound_of: BoundOf) -> list[Bound]:
        """Return a heap of (instant, number of a domain in ``site``).

        Before its instant, a domain cannot have ``gpus`` GPUs free. Instants may be in the past.
        Domains that never have that many GPUs free are left out.
        """
        changed, base = self.changed_above(), self.base
        base._drop_some()  # noqa: SLF001 - an object of the same class
        if now_ms < base.asked_ms:
            # If time went back, a lease that was overdue before may now be expected to end sooner.
            base.bounds, base.changes = {}, []
        base.asked_ms = now_ms
        cached = base.bounds.get((site.number, gpus))
        if cached is None:
            cached = base.bounds[site.number, gpus] = _Bounds(site, len(base.changes), set(changed))
            stale = set(site.numbers)
        else:
            stale = cached.stale.union(base.changes[cached.changes :])
            cached.changes, cached.stale = len(base.changes), stale & changed
            # These bounds depend on leases that are overdue by now. Such leases are now expected to
            # end later than when the bounds were computed.
            late = (number for at_ms, number in cached.found if 0 < at_ms < now_ms)
            stale.update(site.domains[number].key for number in late)
        _find(cached.found, site, gpus, stale - changed, bound_of)
        bounds = cached.found.copy()
        _find(bounds, site, gpus, changed, bound_of)
        return bounds

    def _drop_some(self) -> None:
        """Empty the caches if one of them has too many entries."""
        if len(self.bounds) > _KEPT_MAX or len(self.kept) > _KEPT_MAX:
            self.bounds, self.kept, self.changes = {}, {}, []


def _find(
    bounds: list[Bound], site: Site, gpus: int, stale: Collection[IslandKey], bound_of: BoundOf
) -> None:
    """Compute the bounds of the ``stale`` domains again, and replace them in ``bounds``, a heap."""
    numbers = {site.numbers[key]: key for key in stale if key in site.numbers}
    if not numbers:
        return
    bounds[:] = [bound for bound in bounds if bound[1] not in numbers]
    for number, key in numbers.items():
        at_ms = bound_of(key, gpus)
        if at_ms is not None:
            bounds.append((at_ms, number))
    heapify(bounds)
