"""Estimates the instants by which a run starts with probability 50 % (P50) and 90 % (P90).

A planned start depends on running runs, each of which is expected to end at its declared end. Here
each run ends with the odds that its owner's history gives (``model/state/durations.py``), and the
waiting run starts when enough GPUs are free.

- **One run.** The run has already run for some time. So only those runs of its owner's history are
  used that took at least as long, relative to their declared durations. If these are fewer than
  ``LEAST_RUNS``, the prior replaces the missing ones, under the same condition. The history stores
  the durations in buckets, and each run is treated as if it ended at the upper bound of its bucket.
  This is too late by 9 % at most, and exact for a run that took its declared time.
- **The prior** is for an owner without history. 60 % of the runs end at their declared ends, and
  none ends sooner. Of the late runs that still run at some time, a quarter still runs at twice that
  time. The prior is cautious. In half of the cases, an overdue run without history takes at most
  1.4 times as long as it has run so far. In nine of ten cases, it takes at most 3.4 times as long.
- **Several runs** are assumed to end independently of each other. The odds that enough GPUs are
  free at an instant are computed exactly, run by run (the distribution of a sum). Quantiles of
  single runs are not enough: in 57 % of cases, the last of eight runs ends after the 90th
  percentile of a single run, and the first of eight almost never does. Runs of one owner often end
  at similar fractions of their declared durations. Then a start that needs all of these runs to end
  comes sooner than computed here. A start that needs only the first of them to end comes later.
- **Several needs** (of domains or payers): the odds that all are met are the product of the odds of
  each need. If one run frees GPUs for two needs, the product is too small, and the estimated start
  too late.

All numbers are integers, so that the same state gives the same answer on every machine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import gcd
from typing import Final, Protocol

from msgspec import Struct

from quorate.core.admission.holds import expected_ms
from quorate.model.state.durations import (
    BUCKETS,
    BUCKETS_PER_OCTAVE,
    NO_HISTORY,
    ON_TIME,
    RATIO_BITS,
    RATIO_BOUNDS,
    DurationHistory,
    bucket_end_ms,
    bucket_of,
    eighth_root_of_power,
)
from quorate.model.state.state_view import StateView

LEAST_RUNS: Final = 16
"""The least number of runs in a distribution; the prior replaces missing runs."""
UNITS_MAX: Final = 64
"""The most units in which the GPUs that must come free are counted. This bounds the work."""

_BITS: Final = 20
_ONE: Final = 1 << _BITS
"""The odds of one run are integers in units of 2 ** -20."""
_SUM_BITS: Final = 40
_SURE: Final = 1 << _SUM_BITS
"""The odds of several runs are integers in units of 2 ** -40, so that rounding does not matter."""
_LATE: Final = _ONE * 2 // 5
"""The fraction of the prior's runs that take longer than declared."""
_LATE_OCTAVES: Final = 2
"""How often the number of late runs halves while the time doubles."""
_TAIL: Final = tuple(
    eighth_root_of_power(BUCKETS_PER_OCTAVE * _BITS - _LATE_OCTAVES * buckets)
    for buckets in range(BUCKETS)
)
"""The fraction of the late runs that still run n buckets later, by n."""
_MEDIAN: Final = (1, 2)
_P90: Final = (9, 10)


class ExpectedRelease(Struct, frozen=True, gc=False):
    """GPUs that come free when a run ends; the run has been running since ``since_ms``.

    ``declared_end_ms`` is the run's declared end, which may be in the past. If ``is_certain``, the
    history of the owner is ignored, and the run ends at its declared end. This is so if the run is
    stopping, is a claim, or is in a pool of discipline ``rounds``.
    """

    owner: str
    since_ms: int
    declared_end_ms: int
    gpus: int
    is_certain: bool = False


class Need(Struct, frozen=True, gc=False):
    """The GPUs that a start needs in addition to free ones.

    ``releases`` has all runs whose GPUs the start can use. Together these runs may free more GPUs
    than the start needs.
    """

    gpus: int
    releases: tuple[ExpectedRelease, ...]


