"""Simulated rounds: defects of the published mechanism that the default mechanism does not have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import pytest

from quorate.policy.rounds.round_book import DEFAULT, STRICT, Row, Rules, Shares
from quorate.policy.rounds.round_places import Server
from quorate.sim.published import has_pairs, is_aware, strict_orders, strict_rules
from quorate.sim.round_simulation import (
    Moment,
    Play,
    Rates,
    RoundJob,
    RoundsStuckError,
    Setting,
    steps_in,
)


def steady(rate: float) -> Rates:
    return lambda row, _flavor, _spread: (rate,) * len(row)


def everybody(moment: Moment) -> Shares:
    return {(job,): {"fast": 1.0} for job in moment.steps_left}


def play(
    jobs: list[RoundJob],
    rules: Rules,
    *,
    servers: tuple[Server, ...] = (Server(flavor="fast", gpus=(0, 1, 2, 3)),),
    rates: Rates | None = None,
) -> Play:
    setting = Setting(jobs=tuple(jobs), servers=servers, rules=rules)
    return Play(setting, rates or steady(1.0), everybody, repeat(setting.flavors))


def job(name: str, steps: int, arrives_s: float = 0.0, *, gpus: int = 1) -> RoundJob:
    return RoundJob(name=name, gpus=gpus, steps=steps, arrives_s=arrives_s)


def done(played: Play) -> dict[str, float | None]:
    assert list(played.rounds())[-1].places == {}
    return played.tally.completion_s


def test_a_job_that_finds_idle_gpus_waits_for_the_gate_only_strictly() -> None:
    jobs = [job("first", 10), job("long", 100_000, 1.0), job("short", 139, 1000.0)]
    # Allocations at 0 and 10 s; the next one at the first end of a round after 1930 s, at 2170 s.
    assert done(play(jobs, STRICT))["short"] == 2170.0 - 1000.0 + 139.0
    assert done(play(jobs, DEFAULT))["short"] == 1090.0 - 1000.0 + 139.0


def test_time_in_which_nothing_runs_is_work_only_strictly() -> None:
    jobs = [job("early", 139), job("late", 139, 100_000.0)]
    strict, ours = play(jobs, STRICT), play(jobs, DEFAULT)
    done(strict)
    done(ours)
    assert strict.tally.utilisation == pytest.approx(1 / 4)
    assert ours.tally.utilisation == pytest.approx(2 * 139 / 100_139 / 4)


def test_a_job_with_fewer_steps_than_gpus_fails_only_strictly() -> None:
    jobs = [job("wide", 3, gpus=4)]
    assert done(play(jobs, STRICT)) == {"wide": None}
    assert done(play(jobs, DEFAULT)) == {"wide": 3.0}


def test_a_step_that_is_longer_than_a_round_is_done_in_the_end() -> None:
    assert done(play([job("slow", 2)], DEFAULT, rates=steady(0.001))) == {"slow": 2000.0}


def test_deadlines_are_times_of_the_clock() -> None:
    late = RoundJob(name="late", gpus=1, steps=300, arrives_s=1000.0, deadline_s=1200.0)
    for rules, missed in ((DEFAULT, ("late",)), (STRICT, ())):
        played = play([late], rules)
        assert done(played) == {"late": 300.0}
        assert played.missed() == missed


def test_a_job_that_was_given_up_has_missed_its_deadline() -> None:
    played = play([RoundJob(name="a", gpus=2, steps=1, arrives_s=0.0, deadline_s=9.0)], STRICT)
    done(played)
    assert played.missed() == ("a",)
    assert played.tally.mean_completion_s is None


def test_a_job_whose_gpus_are_spread_runs_at_that_rate() -> None:
    def rates(row: Row, _flavor: str, is_spread: bool) -> tuple[float, ...]:  # noqa: FBT001
        return (0.5,) * len(row) if is_spread else (1.0,) * len(row)

    apart = tuple(Server(flavor="fast", gpus=(gpu,)) for gpu in range(2))
    jobs = [job("wide", 100, gpus=2)]
    assert done(play(jobs, DEFAULT, servers=apart, rates=rates)) == {"wide": 200.0}
    assert done(play(jobs, DEFAULT, rates=rates)) == {"wide": 100.0}


def test_a_lease_is_extended_where_the_gpus_stay() -> None:
    played = play([job("long", 1000), job("other", 1000)], DEFAULT)
    done(played)
    assert (played.tally.extensions, played.tally.extension_chances) == (4, 4)


@pytest.mark.parametrize("rules", [DEFAULT, STRICT])
def test_a_job_stops_only_when_it_loses_its_gpus(rules: Rules) -> None:
    """If its last whole step ends before the round, it keeps its GPUs for the next round."""

    def rates(row: Row, _flavor: str, _spread: bool) -> tuple[float, ...]:  # noqa: FBT001
        return tuple(0.7 if name == "slow" else 1.0 for name in row)

    together = play([job("slow", 800), job("fast", 900)], rules, rates=rates)
    done(together)
    assert len(together.tally.spans["slow"]) > 1
    assert together.tally.stops.total() == 0
    turns = play([job("one", 1_000, gpus=4), job("two", 1_000, gpus=4)], rules)
    done(turns)
    assert turns.tally.stops == {name: len(turns.tally.spans[name]) - 1 for name in ("one", "two")}
    assert turns.tally.stops.total() > 0


def test_jobs_that_nothing_will_run_are_named() -> None:
    with pytest.raises(RoundsStuckError, match="1 jobs never run, job 'huge' among them"):
        list(play([job("huge", 10, gpus=9)], DEFAULT).rounds())
    with pytest.raises(RoundsStuckError, match="still"):
        list(play([job("still", 10)], STRICT, rates=steady(0.0)).rounds())


def test_a_job_that_stands_still_when_it_is_spread_is_not_run_so() -> None:
    def rates(row: Row, _flavor: str, is_spread: bool) -> tuple[float, ...]:  # noqa: FBT001
        return (0.0 if is_spread else 1.0,) * len(row)

    apart = tuple(Server(flavor="fast", gpus=(gpu,)) for gpu in range(2))
    with pytest.raises(RoundsStuckError, match="wide"):
        list(play([job("wide", 100, gpus=2)], DEFAULT, servers=apart, rates=rates).rounds())


def test_no_jobs_are_no_rounds() -> None:
    played = play([], DEFAULT)
    assert list(played.rounds()) == []
    assert played.tally.utilisation == 0.0


@pytest.mark.parametrize("rules", [DEFAULT, STRICT])
def test_pairs_share_gpus_and_are_done_when_the_slower_is(rules: Rules) -> None:
    def paired(moment: Moment) -> Shares:
        names = tuple(moment.steps_left)
        both = {names: {"fast": 1.0}} if len(names) > 1 else {}
        return {**{(name,): {"fast": 0.0} for name in names}, **both}

    def rates(row: Row, _flavor: str, _spread: bool) -> tuple[float, ...]:  # noqa: FBT001
        return (1.0,) if len(row) == 1 else (0.5, 0.25)

    jobs = (job("a", 50), job("b", 50))
    setting = Setting(
        jobs=jobs, servers=(Server(flavor="fast", gpus=(7,)),), rules=rules, has_pairs=True
    )
    played = Play(setting, rates, paired, repeat(("fast",)))
    first = next(played.rounds())
    assert {row: place.gpus for row, place in first.places.items()} == {("a", "b"): (7,)}


def orders(policy: str, seed: int) -> list[tuple[str, ...]]:
    drawn: Iterator[tuple[str, ...]] = strict_orders(policy, ["k80", "p100", "v100", "a100"], seed)
    return [next(drawn) for _ in range(20)]


def test_flavors_choose_in_a_fixed_order_or_in_one_that_the_seed_draws() -> None:
    assert set(orders("max_min_fairness_perf", 0)) == {("v100", "p100", "k80", "a100")}
    assert set(orders("gandiva", 0)) == {("v100", "p100", "k80", "a100")}
    assert len(set(orders("isolated", 0))) > 1
    assert orders("isolated", 0) == orders("isolated", 0) != orders("isolated", 1)


@pytest.mark.parametrize(
    ("policy", "pairs", "aware"),
    [
        ("fifo", False, False),
        ("fifo_packed", True, True),
        ("isolated", False, False),
        ("allox", False, True),
        ("allox_alpha=0.5", False, True),
        ("gandiva", True, True),
        ("max_min_fairness_water_filling", False, False),
        ("max_sum_throughput_normalized_by_cost_packed_SLOs", True, True),
    ],
)
def test_what_a_policy_does_is_in_its_name(policy: str, *, pairs: bool, aware: bool) -> None:
    assert has_pairs(policy) == pairs
    assert is_aware(policy) == aware
    assert strict_rules(policy, 60.0, 9.0).serves_without_share != policy.startswith("fifo")
    assert (strict_rules(policy, 60.0, 9.0).round_s, STRICT.round_s) == (60.0, 360.0)


def test_strictly_two_jobs_that_share_and_have_fewer_steps_than_gpus_fail_together() -> None:
    def paired(moment: Moment) -> Shares:
        both = tuple(moment.steps_left)
        return {**{(name,): {"fast": 0.0} for name in both}, both: {"fast": 1.0}}

    setting = Setting(
        jobs=(job("a", 1, gpus=2), job("b", 900, gpus=2)),
        servers=(Server(flavor="fast", gpus=(0, 1)),),
        rules=STRICT,
        has_pairs=True,
    )
    rounds = Play(setting, steady(1.0), paired, repeat(("fast",))).rounds()
    first, second = next(rounds), next(rounds)
    assert list(first.places) == list(second.places) == [("a", "b")]
    assert second.steps_left == first.steps_left
    assert second.is_renewed


def test_a_job_does_whole_steps_and_no_more_than_it_has_left() -> None:
    assert steps_in(0.5, 361.0, 1000) == 180
    assert steps_in(0.5, 361.0, 7) == 7
