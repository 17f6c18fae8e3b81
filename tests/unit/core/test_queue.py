"""The queue's order, and the other effects of soft quotas: bursts and thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorate.core.commands import Apply, Complete, Submit, Tick
from quorate.core.next_due import next_due_ms
from quorate.core.preemption.soft_quota import bursting, is_burst
from quorate.core.tenancy.owner_scores import Scores
from quorate.core.tenancy.queue_order import ranked_lines
from quorate.core.tenancy.share_score import ONE
from quorate.core.tenancy.thresholds import crossed, threshold_due_ms
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import ThresholdCrossed
from quorate.model.specs import Owner, Pool, Quota, System
from quorate.model.state.line_ranks import Ranked
from quorate.testing.builders import run
from tests.oracles.tenancies import Tenancy


def small(owners: Sequence[Owner], system: System | None = None) -> Tenancy:
    """Return two domains of 16 GPUs."""
    return Tenancy(owners, nodes=2, system=system)


def submit(world: Tenancy, name: str, gpus: int, owner: str, *, hours: int = 24) -> None:
    world.do(Submit(run(name, gpus, owner, expected_duration_ms=hours * HOUR_MS)))


def owner(name: str, **quota: int) -> Owner:
    return Owner(name=name, quota=Quota(**quota))


def test_whoever_has_less_goes_first() -> None:
    world = small([owner("ada"), owner("ben")])
    submit(world, "a0", 24, "ada")
    submit(world, "b0", 8, "ben")
    submit(world, "a1", 16, "ada")
    submit(world, "b1", 16, "ben")
    assert world.queue() == ["b1", "a1"]


def test_of_equals_whoever_waited_longer_goes_first() -> None:
    world = small([owner("ada"), owner("ben"), owner("cy")])
    submit(world, "c", 32, "cy")
    for name, who in (("b", "ben"), ("a", "ada"), ("b2", "ben")):
        submit(world, name, 16, who)
    assert world.queue() == ["b", "a", "b2"]


def test_whoever_has_used_up_a_budget_comes_last_and_still_runs_where_there_is_room() -> None:
    world = small([owner("ada", gpu_ms_budget=HOUR_MS), owner("ben"), owner("cy")])
    submit(world, "a0", 8, "ada", hours=1)
    world.later(Complete("a0"), HOUR_MS)
    submit(world, "free", 8, "ada", hours=1)
    assert "free" in world.running()
    submit(world, "full", 24, "cy")
    submit(world, "a1", 8, "ada")
    submit(world, "b1", 32, "ben")
    assert world.queue() == ["b1", "a1"]
    scores = Scores(world.state, world.now_ms)
    assert scores.of("ada", "H100").is_over
    assert not scores.of("ben", "H100").is_over


def test_an_owner_over_its_budget_has_a_lower_step_in_its_terms_its_rank_and_its_bounds() -> None:
    # No hour is within a budget of 0, so that the rank of its owner lasts as long as any other.
    world = small([owner("ada", gpu_ms_budget=0), owner("ben"), owner("cy")])
    for name in ("ada", "ben"):
        submit(world, name, 5, name)
    scores, line = Scores(world.state, world.now_ms), ("H100",)
    over, within = scores.of("ada", "H100"), scores.of("ben", "H100")
    assert over.share == within.share
    assert (over.step, within.step) == (1, 24)
    assert scores.rank(("ada", line)) == (True, -over.step)
    assert scores.rank(("ben", line)) == (False, -within.step)
    for name in ("ada", "ben"):
        assert scores.lasting((name, line))[1] > world.now_ms


def test_past_use_fades_with_the_half_life() -> None:
    world = small([owner("ada"), owner("ben")], System(half_life_ms=HOUR_MS))
    submit(world, "a0", 32, "ada", hours=100)
    world.later(Complete("a0"), 10 * HOUR_MS)
    fresh = Scores(world.state, world.now_ms).of("ada", "H100")
    later = Scores(world.state, world.now_ms + HOUR_MS).of("ada", "H100")
    assert fresh.instant == later.instant == 0
    assert fresh.decayed / ONE == pytest.approx(1, rel=0.3)
    assert later.decayed / fresh.decayed == pytest.approx(0.5, rel=0.05)


def test_targets_that_nobody_stated_share_what_is_left() -> None:
    world = small([owner("ada", fair_share_target_ppm=400_000), owner("ben"), owner("cy")])
    scores = Scores(world.state, world.now_ms)
    assert [round(scores.of(name, "H100").target / ONE, 6) for name in ("ada", "ben", "cy")] == [
        0.4,
        0.3,
        0.3,
    ]


def test_of_a_flavor_that_is_not_there_nobody_has_a_share() -> None:
    world = small([owner("ada"), owner("ben")])
    submit(world, "a", 8, "ada")
    terms = Scores(world.state, world.now_ms).of("ada", "A100")
    assert (terms.instant, terms.decayed, terms.share, terms.utilisation) == (0, 0, 0, 0)


def test_an_owner_without_a_share_scores_nothing_and_is_not_kept_out() -> None:
    world = small([owner("ada", fair_share_target_ppm=1_000_000), owner("ben")])
    assert Scores(world.state, world.now_ms).of("ben", "H100").score == 0
    submit(world, "b", 8, "ben")
    assert world.running() == ["b"]


def test_what_is_started_in_a_decision_counts_for_the_next_in_it() -> None:
    world = small([owner("ada"), owner("ben"), owner("cy")])
    world.do(Apply((Pool(name="default", reservation_depth=0),)))
    submit(world, "full", 32, "cy", hours=1)
    for name in ("a1", "a2", "b1", "b2"):
        submit(world, name, 16, "ada" if name[0] == "a" else "ben")
    assert world.queue() == ["a1", "a2", "b1", "b2"]
    world.later(Complete("full"), HOUR_MS)
    assert sorted(world.running()) == ["a1", "b1"]


def test_what_is_started_counts_for_all_that_its_owner_waits_for_each_time_anew() -> None:
    world = small([owner("ada"), owner("ben"), owner("cy")])
    world.do(Apply((Pool(name="default", reservation_depth=0),)))
    submit(world, "full", 32, "cy", hours=1)
    for name in ("a1", "a2"):
        submit(world, name, 8, "ada")
    # It is in a separate line, because it names other flavors.
    world.do(Submit(run("a3", 8, "ada", flavors=("H100", "A100"))))
    for name in ("b1", "b2"):
        submit(world, name, 8, "ben")
    world.later(Complete("full"), HOUR_MS)
    assert sorted(world.running()) == ["a1", "a2", "b1", "b2"]


def test_a_promised_start_keeps_its_place_whatever_the_scores_become() -> None:
    world = small([owner("ada"), owner("ben"), owner("cy")])
    submit(world, "full", 32, "cy", hours=1)
    submit(world, "wide", 32, "ada")
    submit(world, "b", 16, "ben")
    world.later(Complete("full"), HOUR_MS)
    assert world.running() == ["wide"]


def test_burst_is_what_an_owner_could_give_up_and_keep_its_share() -> None:
    world = small([owner("ada", fair_share_target_ppm=500_000), owner("ben")])
    assert bursting(world.state) is is_burst
    submit(world, "a1", 16, "ada")
    assert not is_burst(world.state, world.state.runs["a1"])
    submit(world, "a2", 8, "ada")
    assert [is_burst(world.state, world.state.runs[name]) for name in ("a1", "a2")] == [False, True]
    submit(world, "b1", 8, "ben")
    assert not is_burst(world.state, world.state.runs["b1"])


def test_without_a_stated_share_nothing_is_burst() -> None:
    assert bursting(small([owner("ada")]).state) is None


def test_thresholds_are_told_once_when_due_and_armed_again_below() -> None:
    world = small([owner("ada", gpu_ms_budget=100 * HOUR_MS)], System(budget_period_days=1))
    submit(world, "a", 10, "ada", hours=30)
    told: list[tuple[int, bool, float]] = []
    began_ms = world.now_ms
    while world.now_ms < began_ms + 13 * HOUR_MS:
        due_ms = next_due_ms(world.state, has_executor=False, after_ms=world.now_ms)
        assert due_ms is not None
        for event in world.do(Tick(), due_ms).events:
            if isinstance(event, ThresholdCrossed):
                hours = (event.at_ms - began_ms) / HOUR_MS
                told.append((event.percent, event.is_above, hours))
    assert told == [(80, True, 8.0), (100, True, 10.0), (120, True, 12.0)]
    world.do(Complete("a"))
    events = world.later(Tick(), DAY_MS).events
    down = [e for e in events if isinstance(e, ThresholdCrossed)]
    assert [(e.percent, e.is_above) for e in down] == [(120, False), (100, False), (80, False)]
    assert not world.state.thresholds
    assert world.do(Tick()).events == ()


def test_the_next_threshold_is_found_behind_one_that_is_put_off_as_past_use_leaves_the_window() -> (
    None
):
    owners = [owner("ada", gpu_ms_budget=100 * HOUR_MS), owner("ben", gpu_ms_budget=35 * HOUR_MS)]
    world = small(owners, System(budget_period_days=1))
    began_ms = world.now_ms
    submit(world, "past", 8, "ada", hours=4)
    world.do(Complete("past"), began_ms + 4 * HOUR_MS)
    world.now_ms = began_ms + 5 * HOUR_MS
    submit(world, "a", 2, "ada", hours=100)
    world.now_ms = began_ms + 23 * HOUR_MS
    submit(world, "b", 4, "ben", hours=100)
    # As of then ada reaches 80 % after 29 hours. Three hours later, two past hours are forgotten.
    assert threshold_due_ms(world.state, world.now_ms) == began_ms + 29 * HOUR_MS
    assert threshold_due_ms(world.state, began_ms + 26 * HOUR_MS) == began_ms + 30 * HOUR_MS


@pytest.mark.parametrize(
    ("used", "known", "reached"),
    [
        (79, 0, 0),
        (80, 0, 80),
        (99, 80, 80),
        (100, 80, 100),
        (96, 100, 100),
        (95, 100, 80),
        (76, 80, 80),
        (75, 80, 0),
        (120, 0, 120),
        (115, 120, 100),
    ],
)
def test_a_threshold_is_crossed_at_its_percent_and_armed_again_five_points_below(
    used: int, known: int, reached: int
) -> None:
    assert crossed([(used, 1, 100)], known) == reached


def test_a_raised_budget_arms_its_thresholds_again() -> None:
    world = small([owner("ada", gpu_ms_budget=10 * HOUR_MS)])
    submit(world, "a", 10, "ada", hours=2)
    world.later(Tick(), HOUR_MS)
    assert world.state.thresholds == {"ada": 100}
    world.do(Apply((owner("ada", gpu_ms_budget=100 * HOUR_MS),)))
    assert not world.state.thresholds


def test_whoever_loses_a_budget_is_told_in_the_order_in_which_thresholds_were_crossed() -> None:
    world = small([owner(name, gpu_ms_budget=10 * HOUR_MS) for name in ("ada", "ben", "cy")])
    submit(world, "b", 10, "ben", hours=9)
    world.later(Tick(), HOUR_MS)
    submit(world, "a", 10, "ada", hours=9)
    world.later(Tick(), HOUR_MS)
    submit(world, "c", 10, "cy", hours=9)
    assert list(world.state.thresholds) == ["ben", "ada"]
    events = world.later(Apply((owner("ada"), owner("ben"))), HOUR_MS).events
    told = [(e.owner, e.percent, e.is_above) for e in events if isinstance(e, ThresholdCrossed)]
    assert told == [
        ("ada", 120, True),
        ("cy", 80, True),
        ("cy", 100, True),
        *[("ben", percent, False) for percent in (120, 100, 80)],
        *[("ada", percent, False) for percent in (120, 100, 80)],
    ]


def test_node_hours_count_distinct_nodes_and_the_worse_budget_counts() -> None:
    world = small([owner("ada", gpu_ms_budget=1_000 * HOUR_MS, node_ms_budget=10 * HOUR_MS)])
    submit(world, "a", 2, "ada", hours=10)
    submit(world, "b", 2, "ada", hours=10)  # on the same node
    world.later(Tick(), 5 * HOUR_MS)
    assert Scores(world.state, world.now_ms).of("ada", "H100").used == ONE // 2


def test_rank_of_an_owner_that_may_burst_follows_the_fleet_at_one_instant() -> None:
    owners = [owner("ada", fair_share_target_ppm=200_000, burst_allowance_ppm=4_000_000)]
    world = small([*owners, owner("ben")])
    submit(world, "b0", 24, "ben")
    submit(world, "a0", 8, "ada")
    submit(world, "a1", 32, "ada")
    assert ranked_lines(world.state, world.now_ms) == ranked_anew(world)
    world.do(Complete("b0"))
    assert ranked_lines(world.state, world.now_ms) == ranked_anew(world)


def ranked_anew(world: Tenancy) -> list[Ranked]:
    """Return the lines as ranked without caches."""
    fresh = world.state.overlay()
    fresh.ranks_changed()
    return ranked_lines(fresh, world.now_ms)
