"""Hard quotas: checked in the commit, with numbers; no run is stopped, waiting ones are tried."""

from __future__ import annotations

import pytest

from quorate.core.audit.invariants import sweep
from quorate.core.commands import (
    Apply,
    Cancel,
    Complete,
    MarkNode,
    Submit,
    Tick,
)
from quorate.model.amounts import HOUR_MS
from quorate.model.events import NodeStatus, RunRefused
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.specs import Malleable, Node, OnQuota, Owner, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run
from tests.oracles.lives import Life
from tests.oracles.tenancies import Tenancy, money_of

WAITING = RefusalCode.WAITING_FOR_QUOTA


def physics(**limits: int) -> list[Owner]:
    return [Owner(name="physics", quota=Quota(**limits)), Owner(name="other")]


def waits(name: str, gpus: int, owner: str = "physics") -> Submit:
    return Submit(run(name, gpus, owner, on_quota=OnQuota.WAIT, expected_duration_ms=HOUR_MS))


def asks(name: str, gpus: int, owner: str = "physics") -> Submit:
    return Submit(run(name, gpus, owner, expected_duration_ms=HOUR_MS))


def test_what_would_exceed_the_nodes_is_refused_with_the_numbers() -> None:
    world = Tenancy(physics(nodes_max=3))
    world.do(asks("a", 16))
    assert world.said(asks("b", 16)) == (
        'allocation rejected: tenant "physics" would exceed max_nodes quota '
        "(current: 2, requested: 2, limit: 3)"
    )
    assert "b" not in world.state.runs
    world.do(asks("c", 8))
    assert world.said(asks("d", 1)) == (
        'allocation rejected: tenant "physics" would exceed max_nodes quota '
        "(current: 3, requested: 1, limit: 3)"
    )


def test_what_would_exceed_the_running_runs_is_refused_with_the_numbers() -> None:
    world = Tenancy(physics(concurrent_runs_max=1))
    world.do(asks("a", 1))
    assert world.said(asks("b", 1)) == (
        'allocation rejected: tenant "physics" would exceed max_concurrent_allocations quota '
        "(current: 1, requested: 1, limit: 1)"
    )
    world.do(asks("other", 1, "other"))


def test_zero_is_none_and_absent_is_unlimited() -> None:
    world = Tenancy(physics(nodes_max=0))
    assert "limit: 0" in world.said(asks("a", 1))
    world.limit("physics", Quota())
    world.do(asks("a", 32))
    assert world.phase("a") is Phase.RUNNING


def test_after_a_reduction_the_text_has_four_lines_and_nothing_is_stopped() -> None:
    world = Tenancy(physics(nodes_max=8))
    world.do(asks("a", 48))
    world.limit("physics", Quota(nodes_max=4))
    assert world.phase("a") is Phase.RUNNING
    assert world.said(asks("b", 8)).splitlines() == [
        'allocation rejected: tenant "physics" exceeds max_nodes quota',
        "  Current usage: 6 nodes",
        "  New limit: 4 nodes",
        "  Hint: Wait for running allocations to complete, or contact your tenant admin.",
    ]
    world.do(Complete("a"))
    world.do(asks("b", 8))


def test_the_refusal_has_its_numbers_as_data() -> None:
    world = Tenancy(physics(nodes_max=3))
    world.do(asks("a", 16))
    (refusal,) = world.try_(asks("b", 16)).refusals
    assert refusal.code is RefusalCode.MAX_NODES
    assert (refusal.subject, refusal.current, refusal.wanted, refusal.limit, refusal.short) == (
        "physics",
        2,
        2,
        3,
        1,
    )


