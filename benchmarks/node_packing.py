"""Packers that choose a node for each piece of work of whole GPUs, by published rules.

Work needs all of its GPUs on one node. *First fit* takes the first node with room, *best fit* the
node with room that has the fewest free GPUs, and *fragmentation gradient* the node on which the
expected fragments grow least. Ties go to the earlier node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Piece:
    """Work that needs ``gpus`` GPUs of one node."""

    name: str
    gpus: int


class Packer(Protocol):
    """Places work on nodes, and removes it."""

    def place(self, piece: Piece) -> bool:
        """Place ``piece``; return False if no node has room."""
        ...

    def remove(self, piece: Piece) -> None:
        """Free the GPUs of ``piece``, which was placed."""
        ...

    def free(self) -> Sequence[int]:
        """Return the number of free GPUs of each node, in the order of the nodes."""
        ...


Choose = Callable[[Sequence[int], int], int | None]
"""Returns the node for a number of GPUs, given the free GPUs of nodes; None if none has room."""


class RulePacker:
    """A packer that follows one rule over all nodes."""

    def __init__(self, sizes: Iterable[int], choose: Choose) -> None:
        self._free = list(sizes)
        self._choose = choose
        self._at: dict[str, int] = {}

    def place(self, piece: Piece) -> bool:
        """Place ``piece`` by the rule; return False if no node has room."""
        found = self._choose(self._free, piece.gpus)
        if found is None:
            return False
        self._free[found] -= piece.gpus
        self._at[piece.name] = found
        return True

    def remove(self, piece: Piece) -> None:
        """Free the GPUs of ``piece``, which was placed."""
        self._free[self._at.pop(piece.name)] += piece.gpus

    def free(self) -> Sequence[int]:
        """Return the number of free GPUs of each node."""
        return self._free


def first_fit(free: Sequence[int], gpus: int) -> int | None:
    """Return the first node with room."""
    return min((free.index(left) for left in set(free) if left >= gpus), default=None)


def best_fit(free: Sequence[int], gpus: int) -> int | None:
    """Of the nodes with room, return the first with the fewest free GPUs."""
    least = min((left for left in set(free) if left >= gpus), default=None)
    return None if least is None else free.index(least)


def least_gradient(parts: Mapping[int, float]) -> Choose:
    """Return the rule that chooses the node on which the expected fragments grow least.

    ``parts`` has, for each size, its part of the work.
    """

    def choose(free: Sequence[int], gpus: int) -> int | None:
        grown = (
            (fragments(left - gpus, parts) - fragments(left, parts), free.index(left))
            for left in set(free)
            if left >= gpus
        )
        return min(grown, default=(0.0, None))[1]

    return choose


def parts_of(pieces: Iterable[Piece]) -> dict[int, float]:
    """Return, for each size, its part of ``pieces``."""
    count = Counter(piece.gpus for piece in pieces)
    total = sum(count.values())
    return {gpus: number / total for gpus, number in sorted(count.items())}


def fragments(free: int, parts: Mapping[int, float]) -> float:
    """Return how many of a node's ``free`` GPUs the next piece cannot use, on average.

    A piece that needs more GPUs than are free can use none of them.
    """
    return free * sum(part for gpus, part in parts.items() if gpus > free)


def fragments_in(free: Iterable[int], parts: Mapping[int, float]) -> float:
    """Return the sum of the expected fragments of all nodes, in GPUs."""
    return sum(fragments(left, parts) * nodes for left, nodes in Counter(free).items())
