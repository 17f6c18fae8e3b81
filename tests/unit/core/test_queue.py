"""The queue's order, and what soft quotas do beside it: burst and thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorate.core.audit import audit
from quorate.core.commands import Apply, Command, Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.core.due import next_due_ms
from quorate.core.invariants import sweep
from quorate.core.queue import Scores, queue_order
from quorate.core.score import ONE
from quorate.core.soft import bursting, is_burst
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.apply import apply_all
from quorate.model.events import Event, ThresholdCrossed
from quorate.model.records import Phase
from quorate.model.specs import Owner, Pool, Quota, System
from quorate.model.state import State
from quorate.testing.world import NOW_MS, budget, envelope, fleet, run


class World:
    """Two domains of 16 GPUs, money for everybody; every decision is audited."""

    def __init__(self, owners: Sequence[Owner], *more: System) -> None:
        self.state, self.log, self.now_ms = State(), list[Event](), NOW_MS
        budgets = [budget(o.name, o.name, envelope("all", 1_000)) for o in owners]
        self.do(Apply((*more, *fleet({"A": 16, "B": 16}), *owners, *budgets)))

    def do(self, command: Command, *, after_ms: int = 0) -> tuple[Event, ...]:
        self.now_ms += after_ms
        decision = decide(self.state, command, now_ms=self.now_ms, actor="test")
        assert decision.refusals == (), decision.refusals
        apply_all(self.state, decision.events)
        self.log += decision.events
        assert sweep(self.state) == []
        assert audit(self.log, view=self.state) == []
        return decision.events

    def submit(self, name: str, gpus: int, owner: str, *, hours: int = 24) -> None:
        self.do(Submit(run(name, gpus, owner, expected_duration_ms=hours * HOUR_MS)))

    def queue(self) -> list[str]:
        return queue_order(self.state, self.now_ms)

    def running(self) -> list[str]:
        return [n for n, r in self.state.runs.items() if r.phase is Phase.RUNNING]


def owner(name: str, **quota: int) -> Owner:
    return Owner(name=name, quota=Quota(**quota))


def test_whoever_has_less_goes_first() -> None:
    world = World([owner("ada"), owner("ben")])
    world.submit("a0", 24, "ada")
    world.submit("b0", 8, "ben")
    world.submit("a1", 16, "ada")
    world.submit("b1", 16, "ben")
    assert world.queue() == ["b1", "a1"]


def test_of_equals_whoever_waited_longer_goes_first() -> None:
    world = World([owner("ada"), owner("ben"), owner("cy")])
    world.submit("c", 32, "cy")
    for name, who in (("b", "ben"), ("a", "ada"), ("b2", "ben")):
        world.submit(name, 16, who)
    assert world.queue() == ["b", "a", "b2"]


def test_whoever_has_used_up_a_budget_comes_last_and_still_runs_where_there_is_room() -> None:
    world = World([owner("ada", gpu_ms_budget=HOUR_MS), owner("ben"), owner("cy")])
    world.submit("a0", 8, "ada", hours=1)
    world.do(Complete("a0"), after_ms=HOUR_MS)
    world.submit("free", 8, "ada", hours=1)
    assert "free" in world.running()
    world.submit("full", 24, "cy")
    world.submit("a1", 8, "ada")
    world.submit("b1", 32, "ben")
    assert world.queue() == ["b1", "a1"]
    scores = Scores(world.state, world.now_ms)
    assert scores.of("ada", "H100").is_over
    assert not scores.of("ben", "H100").is_over


def test_past_use_fades_with_the_half_life() -> None:
    world = World([owner("ada"), owner("ben")], System(half_life_ms=HOUR_MS))
    world.submit("a0", 32, "ada", hours=100)
    world.do(Complete("a0"), after_ms=10 * HOUR_MS)
    fresh = Scores(world.state, world.now_ms).of("ada", "H100")
    later = Scores(world.state, world.now_ms + HOUR_MS).of("ada", "H100")
    assert fresh.instant == later.instant == 0
    assert fresh.decayed / ONE == pytest.approx(1, rel=0.3)
    assert later.decayed / fresh.decayed == pytest.approx(0.5, rel=0.05)


def test_targets_that_nobody_stated_share_what_is_left() -> None:
    world = World([owner("ada", fair_share_target_ppm=400_000), owner("ben"), owner("cy")])
    scores = Scores(world.state, world.now_ms)
    assert [round(scores.of(name, "H100").target / ONE, 6) for name in ("ada", "ben", "cy")] == [
        0.4,
        0.3,
        0.3,
    ]


def test_an_owner_without_a_share_scores_nothing_and_is_not_kept_out() -> None:
    world = World([owner("ada", fair_share_target_ppm=1_000_000), owner("ben")])
    assert Scores(world.state, world.now_ms).of("ben", "H100").score == 0
    world.submit("b", 8, "ben")
    assert world.running() == ["b"]


def test_what_is_started_in_a_decision_counts_for_the_next_in_it() -> None:
    world = World([owner("ada"), owner("ben"), owner("cy")])
    world.do(Apply((Pool(name="default", reservation_depth=0),)))
    world.submit("full", 32, "cy", hours=1)
    for name in ("a1", "a2", "b1", "b2"):
        world.submit(name, 16, "ada" if name[0] == "a" else "ben")
    assert world.queue() == ["a1", "a2", "b1", "b2"]
    world.do(Complete("full"), after_ms=HOUR_MS)
    assert sorted(world.running()) == ["a1", "b1"]


def test_a_promised_start_keeps_its_place_whatever_the_scores_become() -> None:
    world = World([owner("ada"), owner("ben"), owner("cy")])
    world.submit("full", 32, "cy", hours=1)
    world.submit("wide", 32, "ada")
    world.submit("b", 16, "ben")
    world.do(Complete("full"), after_ms=HOUR_MS)
    assert world.running() == ["wide"]


def test_burst_is_what_an_owner_could_give_up_and_keep_its_share() -> None:
    world = World([owner("ada", fair_share_target_ppm=500_000), owner("ben")])
    assert bursting(world.state) is is_burst
    world.submit("a1", 16, "ada")
    assert not is_burst(world.state, world.state.runs["a1"])
    world.submit("a2", 8, "ada")
    assert [is_burst(world.state, world.state.runs[name]) for name in ("a1", "a2")] == [False, True]
    world.submit("b1", 8, "ben")
    assert not is_burst(world.state, world.state.runs["b1"])


def test_without_a_stated_share_nothing_is_burst() -> None:
    assert bursting(World([owner("ada")]).state) is None


def test_thresholds_are_told_once_when_due_and_armed_again_below() -> None:
    world = World([owner("ada", gpu_ms_budget=100 * HOUR_MS)], System(budget_period_days=1))
    world.submit("a", 10, "ada", hours=30)
    told: list[tuple[int, bool, float]] = []
    began_ms = world.now_ms
    while world.now_ms < began_ms + 13 * HOUR_MS:
        due_ms = next_due_ms(world.state, has_executor=False, after_ms=world.now_ms)
        assert due_ms is not None
        for event in world.do(Tick(), after_ms=due_ms - world.now_ms):
            if isinstance(event, ThresholdCrossed):
                hours = (event.at_ms - began_ms) / HOUR_MS
                told.append((event.percent, event.is_above, hours))
    assert told == [(80, True, 8.0), (100, True, 10.0), (120, True, 12.0)]
    world.do(Complete("a"))
    events = world.do(Tick(), after_ms=DAY_MS)
    down = [e for e in events if isinstance(e, ThresholdCrossed)]
    assert [(e.percent, e.is_above) for e in down] == [(120, False), (100, False), (80, False)]
    assert not world.state.thresholds
    assert world.do(Tick()) == ()


def test_a_raised_budget_arms_its_thresholds_again() -> None:
    world = World([owner("ada", gpu_ms_budget=10 * HOUR_MS)])
    world.submit("a", 10, "ada", hours=2)
    world.do(Tick(), after_ms=HOUR_MS)
    assert world.state.thresholds == {"ada": 100}
    world.do(Apply((owner("ada", gpu_ms_budget=100 * HOUR_MS),)))
    assert not world.state.thresholds


def test_whoever_loses_a_budget_is_told_in_the_order_in_which_thresholds_were_crossed() -> None:
    world = World([owner(name, gpu_ms_budget=10 * HOUR_MS) for name in ("ada", "ben", "cy")])
    world.submit("b", 10, "ben", hours=9)
    world.do(Tick(), after_ms=HOUR_MS)
    world.submit("a", 10, "ada", hours=9)
    world.do(Tick(), after_ms=HOUR_MS)
    world.submit("c", 10, "cy", hours=9)
    assert list(world.state.thresholds) == ["ben", "ada"]
    events = world.do(Apply((owner("ada"), owner("ben"))), after_ms=HOUR_MS)
    told = [(e.owner, e.percent, e.is_above) for e in events if isinstance(e, ThresholdCrossed)]
    assert told == [
        ("ada", 120, True),
        ("cy", 80, True),
        ("cy", 100, True),
        *[("ben", percent, False) for percent in (120, 100, 80)],
        *[("ada", percent, False) for percent in (120, 100, 80)],
    ]


def test_node_hours_count_distinct_nodes_and_the_worse_budget_counts() -> None:
    world = World([owner("ada", gpu_ms_budget=1_000 * HOUR_MS, node_ms_budget=10 * HOUR_MS)])
    world.submit("a", 2, "ada", hours=10)
    world.submit("b", 2, "ada", hours=10)  # on the same node
    world.do(Tick(), after_ms=5 * HOUR_MS)
    assert Scores(world.state, world.now_ms).of("ada", "H100").used == ONE // 2