def test_a_run_that_may_wait_says_so_and_is_woken_by_what_makes_room() -> None:
    world = Tenancy(physics(nodes_max=2))
    world.do(asks("a", 8))
    world.do(asks("b", 8))
    decision = world.do(waits("c", 8))
    refused = decision.events[-1]
    assert isinstance(refused, RunRefused)
    assert refused.refusal.code is WAITING
    assert sentence(refused.refusal) == (
        'waiting for quota headroom: tenant "physics" has 2 of 2 max_nodes, 1 more wanted'
    )
    assert world.state.parked == {"physics": {"c": None}}
    assert not world.state.queued
    # It is planned for when the quota becomes free by itself, and starts if that happens earlier.
    assert world.state.reservations["c@1"].planned_start_ms == NOW_MS + HOUR_MS
    world.do(Complete("a"))
    assert world.phase("c") is Phase.RUNNING
    assert not world.state.parked


def test_those_who_wait_are_woken_in_their_order_and_no_further_than_there_is_room() -> None:
    world = Tenancy(physics(concurrent_runs_max=2))
    world.do(asks("a", 1))
    world.do(asks("b", 1))
    for name in ("w1", "w2", "w3"):
        world.do(waits(name, 1))
    world.do(Complete("a"))
    assert [world.phase(f"w{n}") for n in (1, 2, 3)] == [
        Phase.RUNNING,
        Phase.PENDING,
        Phase.PENDING,
    ]
    world.do(Cancel("w1"))
    assert world.phase("w2") is Phase.RUNNING
    world.limit("physics", Quota(concurrent_runs_max=3))
    assert world.phase("w3") is Phase.RUNNING


def test_what_others_end_wakes_nobody_else() -> None:
    world = Tenancy([*physics(concurrent_runs_max=1), Owner(name="chem", quota=Quota(nodes_max=9))])
    world.do(asks("a", 1))
    world.do(waits("w", 1))
    world.do(asks("x", 1, "chem"))
    decision = world.do(Complete("x"))
    assert {type(event).__name__ for event in decision.events} == {"LeaseEnded", "RunEnded"}


def test_descendants_count_and_the_limit_that_binds_is_named() -> None:
    owners = [
        Owner(name="science", quota=Quota(nodes_max=3)),
        Owner(name="physics", parents=("science",)),
        Owner(name="chem", parents=("science",), quota=Quota(nodes_max=2)),
    ]
    world = Tenancy(owners)
    world.do(asks("a", 16, "physics"))
    assert 'tenant "science"' in world.said(asks("b", 16, "chem"))
    world.do(asks("c", 8, "chem"))
    assert world.state.holdings.held() == {"chem": (1, 1), "science": (3, 2)}
    world.do(Complete("a"))
    assert 'tenant "chem"' in world.said(asks("d", 16, "chem"))


def test_an_owner_of_two_parents_counts_once_above_them() -> None:
    owners = [
        Owner(name="top", quota=Quota(nodes_max=2)),
        Owner(name="left", parents=("top",)),
        Owner(name="right", parents=("top",)),
        Owner(name="team", parents=("left", "right")),
    ]
    world = Tenancy(owners)
    world.do(asks("a", 16, "team"))
    assert world.state.holdings.held() == {"top": (2, 1)}


def test_packing_falls_back_to_nodes_that_its_owner_has() -> None:
    world = Tenancy(physics(nodes_max=2), domains="A")
    world.do(asks("a", 12))  # a whole node and half of another
    world.do(asks("x", 2, "other"))  # best fit: the half-used node
    decision = world.do(asks("b", 2))
    assert world.phase("b") is Phase.RUNNING
    assert world.state.holdings.held() == {"physics": (2, 2)}
    assert decision.refusals == ()
    assert "current: 2, requested: 1, limit: 2" in world.said(asks("c", 8))


def test_packing_looks_in_other_domains_for_nodes_that_its_owner_has() -> None:
    world = Tenancy(physics(nodes_max=1), nodes=1)
    world.do(asks("a", 4))
    world.do(asks("tight", 6, "other"))  # leaves 2 GPUs elsewhere, where best fit would place 2
    world.do(asks("b", 2))
    assert world.phase("b") is Phase.RUNNING
    assert len({world.state.leases[n].fact.slots[0][0] for n in ("a/0", "b/0")}) == 1


