"""The domains of one pool and flavor, by the number of their free GPUs.

Domains are numbered in key order. Bit n of ``levels`` is set if some domain has n free GPUs, and
``at`` has the domains with each number of free GPUs. So Quorate finds, of all domains with enough
free GPUs, the one with the fewest; this is as fast among ten thousand domains as among ten. Domains
with equally many free GPUs are ordered by key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.model.state.free_slots import IslandKey


@dataclass(slots=True)
class DomainIndex:
    """The domains by their free GPUs. ``gpus_total`` is the number of all GPUs, free or not."""

    keys: tuple[IslandKey, ...]
    numbers: dict[str, int]
    levels: int
    at: dict[int, int]
    gpus_total: int

    @classmethod
    def build(cls, gpus_free: dict[IslandKey, int], *, gpus_total: int) -> DomainIndex:
        """Return the index of islands with these free GPUs; ``gpus_total`` counts all GPUs."""
        keys = tuple(sorted(gpus_free, key=lambda key: key.domain))
        numbers = {key.domain: number for number, key in enumerate(keys)}
        index = cls(keys, numbers, 0, {}, gpus_total)
        for number, key in enumerate(keys):
            index._add(number, gpus_free[key])
        return index

    def copy(self) -> DomainIndex:
        """Return a copy of the index, independent of this one."""
        return DomainIndex(self.keys, self.numbers, self.levels, self.at.copy(), self.gpus_total)

    @property
    def gpus_free(self) -> int:
        """How many GPUs are free; this is fast, because it does not visit each domain."""
        return sum(free * domains.bit_count() for free, domains in self.at.items())

    def move(self, domain: str, *, was: int, now: int) -> None:
        """Record that the free GPUs of ``domain`` changed from ``was`` to ``now``."""
        number = self.numbers[domain]
        left = self.at[was] & ~(1 << number)
        if left:
            self.at[was] = left
        else:
            del self.at[was]
            self.levels &= ~(1 << was)
        self._add(number, now)

    def _add(self, number: int, gpus_free: int) -> None:
        self.at[gpus_free] = self.at.get(gpus_free, 0) | 1 << number
        self.levels |= 1 << gpus_free

    def least_free(self, need: int) -> Iterator[tuple[int, IslandKey]]:
        """Yield (free, key) of domains with at least ``need`` free GPUs: fewest first.

        Domains with equally many free GPUs are in key order.
        """
        levels = self.levels >> need
        while levels:
            low = levels & -levels
            levels ^= low
            yield from self._level(need + low.bit_length() - 1)

    def most_free(self, need: int = 0) -> Iterator[tuple[int, IslandKey]]:
        """Yield (free, key) of domains with at least ``need`` free GPUs: most first.

        Domains with equally many free GPUs are in key order.
        """
        levels = self.levels >> need
        while levels:
            top = levels.bit_length() - 1
            levels ^= 1 << top
            yield from self._level(need + top)

    def _level(self, gpus_free: int) -> Iterator[tuple[int, IslandKey]]:
        domains = self.at[gpus_free]
        while domains:
            low = domains & -domains
            domains ^= low
            yield gpus_free, self.keys[low.bit_length() - 1]
