"""Ends of runs that are asked for again: the same end changes nothing, another is refused."""

from __future__ import annotations

import pytest

from quorate.core.commands import Cancel, Change, Command, Complete, Decision, Fail, Shrink, Submit
from quorate.model.refusal import RefusalCode
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
