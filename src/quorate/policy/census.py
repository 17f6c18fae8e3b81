"""How many jobs there are of each kind, counted as they come and go, and shares for each kind.

After one arrival the counts have changed by one, so that the next answer is a few steps from the
last, at any number of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.highest import Aim, by_counts
from quorate.policy.lp import Basis
from quorate.policy.problem import Ints, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a policy reads of a job: its rate on each flavor, how many GPUs it takes, its weight."""

    rates: tuple[float, ...]
    scale: int = 1
    weight: float = 1.0


class Census:
    """The jobs of a pool by kind, and what was last found for them."""

    def __init__(self, flavors: tuple[str, ...], gpus: Ints) -> None:
        self.flavors = flavors
        self.gpus = gpus
        self.counts: dict[Kind, int] = {}
        self._problem: Problem | None = None
        self._basis: Basis | None = None

    def add(self, kind: Kind) -> None:
        """Count one more job of ``kind``."""
        assert len(kind.rates) == len(self.flavors), kind
        if kind not in self.counts:
            self._forget()
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def remove(self, kind: Kind) -> None:
        """Count one job less of ``kind``, of which there must be one."""
        self.counts[kind] -= 1
        if not self.counts[kind]:
            del self.counts[kind]
            self._forget()

    def solve(self, aim: Aim) -> Allocation | Unsolved:
        """Return shares for a job of each kind, in the order of ``counts``.

        ``aim`` reads nothing of a job but what a kind says. The answer's jobs are the kinds.
        """
        if self._problem is None:
            self._problem = _problem(self.flavors, self.gpus, tuple(self.counts))
        counts = np.fromiter(self.counts.values(), dtype=np.int64, count=len(self.counts))
        found, self._basis = by_counts(self._problem, aim, counts, self._basis)
        return found

    def _forget(self) -> None:
        self._problem = self._basis = None


def _problem(flavors: tuple[str, ...], gpus: Ints, kinds: tuple[Kind, ...]) -> Problem:
    nothing = np.zeros(len(kinds))
    return Problem(
        flavors=flavors,
        gpus=gpus,
        jobs=tuple(f"kind {number}" for number in range(len(kinds))),
        rates=np.array([kind.rates for kind in kinds]).reshape(len(kinds), len(flavors)),
        scales=np.array([kind.scale for kind in kinds], dtype=np.int64),
        weights=np.array([kind.weight for kind in kinds]),
        steps_left=nothing,
        ages_s=nothing,
        isolated_s=nothing,
        deadlines_s=np.full(len(kinds), np.inf),
    )
