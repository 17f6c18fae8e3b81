"""Seeded random numbers: the same seed has the same draws on every machine, for ever.

The numbers are those of the Mersenne Twister as Python's ``random`` seeds and uses it, with which
the published results were drawn. They are written out here, because the way ``random`` chooses two
of several may change between versions of Python.
"""

from __future__ import annotations

from typing import Final

import numpy as np

SEED_MAX: Final = 2**32 - 1
POOLED_MAX: Final = 21
"""Up to this many candidates a draw removes the drawn one; with more, a repeated draw is drawn
again."""

_WORD_BITS: Final = 32


class Chance:
    """A stream of draws."""

    def __init__(self, seed: int) -> None:
        assert 0 <= seed <= SEED_MAX, seed
        # The newer generators of numpy have no way to be seeded like this one.
        self._words = np.random.RandomState([seed])

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count - 1``, each as likely."""
        assert 0 < count < 2**_WORD_BITS, count
        bits = count.bit_length()
        while True:
            word = int(self._words.randint(0, 2**_WORD_BITS, dtype=np.uint32))
            found = word >> (_WORD_BITS - bits)
            if found < count:
                return found

    def two_of(self, count: int) -> tuple[int, int]:
        """Return two different numbers below ``count``, in the order they were drawn."""
        first = self.below(count)
        if count <= POOLED_MAX:
            # The last takes the place of the one that was drawn.
            second = self.below(count - 1)
            return first, count - 1 if second == first else second
        while (second := self.below(count)) == first:
            pass
        return first, second
