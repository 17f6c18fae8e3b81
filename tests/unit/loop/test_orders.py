"""Orders and reports about nodes that a claim has left, until they are clean."""

from __future__ import annotations

from quorate.core.commands import Confirm, Release, Submit, Wiped
from quorate.loop.orders import commands_of, orders_of, standing_orders
from quorate.model.amounts import HOUR_MS
from quorate.ports.executor import EndLease, RunExited, StartLease, WipeDone, WipeNode
from quorate.testing.world import budget, envelope, node, run
from tests.oracles.lives import Life

CLEAN = WipeDone("n0", "c", is_clean=True)


def left() -> Life:
    """Return a node that its claim has left."""
    life = Life(
        nodes=[node("n0")],
        budgets=[budget("lab", "lab", envelope("e", 64))],
        has_executor=True,
    )
    life.do(Submit(run("c", 8, "lab", sensitive=True, expected_duration_ms=HOUR_MS)))
    life.do(Release("c"))
    return life


def test_a_node_is_to_be_wiped_when_the_last_lease_of_its_claim_has_ended() -> None:
    life = left()
    assert not any(isinstance(order, WipeNode) for order in standing_orders(life.state))
    decision = life.do(Confirm("c/0"))
    assert [type(order) for order in orders_of(life.state, decision.events)] == [
        EndLease,
        WipeNode,
    ]
    assert standing_orders(life.state) == [WipeNode("n0", "c")]


def test_commits_that_are_nobodys_orders_say_nothing() -> None:
    life = left()
    life.do(Confirm("c/0"))
    assert orders_of(life.state, []) == []


def test_a_quarantined_node_is_left_to_people() -> None:
    life = left()
    life.do(Confirm("c/0"))
    life.do(Wiped("n0", is_clean=False))
    assert standing_orders(life.state) == []
    assert list(commands_of(life.state, [CLEAN])) == []


def test_a_wipe_is_taken_from_whoever_was_told() -> None:
    life = left()
    life.do(Confirm("c/0"))
    assert list(commands_of(life.state, [CLEAN])) == [Wiped("n0", is_clean=True, claim="c")]
    late = WipeDone("n0", "b", is_clean=True)
    assert list(commands_of(life.state, [late])) == []
    life.do(Wiped("n0", is_clean=True, claim="c"))
    assert list(commands_of(life.state, [CLEAN])) == []


def test_work_that_ends_under_a_claim_ends_nothing() -> None:
    life = Life(nodes=[node("n0")], budgets=[budget("lab", "lab", envelope("e", 64))])
    life.do(Submit(run("c", 8, "lab", sensitive=True, expected_duration_ms=HOUR_MS)))
    assert isinstance(standing_orders(life.state)[0], StartLease)
    assert list(commands_of(life.state, [RunExited("c", "c/0", 0)])) == []
