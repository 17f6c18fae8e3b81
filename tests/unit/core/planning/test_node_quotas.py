"""Firm starts under quotas of nodes, and nodes that are added beside firm starts."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Complete, Submit
from quorate.core.planning.foresight import PlanState
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Role
from quorate.model.specs import OnQuota, Owner, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, fleet, node
from tests.oracles.lives import Life
from tests.oracles.plans import (
    clashes,
    firm_ms,
    foreseen,
    moves,
    of,
    planned_life,
    quiet_pool,
    start_ms_of,
    tick_until,
)


def in_domain(name: str) -> dict[str, object]:
    """Return the fields of a run in one domain."""
    return {"selector": (("fabric.domain", name),), "on_quota": OnQuota.WAIT}


def test_two_starts_under_one_quota_of_nodes_are_promised_so_that_both_can_be_kept() -> None:
    life = planned_life(
        nodes=[node("a0"), node("b0", domain="B"), node("c0", domain="C")],
        owners=[
            Owner(name="above", quota=Quota(nodes_max=2)),
            Owner(name="one", parents=("above",)),
            Owner(name="two", parents=("above",)),
        ],
    )
    # Runs in other domains cannot use the rest of its node.
    life.do(Submit(of("small", 1, "one", 6_000, **in_domain("A"))))
    life.do(Submit(of("x", 8, "three", 120, **in_domain("B"))))
    life.do(Submit(of("y", 8, "three", 120, **in_domain("C"))))
    life.do(Submit(of("first", 7, "one", 600, **in_domain("B"))))
    life.do(Submit(of("second", 7, "two", 600, **in_domain("C"))))
    assert clashes(life) == []
    assert firm_ms(life, "first") == NOW_MS + 2 * HOUR_MS
    assert firm_ms(life, "second") == NOW_MS + 12 * HOUR_MS
    decided = [life.do(Complete("x"), NOW_MS + 2 * HOUR_MS), life.do(Complete("y"))]
    decided += tick_until(life, NOW_MS + 12 * HOUR_MS)
    decided.append(life.do(Complete("first")))
    assert [move for decision in decided for move in moves(decision)] == []
    assert start_ms_of(life, "first") == NOW_MS + 2 * HOUR_MS
    assert start_ms_of(life, "second") == NOW_MS + 12 * HOUR_MS


def one_node_life() -> Life:
    """Return four shared nodes, of which ``two`` may hold one; a firm start needs it in an hour."""
    life = planned_life(32, owners=[Owner(name="two", quota=Quota(nodes_max=1))])
    life.do(Submit(of("own", 8, "two", 60)))
    life.do(Submit(of("waits", 8, "two", 60, on_quota=OnQuota.WAIT)))
    assert firm_ms(life, "waits") == NOW_MS + HOUR_MS
    return life


def test_what_starts_before_a_promised_node_leaves_one_whole_however_it_is_placed() -> None:
    life = one_node_life()
    # One GPU on each of the four nodes would leave no node that holds the run.
    for number in range(4):
        life.do(Submit(of(f"tiny{number}", 1, "three", 600)))
        assert clashes(life) == []
    running = [n for n in range(4) if life.phase(f"tiny{n}") is Phase.RUNNING]
    assert running == [0, 1, 2]
    life.do(Complete("own"), NOW_MS + HOUR_MS)
    assert start_ms_of(life, "waits") == NOW_MS + HOUR_MS
    assert life.phase("tiny3") is Phase.RUNNING


def test_what_ends_before_a_promised_node_is_needed_may_use_all_of_the_domain() -> None:
    life = one_node_life()
    life.do(Submit(of("short", 24, "three", 60)))
    assert life.phase("short") is Phase.RUNNING


def test_start_that_no_quota_of_nodes_allows_everywhere_is_no_promise() -> None:
    life = planned_life(
        16,
        pool=quiet_pool(horizon_ms=2 * HOUR_MS),
        owners=[Owner(name="two", quota=Quota(nodes_max=1))],
    )
    life.do(Submit(of("one", 1, "three", 600)))
    life.do(Submit(of("other", 7, "three", 600)))
    life.do(Submit(of("own", 1, "two", 60)))
    life.do(Submit(of("rest", 7, "three", 60)))
    # Eight GPUs become free, perhaps four on each of the nodes.
    life.do(Submit(of("waits", 8, "two", 60, on_quota=OnQuota.WAIT)))
    assert firm_ms(life, "waits") is None
    assert foreseen(life, "waits").state is PlanState.TENTATIVE
    decided = [life.do(Complete("own"), NOW_MS + HOUR_MS), life.do(Complete("rest"))]
    assert [move for decision in decided for move in moves(decision)] == []
    assert life.phase("waits") is Phase.RUNNING


@pytest.mark.parametrize("size", [1, 4, 8, 16])
@pytest.mark.parametrize("whole", [False, True], ids=["shared", "whole"])
def test_added_node_of_any_size_moves_no_firm_start(size: int, *, whole: bool) -> None:
    life = planned_life(nodes=fleet({"A": 16}), pool=quiet_pool(whole_nodes=whole))
    life.do(Submit(of("x", 16, "one", 120)))
    life.do(Submit(of("p1", 8, "two", 60)))
    life.do(Submit(of("p2", 8, "three", 60)))
    decided = [life.do(Apply((node("a9999", size),)), NOW_MS + MINUTE_MS)]
    decided += tick_until(life, NOW_MS + 2 * HOUR_MS)
    decided.append(life.do(Complete("x")))
    assert [move for decision in decided for move in moves(decision)] == []
    for name in ("p1", "p2"):
        assert life.phase(name) is Phase.RUNNING
        assert start_ms_of(life, name) <= NOW_MS + 2 * HOUR_MS


def test_node_added_to_a_domain_under_a_quota_moves_no_firm_start() -> None:
    life = one_node_life()
    decided = [life.do(Apply((node("a9999", 8),)), NOW_MS + MINUTE_MS)]
    decided += tick_until(life, NOW_MS + HOUR_MS)
    decided.append(life.do(Complete("own")))
    assert [move for decision in decided for move in moves(decision)] == []
    assert start_ms_of(life, "waits") == NOW_MS + HOUR_MS


@pytest.mark.parametrize("spares", [1, 4])
def test_run_with_spares_starts_on_the_one_node_that_its_quota_allows(spares: int) -> None:
    life = planned_life(16, owners=[Owner(name="two", quota=Quota(nodes_max=1))])
    life.do(Submit(of("spared", 2, "two", spares_per_group=spares, on_quota=OnQuota.WAIT)))
    assert life.phase("spared") is Phase.RUNNING
    assert len(life.on("spared") | life.on("spared", Role.SPARE)) == 1


def test_groups_and_their_spares_share_nodes_where_a_quota_allows_few() -> None:
    life = planned_life(32, owners=[Owner(name="two", quota=Quota(nodes_max=1))])
    grouped = of("grouped", 4, "two", group_gpus=2, spares_per_group=1, on_quota=OnQuota.WAIT)
    life.do(Submit(grouped))
    assert len(life.on("grouped") | life.on("grouped", Role.SPARE)) == 1


@pytest.mark.parametrize("minutes", [60, 120])
def test_a_node_of_a_filled_spare_no_longer_counts_when_the_spares_run_has_ended(
    minutes: int,
) -> None:
    nodes = [node("a0", 4), node("a1", 4), node("b0", 4, "B"), node("b1", 4, "B")]
    life = planned_life(nodes=nodes, owners=[Owner(name="two", quota=Quota(nodes_max=2))])
    keeper = of("keeper", 4, "two", 120, group_gpus=4, spares_per_group=4, **in_domain("A"))
    life.do(Submit(keeper))
    life.do(Submit(of("waits", 8, "two", 60, **in_domain("B"))))
    assert firm_ms(life, "waits") == NOW_MS + 2 * HOUR_MS
    decision = life.do(Submit(of("filler", 4, "three", minutes, **in_domain("A"))))
    assert (life.filled("keeper"), moves(decision), clashes(life)) == (4, [], [])
    life.do(Complete("keeper"), NOW_MS + 2 * HOUR_MS)
    assert start_ms_of(life, "waits") == NOW_MS + 2 * HOUR_MS


@pytest.mark.heavy
def test_run_under_a_quota_of_nodes_is_not_passed_by_backfill_without_end() -> None:
    life = planned_life(
        nodes=[node(f"a{rack}", rack=f"k{rack}") for rack in range(4)],
        pool=quiet_pool(horizon_ms=HOUR_MS),
        owners=[Owner(name="two", quota=Quota(nodes_max=1))],
    )
    lasts_ms = 100 * MINUTE_MS
    for minute in range(0, 400, 5):
        at_ms = NOW_MS + minute * MINUTE_MS
        tick_until(life, at_ms)
        for record in [r for r in life.state.runs.values() if r.phase is Phase.RUNNING]:
            if record.since_ms is not None and record.since_ms + lasts_ms <= at_ms:
                life.do(Complete(record.spec.name), at_ms)
        if minute == 100:
            life.do(Submit(of("waits", 8, "two", 60, on_quota=OnQuota.WAIT)), at_ms)
        if minute >= 100 and life.phase("waits") is Phase.RUNNING:
            break
        # In each rack a run of one GPU begins every 20 minutes, before the others have ended.
        for rack in range(4):
            if minute % 20 == 5 * rack:
                name, where = f"r{minute:03d}", (("rack", f"k{rack}"),)
                life.do(Submit(of(name, 1, "three", 100, selector=where)), at_ms)
    assert start_ms_of(life, "waits") <= NOW_MS + 200 * MINUTE_MS
