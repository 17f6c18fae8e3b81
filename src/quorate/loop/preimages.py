"""The lottery's secret, and the links of the chain that ends with this secret.

A link costs one hash for each step from the secret to the link. So one link in every ``STRETCH`` is
remembered: the first call computes the whole chain, and a later call at most ``STRETCH`` hashes.
The process remembers the last chains that it used. So a service that creates a ledger and then
checks the secret computes the chain only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from quorate.core.preemption.lottery import LINK_BYTES, chain_back

STRETCH: Final = 1_000
"""The number of links from one remembered link to the next."""
_CHAINS_MAX: Final = 4


class Preimages:
    """The links of the chain that ends with ``secret``.

    Link 0 is public; the other links are revealed one by one.
    """

    __slots__ = ("length", "secret")

    def __init__(self, secret: bytes, length: int) -> None:
        assert len(secret) == LINK_BYTES, len(secret)
        self.secret = secret
        self.length = length

    def link(self, number: int) -> bytes:
        """Return link ``number`` of the chain."""
        assert 0 <= number <= self.length, (number, self.length)
        at = min(self.length, -(-number // STRETCH) * STRETCH)
        return chain_back(_remembered(self.secret, self.length)[at], at - number)


@lru_cache(_CHAINS_MAX)
def _remembered(secret: bytes, length: int) -> Mapping[int, bytes]:
    """Return one link in every ``STRETCH`` of the chain that ends with ``secret``, by number."""
    number, link = length, secret
    found = {number: link}
    while number:
        count = number % STRETCH or STRETCH
        number, link = number - count, chain_back(link, count)
        found[number] = link
    return found
