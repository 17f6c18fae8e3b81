"""P50 and P90 of a planned start: worked cases, and those computed from a state."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Complete, Drain, Submit
from quorate.core.explain.start_plan import Forecast, foretell
from quorate.core.planning.start_quantiles import (
    LEAST_RUNS,
    ExpectedRelease,
    Need,
    StartQuantiles,
    releases_of,
    start_quantiles,
)
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import Owner, Pool
from quorate.model.state.durations import ON_TIME, DurationHistory
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.lives import Life

HALF, ONCE, TWICE, FOUR_TIMES = ON_TIME - 8, ON_TIME, ON_TIME + 8, ON_TIME + 16


def history(*buckets: int) -> DurationHistory:
    return DurationHistory(bytes(buckets))


def release(
    hours_ago: float, hours: float, gpus: int = 8, owner: str = "team", *, is_certain: bool = False
) -> ExpectedRelease:
    since_ms = NOW_MS - round(hours_ago * HOUR_MS)
    return ExpectedRelease(owner, since_ms, since_ms + round(hours * HOUR_MS), gpus, is_certain)


def hours(
    recent: DurationHistory | None,
    *needs: tuple[int, tuple[ExpectedRelease, ...]],
    not_before: float = 0,
) -> tuple[float, float]:
    """Return P50 and P90 in hours from now."""
    found = start_quantiles(
        {} if recent is None else {"team": recent},
        [Need(gpus, releases) for gpus, releases in needs],
        now_ms=NOW_MS,
        not_before_ms=NOW_MS + round(not_before * HOUR_MS),
    )
    return (found.p50_ms - NOW_MS) / HOUR_MS, (found.p90_ms - NOW_MS) / HOUR_MS


ON_TIME_ONLY = history(*[ONCE] * LEAST_RUNS)
MIXED = history(*[HALF] * 10, *[ONCE] * 6, *[TWICE] * 3, FOUR_TIMES)


@pytest.mark.parametrize(
    ("recent", "hours_ago", "declared", "p50", "p90"),
    [
        # All took their declared time, so it ends at its declared end.
        (ON_TIME_ONLY, 1, 4, 3, 3),
        (ON_TIME_ONLY, 4, 4, 0, 0),
        # Half of twenty took half the time; one in ten took longer than twice the time.
        (MIXED, 0, 4, 2, 8),
        (MIXED, 2, 4, 0, 6),
    ],
)
def test_one_run_ends_like_those_of_its_owner_that_took_as_long(
    recent: DurationHistory, hours_ago: float, declared: float, p50: float, p90: float
) -> None:
    assert hours(recent, (8, (release(hours_ago, declared),))) == (p50, p90)


def test_a_run_that_has_outlived_the_short_ones_is_compared_with_the_long_ones() -> None:
    recent = history(*[HALF] * 100, *[ONCE] * 9, *[TWICE] * 9, *[FOUR_TIMES] * 2)
    assert hours(recent, (8, (release(1.75, 4),))) == (0.25, 2.25)
    assert hours(recent, (8, (release(2.25, 4),))) == (5.75, 5.75)


def test_an_owner_without_history_is_taken_at_its_word_and_late_in_two_of_five_cases() -> None:
    # 40 % are late, and a quarter of those by a factor of 2 or more: this is the 90th percentile.
    assert hours(None, (8, (release(1, 4),))) == (3, 7)


def test_an_overdue_run_without_history_goes_on_for_a_part_of_its_time_so_far() -> None:
    p50, p90 = hours(None, (8, (release(8.01, 4),)))
    assert 0.29 * 8 < p50 < 0.42 * 8
    assert 2.0 * 8 < p90 < 2.4 * 8


def test_a_little_history_counts_beside_the_prior() -> None:
    halves = history(*[HALF] * (LEAST_RUNS // 2))
    assert hours(halves, (8, (release(0, 4),)))[0] == 2
    fewer = history(*[HALF] * (LEAST_RUNS // 2 - 1))
    assert hours(fewer, (8, (release(0, 4),)))[0] == 4


def test_the_first_of_several_ends_sooner_and_the_last_later_than_one_alone() -> None:
    runs = tuple(release(0, 4) for _ in range(6))
    # At half the time, one of the six has ended, except with probability 0.5 ** 6.
    assert hours(MIXED, (8, runs)) == (2, 2)
    assert hours(MIXED, (8, runs[:1])) == (2, 8)
    assert hours(MIXED, (48, runs)) == (8, 16)


def test_wide_runs_free_more() -> None:
    runs = (release(0, 1, 4), release(0, 8, 4), release(0, 4, 24))
    assert hours(ON_TIME_ONLY, (4, runs)) == (1, 1)
    assert hours(ON_TIME_ONLY, (5, runs)) == (4, 4)
    assert hours(ON_TIME_ONLY, (28, runs)) == (4, 4)
    assert hours(ON_TIME_ONLY, (29, runs)) == (8, 8)


def test_all_needs_must_be_met() -> None:
    one, other = release(0, 1), release(0, 2)
    assert hours(ON_TIME_ONLY, (8, (one,)), (8, (other,))) == (2, 2)
    # Each with probability one half at half the time, and 0.8 at the declared time.
    assert hours(MIXED, (8, (release(0, 4),)), (8, (release(0, 4),)))[0] == 4


def test_nothing_needed_starts_now_or_when_it_may() -> None:
    assert hours(None) == (0, 0)
    assert hours(None, (0, ()), not_before=2) == (2, 2)
    assert hours(ON_TIME_ONLY, (8, (release(0, 1),)), not_before=2) == (2, 2)
    assert hours(ON_TIME_ONLY, (8, (release(0, 3),)), not_before=2) == (3, 3)


def test_a_certain_end_comes_whatever_the_history() -> None:
    assert hours(MIXED, (8, (release(0, 3, is_certain=True),))) == (3, 3)
    assert hours(MIXED, (8, (release(5, 3, is_certain=True),))) == (0, 0)


def test_thousands_of_gpus_are_counted_in_larger_units() -> None:
    runs = tuple(release(0, hour, gpus=13) for hour in range(1, 201))
    for needed, hour in ((13 * 100, 100), (13 * 200, 200)):
        p50, p90 = hours(ON_TIME_ONLY, (needed, runs))
        assert hour - 2 <= p50 == p90 <= hour


def test_needing_more_than_ever_comes_free_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        hours(None, (9, (release(0, 1),)))


# --- From a state ---------------------------------------------------------------------------------


def new_life(*, has_executor: bool = False) -> Life:
    return Life(
        nodes=fleet({"A": 16}),
        owners=[Owner(name="team")],
        budgets=[budget("b", "team", envelope("e", 16))],
        has_executor=has_executor,
    )


def test_leases_of_one_run_are_released_together() -> None:
    life = new_life()
    life.do(Submit(run("wide", 12, group_gpus=4, expected_duration_ms=3 * HOUR_MS)))
    life.do(Apply((Pool(name="default", expected_duration_ms=2 * HOUR_MS),)))
    life.do(Submit(run("small", 2)), NOW_MS + MINUTE_MS)
    assert len(life.state.leases) > 2
    assert releases_of(life.state, life.state.leases) == (
        ExpectedRelease("team", NOW_MS, NOW_MS + 3 * HOUR_MS, 12),
        ExpectedRelease("team", NOW_MS + MINUTE_MS, NOW_MS + MINUTE_MS + 2 * HOUR_MS, 2),
    )


def test_a_lease_that_was_told_to_stop_is_released_at_its_deadline() -> None:
    life = new_life(has_executor=True)
    life.do(Submit(run("a", 4, expected_duration_ms=3 * HOUR_MS)))
    (node,) = life.on("a")
    life.do(Drain(node), NOW_MS + HOUR_MS)
    (stopping,) = life.stopping()
    ending = life.state.leases[stopping].ending
    assert ending is not None
    assert releases_of(life.state, [stopping]) == (
        ExpectedRelease("team", NOW_MS, ending.deadline_ms, 4, is_certain=True),
    )


@pytest.mark.heavy
def test_a_history_that_was_lived_moves_a_start() -> None:
    life = new_life()
    for number in range(LEAST_RUNS):
        life.do(Submit(run(f"r{number}", 4, expected_duration_ms=2 * HOUR_MS)))
        life.do(Complete(f"r{number}"), life.now_ms + HOUR_MS)
    begin_ms = life.now_ms
    life.do(Submit(run("now", 16, expected_duration_ms=8 * HOUR_MS)))
    need = Need(16, releases_of(life.state, life.state.leases))
    found = start_quantiles(life.state.durations, [need], now_ms=begin_ms)
    assert found == StartQuantiles(begin_ms + 4 * HOUR_MS, begin_ms + 4 * HOUR_MS)
    # It has run longer than all of them: from here on its declared duration counts.
    later = start_quantiles(life.state.durations, [need], now_ms=begin_ms + 5 * HOUR_MS)
    assert later.p50_ms == begin_ms + 8 * HOUR_MS < later.p90_ms


@pytest.mark.heavy
@pytest.mark.parametrize(("takes", "comes"), [(2, 3 + 2 + 4), (1, 1.5 + 1 + 2)])
def test_a_start_comes_after_the_runs_that_are_planned_before_it_in_its_place(
    takes: int, comes: float
) -> None:
    """Each run needs all GPUs; runs take their declared time, or half of it."""
    life = new_life()
    for number in range(LEAST_RUNS):
        life.do(Submit(run(f"r{number}", 4, expected_duration_ms=2 * HOUR_MS)))
        life.do(Complete(f"r{number}"), life.now_ms + takes * HOUR_MS)
    begin_ms = life.now_ms
    for name, lasts in (("now", 3), ("next", 2), ("third", 4), ("asked", 1)):
        life.do(Submit(run(name, 16, expected_duration_ms=lasts * HOUR_MS)))
    told = foretell(life.state, life.state.runs["asked"].spec, life.now_ms)
    assert isinstance(told, Forecast)
    assert told.natural_start_ms == begin_ms + 9 * HOUR_MS
    at_ms = begin_ms + round(comes * HOUR_MS)
    assert told.quantiles == StartQuantiles(at_ms, at_ms)
