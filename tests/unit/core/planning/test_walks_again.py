"""Decisions after which another one at the same instant would change nothing."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.commands import Apply, Command, Submit, Tick
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event
from quorate.model.specs import Owner, Pool, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, opening, run
from tests.oracles.lives import Life
from tests.oracles.plans import funds, moves, of, planned_life, quiet_pool
from tests.oracles.resolving import committed

CONFLICTS = 7
CALLING = Pool(
    name="default", disruption_rate_ppm=1_000_000, notice_ms=10 * MINUTE_MS, runtime_min_ms=0
)


def test_a_start_that_changes_the_order_of_the_queue_lets_others_start() -> None:
    owners = [
        Owner(name=name, quota=Quota(fair_share_target_ppm=ppm))
        for name, ppm in (("one", 500_000), ("two", 300_000))
    ]
    pool = quiet_pool(horizon_ms=HOUR_MS)
    life = planned_life(nodes=fleet({"A": 12}, gpus=12), pool=pool, owners=owners)
    life.do(Submit(of("long", 4, "one", minutes=6_000)))
    life.do(Submit(of("small", 3, "two", minutes=6_000)))
    life.do(Submit(of("wide", 12, "one", minutes=60)))
    life.do(Submit(of("narrow", 1, "two", minutes=12_000)))
    assert life.phase("narrow") is Phase.PENDING, "it would delay wide, which is before it"
    life.do(Submit(of("short", 4, "one", minutes=60)))
    assert (life.phase("short"), life.phase("narrow")) == (Phase.RUNNING, Phase.RUNNING)
    life.do(Apply((funds("three", 63),)))
    assert life.phase("wide") is Phase.PENDING


def test_a_firm_start_that_moves_lets_runs_before_it_start_at_once() -> None:
    """The walk visits a run before the run with the firm start, which is late and moves."""
    side = Pool(name="side", selector=(("fabric.domain", "B"),), whole_nodes=True)
    life = Life(
        nodes=[node("a0", 4), node("b0", 4, "B"), node("b1", 1, "B")],
        budgets=[funds(owner) for owner in ("one", "two", "three")],
        pools=[side],
        has_executor=True,
    )
    life.do(Submit(of("overdue", 1, "one", minutes=20, pool="side")))
    life.do(Submit(of("other", 2, "two")))
    life.do(Submit(of("late", 1, "two", minutes=60, pool="side")), NOW_MS + 30 * MINUTE_MS)
    life.do(Submit(of("wide", 4, "three", minutes=60, pool="side")))
    assert life.phase("wide") is Phase.PENDING, "late needs a whole node first"
    moved = moves(life.do(Tick(), NOW_MS + 40 * MINUTE_MS))
    assert [event.reservation for event in moved] == ["late@1"]
    assert life.phase("wide") is Phase.RUNNING


def test_all_conflicts_that_cannot_be_called_are_called_off_in_one_decision() -> None:
    owners = ["busy", *(f"o{number}" for number in range(CONFLICTS))]
    domains = {chr(ord("A") + number): 8 for number in range(CONFLICTS)}
    budgets = [budget(owner, owner, envelope("e", 8 * CONFLICTS)) for owner in owners]
    state = State()
    apply_all(state, opening(nodes=fleet(domains), pools=[CALLING], budgets=budgets))
    apply_all(state, [committed()])

    def do(command: Command, at_ms: int) -> tuple[Event, ...]:
        decision = decide(state, command, now_ms=at_ms, actor="test")
        assert not decision.refusals
        apply_all(state, decision.events)
        return decision.events

    for number in range(CONFLICTS):
        do(Submit(run(f"h{number}", 8, "busy", expected_duration_ms=100 * HOUR_MS)), NOW_MS)
    later_ms = NOW_MS + HOUR_MS
    for number in range(CONFLICTS):
        do(Submit(run(f"w{number}", 8, f"o{number}")), later_ms)
    due_ms = later_ms + CALLING.notice_ms
    assert {each.planned_start_ms for each in state.reservations.values()} == {due_ms}
    do(Apply((replace(CALLING, disruption_rate_ppm=0),)), later_ms + MINUTE_MS)
    assert do(Tick(), due_ms)
    assert do(Tick(), due_ms) == ()
