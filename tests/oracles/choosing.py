"""Two ways to draw worlds: with Hypothesis, which shrinks failures, or uniformly.

Hypothesis prefers small and regular examples. They are easy to read, but rarely have the properties
that break a packer: ties, full domains and limits that meet. So every second world is drawn
uniformly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Chooser(ABC):
    """Makes choices, all of them by ``number``."""

    @abstractmethod
    def number(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both included."""

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of ``options``."""
        return options[self.number(0, len(options) - 1)]

    def flip(self) -> bool:
        """Return True or False."""
        return self.number(0, 1) == 1

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """Return between ``low`` and ``high`` different ones of ``options``, in any order."""
        left = list(options)
        count = self.number(low, min(high, len(left)))
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(count)]

    def maybe(self, low: int, high: int) -> int | None:
        """Return a number, or None with the same probability."""
        return self.number(low, high) if self.flip() else None


class _Drawn(Chooser):
    """Choices of Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


class _Uniform(Chooser):
    """Choices of a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


def chooser(draw: st.DrawFn) -> Chooser:
    """Return the chooser of this example."""
    seed = draw(st.none() | st.integers(0, 2**64 - 1))
    return _Drawn(draw) if seed is None else _Uniform(seed)
