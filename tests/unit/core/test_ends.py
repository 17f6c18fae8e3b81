"""Repeated ends of runs: the same end changes nothing, another one is refused."""

from __future__ import annotations

import pytest

from quorate.core.audit.invariants import sweep
from quorate.core.commands import (
    Cancel,
    Change,
    Command,
    Complete,
    Confirm,
    Decision,
    Fail,
    Shrink,
    Submit,
)
from quorate.core.decide import decide
from quorate.model.events import EndReason, LeaseEnding, RunStopping
from quorate.model.refusal import RefusalCode
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world
from tests.unit.core.test_holds import act

ENDS: dict[Phase, Command] = {
    Phase.CANCELLED: Cancel("r"),
    Phase.COMPLETED: Complete("r"),
    Phase.FAILED: Fail("r"),
}


def ended(phase: Phase) -> State:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    act(state, Submit(run("r", 1)), NOW_MS)
    act(state, ENDS[phase], NOW_MS)
    assert state.runs["r"].phase is phase
    return state


@pytest.mark.parametrize("phase", ENDS)
def test_an_end_that_a_run_has_had_can_be_asked_for_again(phase: Phase) -> None:
    state = ended(phase)
    again = act(state, ENDS[phase], NOW_MS + 1)
    assert again == Decision(changes=(("Run", "r", Change.UNCHANGED),))


@pytest.mark.parametrize("phase", ENDS)
def test_a_run_that_is_over_has_no_other_end(phase: Phase) -> None:
    state = ended(phase)
    others = [command for end, command in ENDS.items() if end is not phase]
    for command in (*others, Shrink("r", 1)):
        (refusal,) = act(state, command, NOW_MS + 1).refusals
        assert refusal.code is RefusalCode.NOT_RUNNING
        assert refusal.subject == f"run 'r' is already {phase}"


def running() -> State:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    executed(state, Submit(run("r", 1)), NOW_MS)
    return state


def executed(state: State, command: Command, at_ms: int) -> Decision:
    """Carry out ``command`` with an executor, so that a stop is two facts."""
    decision = decide(state, command, now_ms=at_ms, actor="test", has_executor=True)
    apply_all(state, decision.events)
    return decision


def endings(decision: Decision) -> list[tuple[EndReason, int]]:
    found = [event for event in decision.events if isinstance(event, LeaseEnding)]
    return [(event.reason, event.deadline_ms) for event in found]


def test_a_run_that_is_cancelled_now_has_no_grace() -> None:
    state = running()
    decision = executed(state, Cancel("r", now=True), NOW_MS + 5)
    assert endings(decision) == [(EndReason.CANCELLED, NOW_MS + 5)]
    # The slots stay in use until the executor confirms.
    assert state.leases
    executed(state, Confirm("r/0"), NOW_MS + 6)
    assert state.runs["r"].phase is Phase.CANCELLED
    assert sweep(state) == []


def test_a_run_that_is_stopping_already_loses_the_rest_of_its_grace() -> None:
    state = running()
    ((_, first_ms),) = endings(executed(state, Cancel("r", "typo"), NOW_MS + 5))
    assert first_ms > NOW_MS + 5
    again = executed(state, Cancel("r", now=True), NOW_MS + 6)
    assert endings(again) == [(EndReason.CANCELLED, NOW_MS + 6)]
    assert not any(isinstance(event, RunStopping) for event in again.events)
    assert endings(executed(state, Cancel("r", now=True), NOW_MS + 7)) == []
    executed(state, Confirm("r/0"), NOW_MS + 8)
    assert state.runs["r"].phase is Phase.CANCELLED


def test_a_run_that_waits_is_cancelled_now_as_at_any_time() -> None:
    state = running()
    executed(state, Submit(run("wide", 8)), NOW_MS)
    assert "wide" in state.pending
    executed(state, Cancel("wide", now=True), NOW_MS)
    assert state.runs["wide"].phase is Phase.CANCELLED
