"""The published forms of policies that are different in ``policy/table.py``.

Policies of this project are functions of a problem, but two of the published policies remember
their earlier shares. These classes keep the published defects, because simulations with these
classes are compared with published results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from quorate.policy.rounds.round_book import Row, Shares
from quorate.policy.solvers.chance import Chance

RowRate = Callable[[Row, str], tuple[float, ...]]
"""Returns the steps per second of each job of a row (one job or a pair) on a flavor."""
GAIN_LEAST: Final = 1.0
"""A pair is kept only if its gain (``PublishedGandiva._gain``) is at least this."""


class PublishedIsolated:
    """Gives each job an equal part of all GPUs.

    The shares differ only in the last bit from the shares of the policy in ``policy/table.py``. But
    this bit breaks ties between jobs, and so changes published results.
    """

    def __init__(self, gpus: Mapping[str, int]) -> None:
        self._gpus = dict(gpus)

    def __call__(self, sizes: Mapping[str, int]) -> Shares:
        """Return the shares of the jobs in ``sizes``."""
        return {(job,): _equal(self._gpus, len(sizes), size) for job, size in sizes.items()}


class PublishedFifo:
    """First come, first served: a job keeps its flavor until it ends.

    This class keeps two published defects. First, the policy draws a flavor but gives the job
    another flavor: of the flavors with a free GPU, the last one by name, even if the job does not
    fit there. A job that cannot run on that flavor is skipped. Second, when the flavor that the job
    got has no free GPU left, the policy treats the drawn flavor as full.

    A job that cannot take the place of an ended job stays in the queue. The publication can be read
    in several ways here; only this reading reproduces the recorded figures of the 96-job trace.
    """

    def __init__(self, gpus: Mapping[str, int], seed: int, rate: RowRate) -> None:
        self._gpus = dict(gpus)
        self._chance = Chance(seed)
        self._rate = rate
        self._given: dict[str, str] = {}

    def __call__(self, sizes: Mapping[str, int]) -> Shares:
        """Return the shares of the jobs in ``sizes``, which are in the order of their arrival."""
        queue = [job for job in sizes if job not in self._given]
        free = dict(self._gpus)
        self._replace_ended(sizes, queue, free)
        left = sorted(flavor for flavor, count in free.items() if count > 0)
        while queue and left:
            size = sizes[queue[0]]
            roomy = [flavor for flavor in left if free[flavor] >= size]
            if not roomy:
                break
            job, given = queue.pop(0), left[-1]
            drawn = roomy[self._chance.below(len(roomy))]
            if self._rate((job,), given)[0] <= 0.0:
                continue
            self._given[job] = given
            free[given] -= size
            if free[given] == 0:
                left.remove(drawn)
        return {
            (job,): {flavor: float(self._given.get(job) == flavor) for flavor in self._gpus}
            for job in sizes
        }

    def _replace_ended(
        self, sizes: Mapping[str, int], queue: list[str], free: dict[str, int]
    ) -> None:
        for job, flavor in sorted(self._given.items(), key=lambda entry: int(entry[0])):
            if job in sizes:
                free[flavor] -= sizes[job]
                continue
            del self._given[job]
            fits = bool(queue) and sizes[queue[0]] <= free[flavor]
            if fits and self._rate((queue[0],), flavor)[0] > 0.0:
                successor = queue.pop(0)
                self._given[successor] = flavor
                free[flavor] -= sizes[successor]


class PublishedGandiva:
    """Gives equal shares to randomly drawn pairs and to jobs without a partner.

    A pair lasts until one of its jobs ends or the pair gains nothing; then new pairs are drawn.
    """

    def __init__(self, gpus: Mapping[str, int], seed: int, rate: RowRate) -> None:
        self._gpus = dict(gpus)
        self._chance = Chance(seed)
        self._rate = rate
        self._partner: dict[str, str | None] = {}

    def __call__(self, sizes: Mapping[str, int]) -> Shares:
        """Return the shares of the jobs in ``sizes``, which are in the order of their arrival."""
        self._part(sizes)
        turn = {job: number for number, job in enumerate(sizes)}
        rows: dict[Row, None] = {(job,): None for job in sizes}
        if sum(sizes.values()) > sum(self._gpus.values()):
            self._pair(sizes)
            rows = dict.fromkeys(_row(job, other, turn) for job, other in self._partner.items())
        found: dict[Row, dict[str, float]] = {
            (job,): dict.fromkeys(self._gpus, 0.0) for job in sizes
        }
        for row in rows:
            found[row] = _equal(self._gpus, len(rows), sizes[row[0]])
        return found

    def _part(self, sizes: Mapping[str, int]) -> None:
        """Separate pairs that gain nothing or have an ended job; forget jobs that ended."""
        turn = {job: number for number, job in enumerate(sizes)}
        for job, other in list(self._partner.items()):
            there = job in sizes and other is not None and other in sizes
            if not there or self._gain(_row(job, other, turn)) < GAIN_LEAST:
                self._partner.pop(job, None)
                if other is not None:
                    self._partner.pop(other, None)

    def _pair(self, sizes: Mapping[str, int]) -> None:
        alone = [job for job in sizes if job not in self._partner]
        for _ in range(len(alone)):
            if len(alone) <= 1:
                break
            first, second = self._chance.two_of(len(alone))
            one, other = alone[first], alone[second]
            if sizes[one] == sizes[other]:
                alone.remove(one)
                alone.remove(other)
                self._partner |= {one: other, other: one}
        self._partner |= dict.fromkeys(alone, None)

    def _gain(self, row: Row) -> float:
        """Return the sum, over both jobs and all flavors, of rate in the pair / rate alone.

        Return 0 if one of the jobs makes no progress in the pair on some flavor.
        """
        found = 0.0
        for flavor in self._gpus:
            both = self._rate(row, flavor)
            if min(both) <= 0.0:
                return 0.0
            alone = [self._rate((job,), flavor)[0] for job in row]
            found += sum(rate / own for rate, own in zip(both, alone, strict=True))
        return found


def _equal(gpus: Mapping[str, int], rows: int, size: int) -> dict[str, float]:
    """Return a row's share of each flavor if all rows get equal parts, as published.

    ``rows`` is the number of rows, and ``size`` is the number of GPUs that the row takes.
    """
    found = {flavor: count / rows / size for flavor, count in sorted(gpus.items())}
    total = max(1.0, sum(found.values()))
    return {flavor: share / total for flavor, share in found.items()}


def _row(job: str, other: str | None, turn: Mapping[str, int]) -> Row:
    return (job,) if other is None else tuple(sorted((job, other), key=turn.__getitem__))
