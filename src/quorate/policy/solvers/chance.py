"""Seeded random numbers: a seed gives the same draws on every machine and Python version.

The generator is the Mersenne Twister, seeded and used like Python's ``random``, with which the
published results were drawn. The code of ``random`` is repeated here, because the way in which it
chooses two of several may change between versions of Python.
"""

from __future__ import annotations

from typing import Final

import numpy as np

SEED_MAX: Final = 2**32 - 1
POOLED_MAX: Final = 21
"""With up to 21 candidates, the candidate that was drawn first is removed before the second draw.
With more candidates, the second draw is repeated until it differs from the first."""

_WORD_BITS: Final = 32


class Chance:
    """A sequence of random draws."""

    def __init__(self, seed: int) -> None:
        assert 0 <= seed <= SEED_MAX, seed
        # The newer generators of numpy cannot be seeded in this way.
        self._words = np.random.RandomState([seed])

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count - 1``, all equally likely."""
        assert 0 < count < 2**_WORD_BITS, count
        bits = count.bit_length()
        while True:
            word = int(self._words.randint(0, 2**_WORD_BITS, dtype=np.uint32))
            found = word >> (_WORD_BITS - bits)
            if found < count:
                return found

    def two_of(self, count: int) -> tuple[int, int]:
        """Return two different numbers below ``count``, in the order of their draws."""
        first = self.below(count)
        if count <= POOLED_MAX:
            # The last candidate takes the place of the drawn candidate.
            second = self.below(count - 1)
            return first, count - 1 if second == first else second
        while (second := self.below(count)) == first:
            pass
        return first, second
