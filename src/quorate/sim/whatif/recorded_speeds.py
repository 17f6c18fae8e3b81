"""The rates of runs in pools of rounds, on each flavor, and the steps that the runs reported.

A measured rate is the mean over all step counts of the run. If a run has no measured rate on a
flavor, its declared rate is used. Rates are in millionths of a step per second of the whole run, as
in the ledger.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from quorate.core.rounds.round_rates import UNKNOWN_RATE, declared_rate, paired_rates
from quorate.model import events as e
from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.specs import Pool, Run

STEP: Final = PPM * SECOND_MS
"""One step of a run with one GPU, in units of work: rate times milliseconds times GPUs."""


class RecordedRates:
    """The rates of all runs of a ledger, on the flavors of its nodes."""

    def __init__(self, events: Iterable[e.Event]) -> None:
        self._flavors: dict[str, str] = {}
        self._pools: dict[str, Pool] = {}
        self._steps: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._ran_ms: defaultdict[tuple[str, str], int] = defaultdict(int)
        for event in events:
            match event:
                case e.NodeApplied():
                    self.enter_node(event)
                case e.PoolApplied():
                    self._pools[event.pool.name] = event.pool
                case e.StepsCounted():
                    for count in event.counts:
                        if count.flavor and count.ran_ms:
                            self._steps[count.run, count.flavor] += count.steps
                            self._ran_ms[count.run, count.flavor] += count.ran_ms
                case _:
                    pass

    def enter_node(self, event: e.NodeApplied) -> None:
        """Enter a node that the ledger may not have."""
        self._flavors[event.node.name] = event.node.flavor

    def rate(self, run: Run, node: str, partner: Run | None = None) -> int:
        """Return the rate of ``run`` on GPUs of ``node`` that it may share with ``partner``.

        The rate is at least 1.
        """
        flavor = self._flavors[node]
        alone = self._alone(run, flavor)
        if partner is None or run.rounds is None or partner.rounds is None:
            return alone
        mine, other = run.rounds.job_type, partner.rounds.job_type
        if mine is None or other is None or run.pool not in self._pools:
            return alone
        pool = self._pools[run.pool]
        declared = declared_rate(run, pool, flavor)
        beside, _ = paired_rates(pool, flavor, run.gpus, (mine, other))
        return max(1, alone * beside // declared) if declared and beside else alone

    def fastest(self, run: Run) -> int:
        """Return the rate of ``run`` on the flavor on which it is fastest."""
        return max(self._alone(run, flavor) for flavor in run.flavors)

    def _alone(self, run: Run, flavor: str) -> int:
        ran_ms = self._ran_ms.get((run.name, flavor), 0)
        if ran_ms:
            return max(1, self._steps[run.name, flavor] * STEP // ran_ms)
        pool = self._pools.get(run.pool)
        declared = None if pool is None else declared_rate(run, pool, flavor)
        return max(1, UNKNOWN_RATE if declared is None else declared)


@dataclass(slots=True)
class ToldSteps:
    """The steps that a run had reported when each round began, and the work it had done by then."""

    works: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    _asked: tuple[int, int] = (-1, 0)

    def tell(self, work: int, steps: int) -> None:
        """Enter a count of ``steps`` after ``work``; work never becomes less."""
        self.works.append(work)
        self.steps.append(steps)

    def at(self, work: int, step: int) -> int:
        """Return the steps that the run reports after ``work``; a step takes ``step`` of work.

        If the ledger has one count of steps at exactly this amount of work, return that count. If
        there are several counts, because the run waited for some rounds, each call returns the next
        count.
        """
        first, last = bisect_left(self.works, work), bisect_right(self.works, work) - 1
        if first <= last:
            place = self._asked[1] + 1 if self._asked[0] == work else first
            self._asked = work, min(place, last)
            return self.steps[self._asked[1]]
        before = (self.works[first - 1], self.steps[first - 1]) if first else (0, 0)
        if first == len(self.works):
            return before[1] + (work - before[0]) // step
        after = self.works[first], self.steps[first]
        return before[1] + (work - before[0]) * (after[1] - before[1]) // (after[0] - before[0])
