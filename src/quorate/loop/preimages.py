"""The lottery's secret, and the links of the chain that it ends.

The cost of a link in hashes is its distance from the secret, so one link in so many is remembered:
the first call costs the whole chain, each later one at most one stretch.
"""

from __future__ import annotations

from typing import Final

from quorate.core.preemption.lottery import LINK_BYTES, chain_back

STRETCH: Final = 1_000
"""How many links lie between two that are remembered."""


class Preimages:
    """The links of the chain that ``secret`` ends; link 0 is public, the others come one by one."""

    __slots__ = ("_known", "length", "secret")

    def __init__(self, secret: bytes, length: int) -> None:
        assert len(secret) == LINK_BYTES, len(secret)
        self.secret = secret
        self.length = length
        self._known: dict[int, bytes] = {}

    def link(self, number: int) -> bytes:
        """Return link ``number`` of the chain."""
        assert 0 <= number <= self.length, (number, self.length)
        if not self._known:
            self._remember()
        at = min(self.length, -(-number // STRETCH) * STRETCH)
        return chain_back(self._known[at], at - number)

    def _remember(self) -> None:
        number, link = self.length, self.secret
        self._known[number] = link
        while number:
            count = number % STRETCH or STRETCH
            number, link = number - count, chain_back(link, count)
            self._known[number] = link