def test_a_malleable_run_starts_as_wide_as_its_quota_lets_it_and_grows_no_further() -> None:
    world = Tenancy(physics(nodes_max=2))
    elastic = Malleable(gpus_min=8, gpus_max=32, gpus_step=8, gpus_desired=32)
    world.do(Submit(run("m", 32, "physics", malleable=elastic, expected_duration_ms=HOUR_MS)))
    assert world.state.holdings.held() == {"physics": (2, 1)}
    world.do(Tick())
    assert world.state.holdings.held() == {"physics": (2, 1)}
    world.limit("physics", Quota(nodes_max=3))
    assert world.state.holdings.held() == {"physics": (3, 1)}


def test_one_that_waits_for_room_is_accepted_and_may_wait_for_its_quota_later() -> None:
    world = Tenancy(physics(nodes_max=2), nodes=1)
    world.do(asks("full", 16, "other"))
    world.do(asks("a", 8))
    world.limit("physics", Quota(nodes_max=0))
    world.do(Complete("full"))
    record = world.state.runs["a"]
    assert record.phase is Phase.PENDING
    assert record.refusal is not None
    assert record.refusal.code is WAITING
    world.limit("physics", Quota(nodes_max=1))
    assert world.phase("a") is Phase.RUNNING


def test_without_room_a_quota_that_nothing_could_meet_is_still_refused() -> None:
    world = Tenancy(physics(nodes_max=1), nodes=1)
    world.do(asks("full", 16, "other"))
    assert "current: 0, requested: 2, limit: 1" in world.said(asks("a", 16))


def test_runs_applied_together_are_refused_together() -> None:
    world = Tenancy(physics(concurrent_runs_max=1))
    together = [run(name, 1, "physics", expected_duration_ms=HOUR_MS) for name in ("a", "b")]
    assert "current: 1, requested: 1, limit: 1" in world.said(Apply(tuple(together)))
    assert not world.state.runs


def test_a_lost_node_counts_until_its_work_is_gone() -> None:
    world = Tenancy(physics(nodes_max=1), domains="A")
    world.do(asks("a", 8))
    world.do(MarkNode(next(iter(world.state.leases.values())).fact.slots[0][0], NodeStatus.FAILED))
    # It is requeued, and finds another node, because it holds no node now.
    assert world.phase("a") is Phase.RUNNING
    assert world.state.holdings.held() == {"physics": (1, 1)}


@pytest.mark.parametrize("owner", ["physics", "below"])
def test_a_family_that_changes_is_counted_anew(owner: str) -> None:
    owners = [*physics(nodes_max=2), Owner(name="below")]
    world = Tenancy(owners)
    world.do(asks("a", 16, owner))
    world.do(Apply((Owner(name="below", parents=("physics",)),)))
    assert world.state.holdings.held() == {"physics": (2, 1)}
    assert "current: 2, requested: 1, limit: 2" in world.said(asks("b", 8, "below"))


def test_what_others_free_may_make_fewer_nodes_do_and_is_not_slept_through() -> None:
    world = Tenancy(physics(nodes_max=2), nodes=3, domains="A")
    world.do(asks("mine", 8))
    world.do(asks("x", 5, "other"))
    world.do(asks("y", 5, "other"))
    # 6 GPUs are free, on half-used nodes: it would need two more nodes, and may have one.
    world.do(waits("w", 5))
    record = world.state.runs["w"]
    assert record.refusal is not None
    assert record.refusal.code is WAITING
    assert record.quota_blocker is None
    assert "w" in world.state.queued
    world.do(Complete("x"))
    assert world.phase("w") is Phase.RUNNING


def test_what_others_free_on_ones_own_nodes_is_not_slept_through_either() -> None:
    world = Tenancy(physics(nodes_max=1), nodes=1, domains="A")
    world.do(asks("mine", 2))
    world.do(asks("x", 6, "other"))
    world.do(waits("w", 4))
    assert not world.state.parked
    world.do(Complete("x"))
    assert world.phase("w") is Phase.RUNNING


