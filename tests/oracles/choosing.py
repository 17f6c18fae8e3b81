"""How worlds are drawn: by Hypothesis, which shrinks what fails, or uniformly, which finds more.

Hypothesis prefers small and regular examples. That is what one wants to read, and too seldom what
breaks a packer: ties, full domains and limits that meet. So every other world is uniform.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Chooser(ABC):
    """Makes choices. Everything comes down to ``number``."""

    @abstractmethod
    def number(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both included."""

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of ``options``."""
        return options[self.number(0, len(options) - 1)]

    def flip(self) -> bool:
        """Return yes or no."""
        return self.number(0, 1) == 1

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """Return between ``low`` and ``high`` different ones of ``options``, in any order."""
        left = list(options)
        count = self.number(low, min(high, len(left)))
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(count)]

    def maybe(self, low: int, high: int) -> int | None:
        """Return a number, or None as often as not."""
        return self.number(low, high) if self.flip() else None


class _Drawn(Chooser):
    """Choices by Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


class _Uniform(Chooser):
    """Choices by a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


def chooser(draw: st.DrawFn) -> Chooser:
    """Return who chooses in this example."""
    seed = draw(st.none() | st.integers(0, 2**64 - 1))
    return _Drawn(draw) if seed is None else _Uniform(seed)
