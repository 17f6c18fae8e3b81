from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from quorate.sim.outcome import CapacityStep, Outcome, RunInterval, SimulatedRun
from quorate.sim.report.compare import (
    FIGURES,
    SEEDS_MIN,
    CannotCompareError,
    compare,
    interval,
    window_of,
)

pytestmark = pytest.mark.heavy


SEEDS = range(SEEDS_MIN)
JCT = FIGURES[0]


def _run(name: str, submitted_ms: int, ran_ms: int) -> SimulatedRun:
    end_ms = submitted_ms + ran_ms
    span = RunInterval(start_ms=submitted_ms, end_ms=end_ms, flavor="h", gpus=1, domain="d")
    return SimulatedRun(
        name=name,
        owner="ada",
        gpus=1,
        submitted_ms=submitted_ms,
        started_ms=submitted_ms,
        ended_ms=end_ms,
        intervals=(span,),
        ideal_ms=ran_ms,
    )


def _outcome(name: str, seed: int, lengths: list[int]) -> Outcome:
    return Outcome(
        name=name,
        seed=seed,
        started_ms=0,
        ended_ms=10_000_000,
        capacity=(CapacityStep(at_ms=0, flavor="h", gpus=8),),
        runs=tuple(_run(f"r{n}", n * 1_000, length) for n, length in enumerate(lengths)),
    )


def _both(more_ms: list[int]) -> list[Outcome]:
    """Return outcomes of two policies; the second takes this much more in each seed."""
    found = []
    for seed, more in zip(SEEDS, more_ms, strict=True):
        # Seeds differ far more from each other than the policies do.
        lengths = [10_000 * (seed + 1) + n for n in range(20)]
        found.append(_outcome("a", seed, lengths))
        found.append(_outcome("b", seed, [length + more for length in lengths]))
    return found


def test_a_difference_that_every_seed_shows_is_claimed() -> None:
    found = compare(_both([900, 1_000, 1_100, 950, 1_050]))
    (jct,) = (each for each in found.differences if each.figure is JCT)
    assert (jct.first, jct.second, jct.better) == ("a", "b", "a")
    assert jct.mean == pytest.approx(1.0)
    assert 0.9 <= jct.low <= jct.mean <= jct.high <= 1.1
    assert found.mean_of(JCT, "b") == pytest.approx((found.mean_of(JCT, "a") or 0) + 1)


def test_no_order_is_claimed_where_the_interval_holds_0() -> None:
    found = compare(_both([-900, 1_000, 800, -700, 600]))
    (jct,) = (each for each in found.differences if each.figure is JCT)
    assert jct.low < 0 < jct.high
    assert jct.better is None


def test_what_is_only_rounding_is_not_claimed() -> None:
    found = compare([replace(each, runs=_later(each)) for each in _both([0, 0, 0, 0, 0])])
    (jct,) = (each for each in found.differences if each.figure is JCT)
    assert jct.low > 0
    assert jct.better is None


def _later(outcome: Outcome) -> tuple[SimulatedRun, ...]:
    """Return the runs with the last end one millisecond later, for the second policy."""
    if outcome.name == "a":
        return outcome.runs
    last = outcome.runs[-1]
    assert last.ended_ms is not None
    return (*outcome.runs[:-1], replace(last, ended_ms=last.ended_ms + 1))


def test_policies_that_do_the_same_are_not_ordered_by_any_figure() -> None:
    found = compare(_both([0, 0, 0, 0, 0]))
    assert {(each.mean, each.low, each.high, each.better) for each in found.differences} == {
        (0.0, 0.0, 0.0, None)
    }


def test_more_is_better_for_utilisation_only() -> None:
    assert [figure.key for figure in FIGURES if figure.sign < 0] == ["utilisation"]


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (_both([1] * 5)[::2], "there are outcomes of 1 policies; name two or more"),
        (_both([1] * 5)[:8], "there are 4 seeds; use at least 5"),
        (_both([1] * 5)[:9], "policy 'b' has no outcome of seed 4"),
        (
            [*_both([1] * 5)[:9], _outcome("b", 4, [1])],
            "seed 4: 'a' and 'b' had different runs",
        ),
        (
            [*_both([1] * 5)[:9], replace(_both([1] * 5)[9], measured=frozenset({"r0"}))],
            "seed 4: 'a' and 'b' measured different runs; measure the same runs of both",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_remedy(
    outcomes: list[Outcome], message: str
) -> None:
    with pytest.raises(CannotCompareError, match=message):
        compare(outcomes)


def test_a_warm_up_of_everything_is_refused() -> None:
    with pytest.raises(CannotCompareError, match="below 1"):
        compare(_both([1] * 5), warm_up=1.0)


def test_the_warm_up_and_what_comes_after_the_last_submission_are_left_out() -> None:
    window = window_of(_outcome("a", 0, [1] * 11), warm_up=0.1)
    assert (window.from_ms, window.to_ms) == (1_000, 10_000)
    assert window_of(_outcome("a", 0, [1]), warm_up=0.5).to_ms == 10_000_000


def test_intervals_cover_the_mean_about_as_often_as_they_say() -> None:
    chance = Random(1)
    covered = 0
    for _ in range(200):
        low, high = interval([chance.gauss(3, 1) for _ in range(5)], resamples=1_000)
        covered += low <= 3 <= high
    # Plain percentiles cover 86 % here, widened ones 92 %: five values do not show the tails.
    assert covered >= 188


@pytest.mark.parametrize(("count", "contains_0"), [(5, True), (9, True), (10, False)])
def test_a_few_values_of_one_sign_do_not_prove_a_difference(
    count: int, *, contains_0: bool
) -> None:
    """One large value among small ones says little about the mean."""
    low, high = interval([*range(1, count), 20.0 * count])
    assert (low <= 0, high > 0) == (contains_0, True)


def test_an_interval_is_the_same_each_time() -> None:
    assert interval([1.0, 2.0, 4.0, 3.0, 9.0]) == interval([1.0, 2.0, 4.0, 3.0, 9.0])