class StartQuantiles(Struct, frozen=True, gc=False):
    """The instants by which a run starts with probability at least 50 % and 90 %."""

    p50_ms: int
    p90_ms: int


def start_quantiles(
    histories: Mapping[str, DurationHistory],
    needs: Sequence[Need],
    *,
    now_ms: int,
    not_before_ms: int = 0,
) -> StartQuantiles:
    """Return the P50 and the P90 of the instant at which all ``needs`` of a start are met.

    ``histories`` is ``StateView.durations``. No instant is before ``now_ms``. The start cannot come
    before ``not_before_ms``, for example because a payer's window opens then.
    """
    first_ms = max(now_ms, not_before_ms)
    counts = [_Count.of(histories, need, now_ms) for need in needs if need.gpus > 0]
    ends = {at_ms for count in counts for _, end in count.parts for at_ms in end.instants()}
    instants = sorted({first_ms, *(at_ms for at_ms in ends if at_ms > first_ms)})
    p50 = _first_with(_MEDIAN, counts, instants, 0)
    p90 = _first_with(_P90, counts, instants, p50)
    return StartQuantiles(instants[p50], instants[p90])


def releases_of(view: StateView, leases: Iterable[str]) -> tuple[ExpectedRelease, ...]:
    """Return the GPUs that come free when ``leases`` end, by run.

    Leases of one run that end together are one release.
    """
    together: dict[tuple[str, int | None], int] = {}
    for name in leases:
        lease = view.leases[name]
        key = (lease.fact.run, None if lease.ending is None else lease.ending.deadline_ms)
        together[key] = together.get(key, 0) + lease.gpus
    found = []
    for (name, deadline_ms), gpus in together.items():
        record = view.runs[name]
        spec, since_ms = record.spec, record.since_ms
        assert since_ms is not None, record
        end_ms = since_ms + expected_ms(spec, view.pools[spec.pool])
        is_certain = deadline_ms is not None or spec.sensitive or spec.rounds is not None
        end_ms = end_ms if deadline_ms is None else deadline_ms
        found.append(ExpectedRelease(spec.owner, since_ms, end_ms, gpus, is_certain))
    return tuple(found)


class _Ending(Protocol):
    """The distribution of the end of one run."""

    def left(self, at_ms: int) -> int:
        """Return the odds, in units of 1 / ``_ONE``, that the run still runs at ``at_ms``."""
        ...

    def instants(self) -> Iterator[int]:
        """Yield every instant at which the odds change; at the last one the run has ended."""
        ...


class _Certain(Struct, frozen=True, gc=False):
    """A run that certainly ends at ``end_ms``."""

    end_ms: int

    def left(self, at_ms: int) -> int:
        return _ONE if at_ms < self.end_ms else 0

    def instants(self) -> Iterator[int]:
        yield self.end_ms


class _ByHistory(Struct, frozen=True, gc=False):
    """A run whose end is estimated from those past runs of its owner that took at least as long.

    ``like`` has the buckets of these past runs, in order. ``first`` is the bucket in which the run
    would be if it ended at ``now_ms``. ``missing`` is the number of past runs that the prior
    replaces.
    """

    since_ms: int
    declared_ms: int
    now_ms: int
    first: int
    like: bytes
    missing: int

    @classmethod
    def of(cls, history: DurationHistory, release: ExpectedRelease, now_ms: int) -> _ByHistory:
        since_ms = release.since_ms
        declared_ms = release.declared_end_ms - since_ms
        assert declared_ms > 0, release
        first = bucket_of(max(0, now_ms - since_ms), declared_ms)
        like = bytes(sorted(bucket for bucket in history.recent if bucket >= first))
        return cls(since_ms, declared_ms, now_ms, first, like, max(0, LEAST_RUNS - len(like)))

    def left(self, at_ms: int) -> int:
        # The number of buckets, from the lowest on, whose runs have ended by ``at_ms``.
        ended = bisect_right(
            RATIO_BOUNDS, ((at_ms - self.since_ms) << RATIO_BITS) // self.declared_ms
        )
        if ended == BUCKETS:
            return 0
        like, missing = self.like, self.missing
        later = len(like) - bisect_left(like, ended)
        prior = missing * _prior_left(self.first, ended - 1) if missing else 0
        return (later * _ONE + prior) // (len(like) + missing)

    def instants(self) -> Iterator[int]:
        buckets = set(self.like)
        if self.missing:
            begin = max(self.first, ON_TIME)
            kept = takewhile(
                lambda bucket: _prior_left(self.first, bucket - 1), range(begin, BUCKETS)
            )
            buckets.update(kept)
        for bucket in buckets:
            yield max(self.now_ms, self.since_ms + bucket_end_ms(bucket, self.declared_ms))


