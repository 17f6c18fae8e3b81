"""Hard quotas that a firm start needs are kept for it, whichever other run could use them now."""

from __future__ import annotations

import pytest

from quorate.core.commands import Complete, Submit
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import Malleable, OnQuota, Owner, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, node, run
from tests.oracles.plans import clashes, firm_ms, funds, moves, of, planned_life, quiet_pool
from tests.unit.core.planning.test_recall import borrower, lender, recalled

START_MS = NOW_MS + 2 * HOUR_MS


def at(domain: str) -> dict[str, object]:
    """Return the fields of a run for one domain."""
    return {"selector": (("fabric.domain", domain),)}


@pytest.mark.parametrize("whole_nodes", [True, False])
def test_growth_takes_no_node_of_a_quota_that_a_firm_start_counts_on(*, whole_nodes: bool) -> None:
    family = Owner(name="family", quota=Quota(nodes_max=2))
    life = planned_life(
        nodes=[node("a0"), node("a1"), node("b0", domain="B")],
        pool=quiet_pool(whole_nodes=whole_nodes),
        owners=[family, *(Owner(name=name, parents=("family",)) for name in ("one", "two"))],
    )
    life.do(Submit(of("busy-a", 8, "three", 60, **at("A"))))
    life.do(Submit(of("busy-b", 8, "three", 120, **at("B"))))
    grows = Malleable(gpus_min=8, gpus_max=16, gpus_step=8, gpus_desired=16)
    life.do(Submit(of("grows", 16, "one", 600, malleable=grows, **at("A"))))
    life.do(Submit(of("next", 8, "two", 60, on_quota=OnQuota.WAIT, **at("B"))))
    assert firm_ms(life, "next") == START_MS
    life.do(Complete("busy-a"), NOW_MS + HOUR_MS)
    assert life.gpus("grows") == 8
    assert moves(life.do(Complete("busy-b"), START_MS)) == []
    assert life.state.runs["next"].phase is Phase.RUNNING


def test_end_of_a_claim_frees_no_place_in_a_quota_of_runs() -> None:
    owner = Owner(name="one", quota=Quota(concurrent_runs_max=1))
    life = planned_life(nodes=[node(f"n{number}") for number in range(4)], owners=[owner])
    claim = {"sensitive": True, "user": "x", "expected_duration_ms": HOUR_MS, "checkpoint_ms": 0}
    life.do(Submit(run("claim", 8, "one", **claim)))
    life.do(Submit(of("long", 8, "one", 600)))
    life.do(Submit(of("waits", 8, "one", 60, on_quota=OnQuota.WAIT)))
    assert firm_ms(life, "waits") == NOW_MS + 10 * HOUR_MS


def test_loan_is_recalled_where_handing_it_over_does_not_start_the_run_at_once() -> None:
    pool = quiet_pool(horizon_ms=HOUR_MS)
    life = planned_life(24, budgets=[lender(8), funds("two", 8)], pool=pool)
    life.do(Submit(of("own", 8, "two", 600)))
    life.do(Submit(borrower("loan", 8, 600)))
    life.do(Submit(of("short", 8, "three", 10)))
    life.do(Submit(of("long", 8, "three", 600)))
    life.do(Complete("own"), NOW_MS + MINUTE_MS)
    assert [found[0] for found in recalled(life.do(Submit(of("mine", 8, "one", 60))))] == ["loan"]


# --- Nodes that are shared with work that ends sooner ---


def waits(domain: str) -> dict[str, object]:
    """Return the fields of a run that waits for its quota and for a domain."""
    return {"on_quota": OnQuota.WAIT, **at(domain)}


@pytest.mark.parametrize("has_executor", [True, False])
def test_run_keeps_no_node_longer_than_a_firm_start_leaves_it_to_the_quota(
    *, has_executor: bool
) -> None:
    life = planned_life(
        nodes=[node("a0"), node("b0", domain="B")],
        owners=[Owner(name="one", quota=Quota(nodes_max=1))],
        has_executor=has_executor,
    )
    life.do(Submit(of("first", 2, "one", 60, **waits("A"))))
    life.do(Submit(of("firm", 2, "one", 60, **waits("B"))))
    assert firm_ms(life, "firm") == NOW_MS + HOUR_MS
    life.do(Submit(of("long", 2, "one", 180, **waits("A"))), NOW_MS + MINUTE_MS)
    assert firm_ms(life, "long") == START_MS
    assert clashes(life) == []
    # It leaves the node before the work that is on it now.
    life.do(Submit(of("short", 2, "one", 50, **waits("A"))))
    assert life.phase("short") is Phase.RUNNING
    life.do(Complete("short", has_gone=True), NOW_MS + 51 * MINUTE_MS)
    decision = life.do(Complete("first", has_gone=True), NOW_MS + HOUR_MS)
    assert moves(decision) == []
    assert life.phase("firm") is Phase.RUNNING


def test_tenant_puts_off_no_firm_start_of_another_under_the_quota_of_their_parent() -> None:
    parent = Owner(name="parent", quota=Quota(nodes_max=1))
    life = planned_life(
        nodes=[node("a0"), node("b0", domain="B")],
        owners=[parent, *(Owner(name=name, parents=("parent",)) for name in ("one", "two"))],
    )
    life.do(Submit(of("busy", 2, "two", 60, **waits("A"))))
    life.do(Submit(of("firm", 2, "one", 60, **waits("B"))))
    decided = [
        life.do(Submit(of(f"more{number}", 2, "two", 60, **waits("A"))), NOW_MS + at_ms)
        for number, at_ms in enumerate((MINUTE_MS, 50 * MINUTE_MS))
    ]
    decided.append(life.do(Complete("busy"), NOW_MS + HOUR_MS))
    assert [move for decision in decided for move in moves(decision)] == []
    assert life.phase("firm") is Phase.RUNNING


def test_as_many_nodes_are_kept_beyond_their_work_as_a_firm_start_leaves() -> None:
    life = planned_life(
        nodes=[*(node(f"a{n}") for n in range(3)), node("b0", domain="B")],
        owners=[Owner(name="one", quota=Quota(nodes_max=3))],
    )
    for number in range(3):
        life.do(Submit(of(f"first{number}", 5, "one", 60, **waits("A"))))
    life.do(Submit(of("firm", 8, "one", 60, **waits("B"))))
    assert firm_ms(life, "firm") == NOW_MS + HOUR_MS
    # Three GPUs are free on each node; beyond an hour the firm start leaves two nodes.
    life.do(Submit(of("long", 6, "one", 180, **waits("A"))), NOW_MS + MINUTE_MS)
    assert len(life.on("long")) == 2
    life.do(Submit(of("more", 3, "one", 180, **waits("A"))))
    assert firm_ms(life, "more") == START_MS
    assert clashes(life) == []
    decided = [life.do(Complete(f"first{n}"), NOW_MS + HOUR_MS) for n in range(3)]
    assert [move for decision in decided for move in moves(decision)] == []
    assert life.phase("firm") is Phase.RUNNING
