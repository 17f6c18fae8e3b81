"""Start quantiles, compared with an oracle that tries every way in which runs can end."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import accumulate, product
from math import prod
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.core.planning.start_quantiles import (
    LEAST_RUNS,
    UNITS_MAX,
    ExpectedRelease,
    Need,
    start_quantiles,
)
from quorate.model.amounts import HOLD_QUANTUM_MS, HOUR_MS
from quorate.model.state.durations import (
    BUCKETS,
    ON_TIME,
    RECENT_RUNS,
    DurationHistory,
    bucket_end_ms,
    bucket_of,
)
from quorate.testing.builders import NOW_MS
from tests.oracles.effort import examples

OWNERS = ("a", "b", "c")

_histories = st.dictionaries(
    st.sampled_from(OWNERS),
    st.lists(
        st.integers(ON_TIME - 30, ON_TIME + 30) | st.integers(0, BUCKETS - 1), max_size=RECENT_RUNS
    ).map(lambda buckets: DurationHistory(bytes(buckets))),
)


@st.composite
def _releases(draw: st.DrawFn) -> ExpectedRelease:
    ago_ms = draw(st.integers(0, 3 * HOUR_MS) | st.integers(0, 400 * HOUR_MS))
    declared_ms = draw(st.integers(HOLD_QUANTUM_MS, 48 * HOUR_MS))
    return ExpectedRelease(
        owner=draw(st.sampled_from(OWNERS)),
        since_ms=NOW_MS - ago_ms,
        declared_end_ms=NOW_MS - ago_ms + declared_ms,
        gpus=draw(st.sampled_from((1, 2, 4, 8, 13, 64))),
        is_certain=draw(st.integers(0, 5)) == 0,
    )


@st.composite
def _needs(draw: st.DrawFn) -> Need:
    releases = tuple(draw(st.lists(_releases(), min_size=1, max_size=6)))
    gpus = draw(st.integers(1, sum(release.gpus for release in releases)))
    return Need(gpus, releases)


def _start_ms(need: Need, ends_ms: list[int]) -> int:
    """Return when enough GPUs are free if the runs of ``need`` end at ``ends_ms``."""
    ends = sorted(zip(ends_ms, (release.gpus for release in need.releases), strict=True))
    free = list(accumulate(gpus for _, gpus in ends))
    return ends[bisect_left(free, need.gpus)][0]


@pytest.mark.heavy
@examples(2)
@given(_histories, st.lists(_needs(), max_size=3), st.integers(-HOUR_MS, 100 * HOUR_MS))
def test_quantiles_are_in_order_and_never_in_the_past(
    histories: dict[str, DurationHistory], needs: list[Need], later_ms: int
) -> None:
    found = start_quantiles(histories, needs, now_ms=NOW_MS, not_before_ms=NOW_MS + later_ms)
    assert NOW_MS <= max(NOW_MS, NOW_MS + later_ms) <= found.p50_ms <= found.p90_ms
    assert found == start_quantiles(
        histories, needs, now_ms=NOW_MS, not_before_ms=NOW_MS + later_ms
    )


@pytest.mark.heavy
@given(_histories, st.lists(_needs(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_neither_the_order_of_runs_nor_the_age_of_a_history_matters(
    histories: dict[str, DurationHistory],
    needs: list[Need],
    random: Random,
) -> None:
    others = []
    for need in needs:
        releases = list(need.releases)
        random.shuffle(releases)
        others.append(Need(need.gpus, tuple(releases)))
    random.shuffle(others)
    sorted_histories = {
        owner: DurationHistory(bytes(sorted(history.recent)))
        for owner, history in reversed(histories.items())
    }
    assert start_quantiles(histories, needs, now_ms=NOW_MS) == start_quantiles(
        sorted_histories, others, now_ms=NOW_MS
    )


@pytest.mark.heavy
@given(_histories, _needs())
def test_needing_more_gpus_is_never_sooner(
    histories: dict[str, DurationHistory], need: Need
) -> None:
    # Beyond that GPUs are counted in larger units, with rounding.
    assume(1 < need.gpus <= UNITS_MAX)
    less = start_quantiles(histories, [Need(need.gpus - 1, need.releases)], now_ms=NOW_MS)
    more = start_quantiles(histories, [need], now_ms=NOW_MS)
    assert less.p50_ms <= more.p50_ms
    assert less.p90_ms <= more.p90_ms


@pytest.mark.heavy
@given(_histories, _needs(), _releases())
def test_another_run_that_may_end_is_never_later(
    histories: dict[str, DurationHistory], need: Need, more: ExpectedRelease
) -> None:
    assume(need.gpus <= UNITS_MAX)
    before = start_quantiles(histories, [need], now_ms=NOW_MS)
    after = start_quantiles(histories, [Need(need.gpus, (*need.releases, more))], now_ms=NOW_MS)
    assert after.p50_ms <= before.p50_ms
    assert after.p90_ms <= before.p90_ms


@given(_needs(), st.integers(LEAST_RUNS, RECENT_RUNS))
def test_where_all_took_what_they_declared_a_start_comes_when_that_is_declared(
    need: Need, runs: int
) -> None:
    assume(all(release.declared_end_ms >= NOW_MS for release in need.releases))
    assume(need.gpus <= UNITS_MAX)
    histories = {owner: DurationHistory(bytes([ON_TIME] * runs)) for owner in OWNERS}
    end_ms = _start_ms(need, [release.declared_end_ms for release in need.releases])
    found = start_quantiles(histories, [need], now_ms=NOW_MS)
    assert (found.p50_ms, found.p90_ms) == (end_ms, end_ms)


@given(_releases(), st.integers(0, RECENT_RUNS))
def test_without_history_the_prior_alone_counts(release: ExpectedRelease, runs: int) -> None:
    """This includes a history without any run that took as long as this one has."""
    need = Need(release.gpus, (release,))
    elapsed_ms = NOW_MS - release.since_ms
    first = bucket_of(elapsed_ms, release.declared_end_ms - release.since_ms)
    assume(first > 0)
    shorter = {release.owner: DurationHistory(bytes([first - 1] * runs))}
    found = start_quantiles({}, [need], now_ms=NOW_MS)
    assert found == start_quantiles(shorter, [need], now_ms=NOW_MS)
    if release.declared_end_ms >= NOW_MS:
        assert found.p50_ms == release.declared_end_ms
    elif not release.is_certain:
        assert NOW_MS < found.p50_ms < found.p90_ms


def _odds(history: DurationHistory, release: ExpectedRelease) -> dict[int, Fraction]:
    """Return the odds of each end, from a history with enough runs that took as long."""
    if release.is_certain:
        return {max(NOW_MS, release.declared_end_ms): Fraction(1)}
    declared_ms = release.declared_end_ms - release.since_ms
    first = bucket_of(NOW_MS - release.since_ms, declared_ms)
    like = [bucket for bucket in history.recent if bucket >= first]
    assume(len(like) >= LEAST_RUNS)
    found: dict[int, Fraction] = {}
    for bucket in like:
        end_ms = max(NOW_MS, release.since_ms + bucket_end_ms(bucket, declared_ms))
        found[end_ms] = found.get(end_ms, Fraction()) + Fraction(1, len(like))
    return found


_few_buckets = st.lists(
    st.sampled_from((ON_TIME - 8, ON_TIME - 3, ON_TIME, ON_TIME + 10)), min_size=2, max_size=2
)


@st.composite
def _short(draw: st.DrawFn) -> tuple[dict[str, DurationHistory], Need]:
    """Draw histories of two kinds of runs each, and runs that have not run for long."""
    histories = {}
    for owner in OWNERS:
        low, high = draw(_few_buckets)
        lows = draw(st.integers(0, 20))
        histories[owner] = DurationHistory(bytes([low] * lows + [high] * (20 - lows)))
    releases = tuple(
        ExpectedRelease(
            draw(st.sampled_from(OWNERS)),
            NOW_MS,
            NOW_MS + draw(st.integers(1, 12)) * HOUR_MS,
            draw(st.sampled_from((1, 2, 4, 8))),
        )
        for _ in range(draw(st.integers(1, 5)))
    )
    return histories, Need(draw(st.integers(1, sum(r.gpus for r in releases))), releases)


@pytest.mark.heavy
@examples(2)
@given(_short())
def test_quantiles_are_those_of_all_ways_in_which_the_runs_can_end(
    drawn: tuple[dict[str, DurationHistory], Need],
) -> None:
    histories, need = drawn
    starts: dict[int, Fraction] = {}
    odds = [_odds(histories[release.owner], release) for release in need.releases]
    for ends in product(*(each.items() for each in odds)):
        start_ms = _start_ms(need, [end_ms for end_ms, _ in ends])
        chance = prod((part for _, part in ends), start=Fraction(1))
        starts[start_ms] = starts.get(start_ms, Fraction()) + chance
    found = start_quantiles(histories, [need], now_ms=NOW_MS)
    # Rounding may decide if a probability is exactly one half or nine tenths.
    off = Fraction(len(need.releases), 1 << 19)
    for found_ms, wanted in ((found.p50_ms, Fraction(1, 2)), (found.p90_ms, Fraction(9, 10))):
        by_then = sum((part for at_ms, part in starts.items() if at_ms <= found_ms), Fraction())
        before = sum((part for at_ms, part in starts.items() if at_ms < found_ms), Fraction())
        assert by_then >= wanted - off
        assert before < wanted + off