def test_larger_nodes_wake_those_for_whom_too_many_small_ones_were_needed() -> None:
    world = Tenancy(physics(nodes_max=1), nodes=2, domains="A")
    world.do(waits("w", 16))
    assert world.state.parked == {"physics": {"w": None}}
    world.do(
        Apply((Node(name="big", flavor="H100", gpus=16, region="r", cluster="c", domain="B"),))
    )
    assert world.phase("w") is Phase.RUNNING


def test_leaving_a_family_that_is_full_wakes_those_who_waited_for_it() -> None:
    owners = [
        Owner(name="org", quota=Quota(concurrent_runs_max=0)),
        Owner(name="cat", parents=("org",)),
    ]
    world = Tenancy(owners)
    world.do(waits("w", 1, "cat"))
    assert world.state.parked == {"org": {"w": None}}
    world.do(Apply((Owner(name="cat"),)))
    assert world.phase("w") is Phase.RUNNING


def test_what_waits_for_money_is_not_refused_nodes_that_its_owner_has() -> None:
    life = Life(
        nodes=fleet({"A": 16}),
        owners=physics(nodes_max=1),
        budgets=[budget("b", "physics", envelope("e", 4))],
    )
    life.do(asks("a", 4))
    life.do(asks("b", 4))
    assert life.phase("b") is Phase.PENDING
    life.do(Complete("a"))
    assert life.phase("b") is Phase.RUNNING


def test_a_filled_spare_that_is_given_up_wakes_those_who_wait_for_its_node() -> None:
    life = Life(
        nodes=[*fleet({"A": 16}, gpus=4), node("small", 2)],
        owners=physics(nodes_max=3),
        budgets=[money_of("physics"), money_of("other")],
    )
    life.do(Submit(run("keeper", 8, "physics", group_gpus=8, spares_per_group=2)))
    life.do(asks("full", 8, "other"))
    life.do(asks("filler", 2, "other"))
    assert (life.on("filler"), life.filled("keeper")) == ({"small": 2}, 2)
    life.do(Complete("full"))
    life.do(waits("w", 4))
    assert life.state.parked == {"physics": {"w": None}}
    assert life.state.reservations["w@1"].planned_start_ms == NOW_MS + HOUR_MS
    life.do(MarkNode("small", NodeStatus.FAILED))
    assert (life.filled("keeper"), life.phase("w")) == (0, Phase.RUNNING)


def test_gpus_of_a_filled_spare_count_once_where_one_owner_has_both() -> None:
    life = Life(
        nodes=[*fleet({"A": 16}, gpus=4), node("small", 2)],
        owners=physics(nodes_max=4),
        budgets=[money_of("physics"), money_of("other")],
    )
    life.do(Submit(run("keeper", 8, "physics", group_gpus=8, spares_per_group=2)))
    life.do(asks("full", 8, "other"))
    life.do(asks("filler", 2, "physics"))
    assert (life.on("filler"), life.filled("keeper")) == ({"small": 2}, 2)
    assert life.state.holdings.room == {"physics": 0}
    assert sweep(life.state) == []


def test_a_quota_that_only_planned_starts_use_up_refuses_no_run() -> None:
    """``wide`` has a firm start on three nodes; ``narrow`` may delay it, so it waits."""
    top = Owner(name="top", quota=Quota(nodes_max=3))
    money = budget("top", "top", envelope("all", 1_000))
    life = Life(nodes=fleet({"A": 12, "B": 12}, gpus=4), budgets=[money])
    life.do(Apply((top,)))
    life.do(Submit(run("running", 1, "top", expected_duration_ms=HOUR_MS)))
    wide = run("wide", 12, "top", on_quota=OnQuota.WAIT, expected_duration_ms=HOUR_MS)
    life.do(Submit(wide))
    assert life.state.runs["wide"].reservation is not None
    narrow = run("narrow", 1, "top", on_quota=OnQuota.REFUSE, expected_duration_ms=HOUR_MS)
    decision = life.do(Submit(narrow))
    assert not decision.refusals
    assert life.phase("narrow") is Phase.PENDING
    again = run("again", 1, "top", on_quota=OnQuota.REFUSE, expected_duration_ms=HOUR_MS)
    assert not life.do(Apply((again,))).refusals
