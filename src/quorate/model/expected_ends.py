"""What was found out about the ends that leases have said; dropped where a lease changes.

An overlay has a layer of its own: what it finds out about something that has not changed in it is
kept below, for whoever asks next.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from quorate.model.island import IslandKey
from quorate.model.specs import EnvelopeId

Curve = tuple[list[int], list[int]]
"""Instants in order, and how many GPUs have come free by each of them."""

End = tuple[int, int, str]
"""(instant, GPUs, lease): so many GPUs come free when that lease ends."""

Kept = tuple[list[End], Curve]
"""Ends in order, and the curve that they make."""


@dataclass(slots=True)
class Ends:
    """The ends that leases have said, by island and by payer, in order; told at any instant."""

    islands: dict[IslandKey, Kept] = field(default_factory=dict)
    payers: dict[EnvelopeId, Kept] = field(default_factory=dict)
    below: Ends | None = None
    gone_islands: set[IslandKey] = field(default_factory=set)
    gone_payers: set[EnvelopeId] = field(default_factory=set)

    def layer(self) -> Ends:
        """Return a layer over this one: what is dropped in it stays here."""
        return Ends(below=self)

    def island(self, key: IslandKey) -> Kept | None:
        """Return what is known of an island."""
        known = self.islands.get(key)
        if known is None and self.below is not None and key not in self.gone_islands:
            return self.below.island(key)
        return known

    def keep_island(self, key: IslandKey, kept: Kept) -> None:
        """Keep what was found out of an island, as far below as that holds."""
        if self.below is not None and key not in self.gone_islands:
            self.below.keep_island(key, kept)
        else:
            self.islands[key] = kept

    def payer(self, key: EnvelopeId) -> Kept | None:
        """Return what is known of a payer."""
        known = self.payers.get(key)
        if known is None and self.below is not None and key not in self.gone_payers:
            return self.below.payer(key)
        return known

    def keep_payer(self, key: EnvelopeId, kept: Kept) -> None:
        """Keep what was found out of a payer, as far below as that holds."""
        if self.below is not None and key not in self.gone_payers:
            self.below.keep_payer(key, kept)
        else:
            self.payers[key] = kept

    def drop(self, islands: Collection[IslandKey], payer: EnvelopeId) -> None:
        """Forget what a lease of ``payer`` on ``islands``, which has changed, has part in."""
        for key in islands:
            self.islands.pop(key, None)
        self.payers.pop(payer, None)
        if self.below is not None:
            self.gone_islands.update(islands)
            self.gone_payers.add(payer)
