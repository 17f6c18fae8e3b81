"""Cached expected ends of leases, updated when a lease changes.

An overlay has its own layer of the cache. If the leases of a result have not changed in the
overlay, the result is stored in the layer below, where later overlays find it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from quorate.model.specs import EnvelopeId
from quorate.model.state.free_slots import IslandKey

Curve = tuple[list[int], list[int]]
"""(instants in order, how many GPUs come free up to each instant)."""

End = tuple[int, int, str]
"""(instant, GPUs, lease): when the lease ends, and how many GPUs come free then."""


@dataclass(slots=True)
class Kept:
    """Ends of leases in order, with their curves: the declared ends, and the expected ends.

    The expected end of an overdue lease is later than its declared end. ``expected`` is valid from
    ``from_ms`` to ``until_ms``, both included, because no other lease becomes overdue in this time.
    """

    said: list[End]
    said_curve: Curve
    expected: list[End] = field(default_factory=list)
    expected_curve: Curve = field(default_factory=lambda: ([], []))
    from_ms: int = 0
    until_ms: int = -1


K = TypeVar("K")

_NOTHING: Final = frozenset[str]()


@dataclass(slots=True)
class EndsBy(Generic[K]):
    """The cached ends of leases by key. A key is an island, a payer, or the owner of a hard quota.

    ``changed`` has the leases of each key that have changed since the key's ends were cached.
    """

    found: dict[K, Kept] = field(default_factory=dict)
    changed: dict[K, set[str]] = field(default_factory=dict)
    below: EndsBy[K] | None = None

    def get(self, key: K) -> tuple[Kept, frozenset[str]] | None:
        """Return the cached ends of ``key``, and the leases that have changed since then."""
        layer, changed = self, _NOTHING
        while True:
            more = layer.changed.get(key)
            if more:
                changed = changed | more
            known = layer.found.get(key)
            if known is not None:
                return known, changed
            if layer.below is None:
                return None
            layer = layer.below

    def keep(self, key: K, kept: Kept) -> None:
        """Cache ``kept`` for ``key``: here if ``key`` has entries here, else in the layer below."""
        if self.below is not None and key not in self.found and key not in self.changed:
            self.below.keep(key, kept)
            return
        self.found[key] = kept
        if self.below is None:
            self.changed.pop(key, None)
        else:
            self.changed[key] = set()  # The ends here differ from those below.

    def change(self, key: K, lease: str) -> None:
        """Record that ``lease``, which belongs or belonged to ``key``, has changed."""
        if self.below is not None or key in self.found:
            known = self.changed.get(key)
            if known is None:
                self.changed[key] = {lease}
            else:
                known.add(lease)

    def layer(self) -> EndsBy[K]:
        """Return a layer over this one."""
        return EndsBy(below=self)


@dataclass(slots=True)
class Ends:
    """The cached ends of leases, by island, by payer and by hard quota."""

    islands: EndsBy[IslandKey] = field(default_factory=EndsBy[IslandKey])
    payers: EndsBy[EnvelopeId] = field(default_factory=EndsBy[EnvelopeId])
    quotas: EndsBy[str] = field(default_factory=EndsBy[str])
    """Ends by the owner of a hard quota. They are dropped when families or quotas change."""

    @property
    def is_asked(self) -> bool:
        """Whether any ends were read, in this layer or in a layer below."""
        found = self.islands.found or self.payers.found or self.quotas.found
        return self.islands.below is not None or bool(found)

    def layer(self) -> Ends:
        """Return a layer over this one; changes in the new layer do not change this one."""
        return Ends(self.islands.layer(), self.payers.layer(), self.quotas.layer())
