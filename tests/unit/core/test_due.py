"""When the next tick is due: the top of the heap, without outdated and ending entries."""

from __future__ import annotations

from quorate.core.commands import Cancel, Command, Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import ConflictRecord
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world
from tests.oracles.lotteries import declaration


def do(state: State, command: Command, *, at_ms: int = NOW_MS) -> None:
    decision = decide(state, command, now_ms=at_ms, actor="test", has_executor=True)
    assert not decision.refusals
    apply_all(state, decision.events)


def state_with(*, graces_ms: tuple[int, ...]) -> State:
    """Return a state with a run for each grace, all expected to take an hour."""
    state = world(nodes=fleet({"A": 16}), budgets=[budget("b", "team", envelope("e", 16))])
    for number, grace_ms in enumerate(graces_ms):
        do(
            state,
            Submit(run(f"r{number}", 1, expected_duration_ms=HOUR_MS, checkpoint_ms=grace_ms)),
        )
    return state


def test_nothing_is_due_where_nothing_runs() -> None:
    assert next_due_ms(state_with(graces_ms=()), has_executor=True) is None


def test_with_an_executor_a_hold_is_due_one_grace_before_it_ends() -> None:
    state = state_with(graces_ms=(MINUTE_MS, 4 * MINUTE_MS))
    assert next_due_ms(state, has_executor=True) == NOW_MS + HOUR_MS


def test_without_one_the_first_hold_that_ends_is_due_whatever_its_grace() -> None:
    state = state_with(graces_ms=(4 * MINUTE_MS, MINUTE_MS, 2 * MINUTE_MS))
    assert next_due_ms(state, has_executor=False) == NOW_MS + HOUR_MS + MINUTE_MS


def test_what_is_stopping_or_gone_makes_nothing_due() -> None:
    state = state_with(graces_ms=(MINUTE_MS, MINUTE_MS, MINUTE_MS))
    do(state, Cancel("r0"))
    do(state, Complete("r1"))
    assert next_due_ms(state, has_executor=True) == NOW_MS + HOUR_MS
    do(state, Complete("r2"))
    assert next_due_ms(state, has_executor=True) is None


def test_a_tick_moves_what_is_due_and_a_second_one_does_nothing() -> None:
    state = state_with(graces_ms=(MINUTE_MS,) * 3)
    due_ms = next_due_ms(state, has_executor=True)
    assert due_ms is not None
    early = decide(state, Tick(), now_ms=due_ms - 1, actor="test", has_executor=True)
    assert early.events == ()
    do(state, Tick(), at_ms=due_ms)
    later_ms = next_due_ms(state, has_executor=True)
    assert later_ms is not None
    assert later_ms > due_ms
    again = decide(state, Tick(), now_ms=due_ms, actor="test", has_executor=True)
    assert again.events == ()


def test_a_start_that_is_not_late_is_due_whatever_conflict_is_open() -> None:
    state = state_with(graces_ms=())
    for name in ("a", "b"):
        do(state, Submit(run(name, 16, expected_duration_ms=HOUR_MS, checkpoint_ms=MINUTE_MS)))
    (promise,) = state.reservations.values()
    start_ms = promise.planned_start_ms
    assert start_ms == NOW_MS + HOUR_MS
    declared = declaration(at_ms=NOW_MS + HOUR_MS)
    state.conflicts[declared.conflict] = ConflictRecord(declared)
    state.open_conflicts[declared.conflict] = None
    for after_ms in (start_ms - 2, start_ms - 1):
        assert next_due_ms(state, has_executor=False, after_ms=after_ms) == start_ms
