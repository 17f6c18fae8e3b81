"""Places for which counting GPUs is not enough: whole nodes, racks, late stops."""

from __future__ import annotations

from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Complete, Confirm, MarkNode, Submit, Tick
from quorate.core.planning.foresight import PlanState
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import MoveCode, NodeStatus
from quorate.model.specs import Budget, Cap
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node
from tests.oracles.plans import (
    alone,
    clashes,
    firm_ms,
    foreseen,
    funds,
    moves,
    of,
    planned_life,
    quiet_pool,
    tick_until,
)

START_MS = NOW_MS + 2 * HOUR_MS
FIRST = (("rack", "r1"),)


def test_run_whose_groups_fill_no_whole_nodes_has_no_start_and_keeps_nothing() -> None:
    life = planned_life(nodes=[node("a0"), node("a1")], pool=quiet_pool(whole_nodes=True))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("odd", 3)))
    assert life.state.reservations == {}
    assert foreseen(life, "odd").state is PlanState.NONE
    life.do(Submit(of("even", 8, "two")))
    assert life.state.runs["even"].phase is Phase.RUNNING


def test_run_whose_groups_and_spares_fill_whole_nodes_is_planned_for_them() -> None:
    life = planned_life(nodes=[node("a0"), node("a1")], pool=quiet_pool(whole_nodes=True))
    life.do(Submit(of("busy", 16)))
    life.do(Submit(of("next", 6, "two", spares_per_group=2)))
    assert firm_ms(life, "next") == START_MS
    life.do(Complete("busy"), START_MS)
    assert life.state.runs["next"].phase is Phase.RUNNING


def test_firm_start_does_not_move_while_a_stop_without_grace_is_confirmed() -> None:
    life = planned_life(has_executor=True)
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("next", 8, "two")))
    life.do(Submit(of("late", 4, "three")))
    assert firm_ms(life, "next") == START_MS
    life.do(Complete("busy"), START_MS)
    life.do(Confirm("busy/0"), START_MS)
    life.do(Tick(), START_MS + 1)
    assert life.state.runs["late"].stopping is not None
    assert firm_ms(life, "next") == START_MS
    life.do(Confirm("late/0"), START_MS + 1)
    assert life.state.runs["next"].phase is Phase.RUNNING


def rack_money() -> list[Budget]:
    """Return the budget of ``two``: all of its money is for the first rack only."""
    return [budget("b-two", "two", alone(envelope("e", 64, selector=(("region", "r"), *FIRST))))]


def test_firm_start_in_a_rack_stands_beside_a_drained_node_of_another() -> None:
    nodes = [node("a0", 4, rack="r1"), node("a1", 4, rack="r2"), node("a2", 4, rack="r2")]
    life = planned_life(nodes=nodes, budgets=rack_money())
    life.do(Submit(of("busy", 4, selector=FIRST)))
    life.do(Submit(of("next", 4, "two")))
    assert firm_ms(life, "next") == START_MS
    decided = life.do(MarkNode("a2", NodeStatus.CORDONED), NOW_MS + MINUTE_MS)
    assert moves(decided) == []
    life.do(Complete("busy"), START_MS)
    assert life.state.runs["next"].phase is Phase.RUNNING


def test_place_under_a_cap_moves_when_work_of_another_payer_under_it_outlasts_its_end() -> None:
    """This includes a state with a cached result that the place is still possible."""
    in_a, in_b = (("fabric.domain", "A"),), (("fabric.domain", "B"),)
    lines = alone(envelope("e", 8, selector=in_a)), alone(envelope("f", 8, selector=in_b))
    cap = Cap(name="c", flavor="H100", envelopes=("e", "f"), concurrency_max=8)
    life = planned_life(
        nodes=[node("a0"), node("b0", domain="B")],
        budgets=[budget("b-one", "one", *lines, caps=(cap,)), funds("two")],
        has_executor=True,
    )
    life.do(Submit(of("late", 8, "one", 60, selector=in_a)))
    life.do(Submit(of("busy", 8, "two", 90, selector=in_b)))
    life.do(Submit(of("next", 8, "one", 60, selector=in_b)))
    assert firm_ms(life, "next") == NOW_MS + 90 * MINUTE_MS
    tick_until(life, NOW_MS + 80 * MINUTE_MS)
    assert (firm_ms(life, "next"), clashes(life)) == (NOW_MS + 5_625_000, [])
    assert sweep(life.state) == []


def test_a_place_with_spares_that_uses_a_part_of_a_node_moves_when_the_pool_changes() -> None:
    life = planned_life(nodes=fleet({"A": 4}, gpus=4))
    life.do(Submit(of("busy", 4, minutes=60)))
    life.do(Submit(of("spared", 2, "two", minutes=60, spares_per_group=1)))
    assert firm_ms(life, "spared") == NOW_MS + HOUR_MS
    (moved,) = moves(life.do(Apply((quiet_pool(whole_nodes=True),))))
    assert moved.cause.code is MoveCode.POOL_CHANGED, moved