def _prior_left(first: int, bucket: int) -> int:
    """Return the odds, by the prior, that a run takes longer than ``bucket``.

    The run has already reached bucket ``first``.
    """
    if bucket < max(first, ON_TIME):
        return _ONE
    if first > ON_TIME:
        return _TAIL[bucket - first + 1]
    return _LATE * _TAIL[bucket - ON_TIME] >> _BITS


class _Count(Struct, frozen=True, gc=False):
    """The number of units that must come free, and how many of them the end of each run frees."""

    units: int
    parts: tuple[tuple[int, _Ending], ...]

    @classmethod
    def of(cls, histories: Mapping[str, DurationHistory], need: Need, now_ms: int) -> _Count:
        """Return the count of ``need``. A unit is the largest number that divides all releases.

        If that gives more than ``UNITS_MAX`` units, a larger unit is used. Then the running sum of
        released GPUs is rounded down to units, so that no remainders are lost.
        """
        releases = sorted(
            (release for release in need.releases if release.gpus > 0),
            key=lambda r: (r.declared_end_ms, r.since_ms, r.owner, r.gpus, r.is_certain),
        )
        assert sum(release.gpus for release in releases) >= need.gpus, need
        unit = gcd(*(release.gpus for release in releases))
        units = -(-need.gpus // unit)
        if units > UNITS_MAX:
            unit = -(-need.gpus // UNITS_MAX)
            units = need.gpus // unit
        parts: list[tuple[int, _Ending]] = []
        gpus = 0
        for release in releases:
            before, gpus = gpus, gpus + release.gpus
            freed = gpus // unit - before // unit
            if not freed:
                continue
            end: _Ending = (
                _Certain(max(now_ms, release.declared_end_ms))
                if release.is_certain
                else _ByHistory.of(histories.get(release.owner, NO_HISTORY), release, now_ms)
            )
            parts.append((freed, end))
        return cls(units, tuple(parts))

    def short(self, at_ms: int) -> int:
        """Return the odds, in units of 1 / ``_SURE``, that too few GPUs are free at ``at_ms``."""
        # odds[n] are the odds that n units have come free, for each n that is not enough.
        odds = [_SURE, *[0] * (self.units - 1)]
        for freed, end in self.parts:
            left = end.left(at_ms)
            if left == _ONE:
                continue
            gone = _ONE - left
            shifted = [0] * min(freed, self.units) + odds
            odds = [
                (stays * left + comes * gone) >> _BITS
                for stays, comes in zip(odds, shifted, strict=False)
            ]
        return sum(odds)


def _first_with(
    chance: tuple[int, int], counts: Sequence[_Count], instants: Sequence[int], begin: int
) -> int:
    """Return the index of the first instant at which all ``counts`` are met with enough odds.

    The odds are enough if they are at least ``chance``, which is a numerator and a denominator.
    Only indexes from ``begin`` on are considered.
    """
    least, of = chance

    def is_likely(at_ms: int) -> bool:
        odds = _SURE
        for count in counts:
            odds = odds * (_SURE - count.short(at_ms)) >> _SUM_BITS
        return odds * of >= _SURE * least

    return bisect_left(instants, True, lo=begin, hi=len(instants) - 1, key=is_likely)  # noqa: FBT003
