"""Runs that their executor cannot start: they release their GPUs, and are tried again later."""

from __future__ import annotations

import pytest

from quorate.core.commands import Cancel, Confirm, Drain, NotStarted, Submit, Tick
from quorate.core.explain.explanation import Explanation, explain
from quorate.core.explain.start_plan import Forecast, foretell
from quorate.core.lifecycle.held_back import PAUSE_MS, PAUSE_MS_MAX, again_from_ms
from quorate.core.preemption.disruption_rules import CallBar, may_call
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import EndReason, RunRequeued, RunStopping
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.state.records import Phase, Unstarted
from quorate.testing.builders import NOW_MS
from tests.oracles.lives import Life, stops
from tests.oracles.plans import firm_ms, of, planned_life

WHY = "StartRefused: exceeded quota: pods"


def refused(life: Life, at_ms: int, lease: str) -> None:
    """Let the start of ``r`` be refused at ``at_ms``, and its executor confirm the stop."""
    life.do(NotStarted("r", WHY), at_ms)
    life.do(Confirm(lease))


def started(*, gpus: int = 8) -> Life:
    life = planned_life(gpus, has_executor=True)
    life.do(Submit(of("r", gpus)))
    assert life.phase("r") is Phase.RUNNING
    return life


def test_a_run_that_cannot_be_started_gives_its_gpus_to_the_next_and_waits_with_the_reason() -> (
    None
):
    life = started()
    life.do(Submit(of("next", 4, "two", minutes=30)))
    decision = life.do(NotStarted("r", WHY), NOW_MS + MINUTE_MS)
    assert stops(decision) == [("r/0", EndReason.START_REFUSED)]
    (told,) = [each for each in decision.events if isinstance(each, RunStopping)]
    assert (told.reason, told.outcome, told.note) == (EndReason.START_REFUSED, None, WHY)
    decision = life.do(Confirm("r/0"))
    assert [each.reason for each in decision.events if isinstance(each, RunRequeued)] == [
        EndReason.START_REFUSED
    ]
    assert (life.phase("r"), life.phase("next")) == (Phase.PENDING, Phase.RUNNING)
    refusal = life.state.runs["r"].refusal
    assert refusal is not None
    assert refusal.code is RefusalCode.START_REFUSED
    assert sentence(refusal) == (
        f"its start was refused 1 time in a row, and is tried again later: {WHY}"
    )


def test_no_room_is_kept_for_it_while_it_is_held_back() -> None:
    life = started()
    refused(life, NOW_MS, "r/0")
    life.do(Submit(of("later", 8, minutes=120)))
    assert (firm_ms(life, "r"), life.phase("later")) == (None, Phase.RUNNING)
    found = foretell(life.state, life.state.runs["r"].spec, life.now_ms, has_executor=True)
    assert isinstance(found, Forecast)
    assert found.parked.startswith(
        "it is planned once it is no longer held back: its start was refused"
    )
    life.do(Tick(), NOW_MS + PAUSE_MS)
    assert firm_ms(life, "r") == NOW_MS + 120 * MINUTE_MS


def test_it_is_tried_again_by_itself_after_a_pause_and_not_before() -> None:
    life = started()
    refused(life, NOW_MS + MINUTE_MS, "r/0")
    again_ms = NOW_MS + MINUTE_MS + PAUSE_MS
    assert (life.phase("r"), life.due_ms()) == (Phase.PENDING, again_ms)
    life.do(Tick(), again_ms - 1)
    assert life.phase("r") is Phase.PENDING
    life.do(Tick(), again_ms)
    assert life.phase("r") is Phase.RUNNING


@pytest.mark.parametrize(
    ("times", "pause_ms"),
    [
        (1, PAUSE_MS),
        (2, 2 * PAUSE_MS),
        (6, 32 * PAUSE_MS),
        (7, PAUSE_MS_MAX),
        (8, PAUSE_MS_MAX),
        (10**9, PAUSE_MS_MAX),
    ],
)
def test_each_refusal_in_a_row_doubles_the_pause_up_to_an_hour(times: int, pause_ms: int) -> None:
    assert again_from_ms(Unstarted(times, NOW_MS, WHY)) == NOW_MS + pause_ms
    assert pause_ms <= HOUR_MS


def test_refusals_in_a_row_are_counted_and_another_reason_to_wait_ends_the_row() -> None:
    life = started()
    at_ms = NOW_MS
    for number in range(3):
        refused(life, at_ms, f"r/{number}")
        known = life.state.runs["r"].unstarted
        assert known == Unstarted(number + 1, at_ms, WHY)
        at_ms = again_from_ms(known)
        life.do(Tick(), at_ms)
        assert life.phase("r") is Phase.RUNNING
    node = next(iter(life.on("r")))
    life.do(Drain(node))
    life.do(Confirm("r/3"))
    assert (life.phase("r"), life.state.runs["r"].unstarted) == (Phase.PENDING, None)


def test_it_may_not_cost_others_their_gpus_until_it_has_waited_for_another_reason() -> None:
    life = started()
    refused(life, NOW_MS, "r/0")
    found = may_call(life.state, life.state.runs["r"], NOW_MS + HOUR_MS)
    assert found is not None
    assert found.bar is CallBar.UNSTARTED


def test_explain_says_why_it_was_not_started() -> None:
    life = started()
    refused(life, NOW_MS, "r/0")
    found = explain(life.state, "r", life.now_ms)
    assert isinstance(found, Explanation)
    assert found.refusal is not None
    assert (found.refusal.code, found.refusal.subject) == (RefusalCode.START_REFUSED, WHY)


def test_a_report_that_comes_late_or_twice_changes_nothing() -> None:
    life = started()
    life.do(NotStarted("r", WHY))
    assert life.do(NotStarted("r", WHY)).events == ()
    life.do(Confirm("r/0"))
    assert life.do(NotStarted("r", WHY)).events == ()
    assert life.do(NotStarted("unknown", WHY)).events == ()


def test_a_run_that_is_cancelled_while_it_gives_its_gpus_back_is_over() -> None:
    life = started()
    life.do(NotStarted("r", WHY))
    life.do(Cancel("r"))
    life.do(Confirm("r/0"))
    assert life.phase("r") is Phase.CANCELLED
