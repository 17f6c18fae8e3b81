"""Runs that follow others: when they may start, and what happens if the others do not complete."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.audit.history_audit import audit
from quorate.core.commands import Apply, Cancel, Complete, Fail, Submit, Tick
from quorate.core.lifecycle.follow import follow_due_ms
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RunEnded, RunSubmitted
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Follow, Run, TaskArray, UpstreamFailure
from quorate.model.state.records import Phase
from quorate.model.state.upstreams import eligible_since_ms
from quorate.model.task_arrays import task_runs
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.lives import Life

LATER_MS = NOW_MS + 10 * MINUTE_MS
GRACE_MS = 5 * MINUTE_MS
FAIL, WAIT, START = UpstreamFailure.FAIL, UpstreamFailure.WAIT, UpstreamFailure.START


def new_life() -> Life:
    return Life(
        nodes=fleet({"A": 16}), budgets=[budget("b", "team", envelope("e", 16))], has_executor=False
    )


def after(
    name: str, *upstreams: str, policy: UpstreamFailure = WAIT, grace_ms: int = GRACE_MS
) -> Run:
    follow = Follow(after=upstreams, on_upstream_failure=policy, grace_ms=grace_ms)
    return run(name, 1, follow=follow)


def code(life: Life, name: str) -> RefusalCode | None:
    refusal = life.state.runs[name].refusal
    return None if refusal is None else refusal.code


def test_a_follower_starts_when_the_last_of_its_upstreams_has_completed() -> None:
    life = new_life()
    life.do(Submit(run("a", 1)))
    life.do(Submit(run("b", 1)))
    life.do(Submit(after("c", "a", "b")))
    life.do(Complete("a"), LATER_MS)
    assert code(life, "c") is RefusalCode.WAITING_FOR_UPSTREAM
    assert eligible_since_ms(life.state, life.state.runs["c"]) is None
    life.do(Complete("b"), LATER_MS + 1)
    assert life.phase("c") is Phase.RUNNING
    assert eligible_since_ms(life.state, life.state.runs["c"]) == LATER_MS + 1


def test_a_run_that_follows_nobody_is_eligible_since_it_was_submitted() -> None:
    life = new_life()
    life.do(Submit(run("a", 1)), LATER_MS)
    assert eligible_since_ms(life.state, life.state.runs["a"]) == LATER_MS


def test_one_submitted_after_its_upstreams_completed_is_eligible_at_once() -> None:
    life = new_life()
    life.do(Submit(run("a", 1)))
    life.do(Complete("a"), NOW_MS + 1)
    life.do(Submit(after("b", "a")), LATER_MS)
    assert eligible_since_ms(life.state, life.state.runs["b"]) == LATER_MS
    assert life.phase("b") is Phase.RUNNING


@pytest.mark.parametrize("how", [Fail, Cancel])
@pytest.mark.parametrize(
    ("policy", "at_ms", "phase"),
    [
        (WAIT, LATER_MS + GRACE_MS + HOUR_MS, Phase.PENDING),
        (FAIL, LATER_MS + GRACE_MS - 1, Phase.PENDING),
        (FAIL, LATER_MS + GRACE_MS, Phase.FAILED),
    ],
    ids=["waits on", "before its grace", "after its grace"],
)
def test_what_an_upstream_that_did_not_complete_does_to_a_follower(
    how: type[Fail | Cancel], policy: UpstreamFailure, at_ms: int, phase: Phase
) -> None:
    life = new_life()
    life.do(Submit(run("a", 1)))
    life.do(Submit(after("b", "a", policy=policy)))
    life.do(how("a"), LATER_MS)
    assert code(life, "b") is RefusalCode.UPSTREAM_FAILED
    assert follow_due_ms(life.state) == (None if policy is WAIT else LATER_MS + GRACE_MS)
    life.do(Tick(), at_ms)
    assert life.phase("b") is phase
    assert life.ask(Tick()).events == ()


@pytest.mark.parametrize("how", [Fail, Cancel, Complete])
def test_a_follower_may_start_however_its_upstreams_ended(
    how: type[Fail | Cancel | Complete],
) -> None:
    life = new_life()
    for name in ("a", "b"):
        life.do(Submit(run(name, 1)))
    life.do(Submit(after("c", "a", "b", policy=START)))
    life.do(Submit(after("strict", "a", "b", policy=WAIT)))
    life.do(how("a"), LATER_MS)
    assert code(life, "c") is RefusalCode.WAITING_FOR_UPSTREAM
    assert eligible_since_ms(life.state, life.state.runs["c"]) is None
    life.do(Cancel("b"), LATER_MS + 1)
    assert life.phase("c") is Phase.RUNNING
    assert eligible_since_ms(life.state, life.state.runs["c"]) == LATER_MS + 1
    assert life.phase("strict") is Phase.PENDING
    assert follow_due_ms(life.state) is None


def test_a_follower_starts_when_a_waiting_upstream_is_withdrawn() -> None:
    life = new_life()
    life.do(Submit(run("full", 16)))
    life.do(Submit(run("a", 16)))
    life.do(Complete("full"), LATER_MS)
    life.do(Submit(run("b", 1)), LATER_MS)
    life.do(Submit(after("c", "b", policy=START)), LATER_MS)
    life.do(Cancel("a"), LATER_MS + 1)
    assert life.phase("b") is Phase.RUNNING
    life.do(Submit(after("d", "c", policy=START)), LATER_MS + 1)
    life.do(Cancel("c"), LATER_MS + 2)
    assert life.phase("d") is Phase.RUNNING


def test_the_note_names_the_upstream_and_what_became_of_it() -> None:
    life = new_life()
    life.do(Submit(run("a", 1)))
    life.do(Submit(after("b", "a", policy=FAIL, grace_ms=0)))
    decision = life.do(Cancel("a"), LATER_MS)
    *_, last = [event for event in decision.events if isinstance(event, RunEnded)]
    assert (last.run, last.note) == ("b", "run a, which it follows, was cancelled")


def test_grace_counts_from_the_first_upstream_that_failed() -> None:
    life = new_life()
    for name in ("a", "b"):
        life.do(Submit(run(name, 1)))
    life.do(Submit(after("c", "a", "b", policy=FAIL)))
    life.do(Fail("b"), LATER_MS)
    life.do(Fail("a"), LATER_MS + MINUTE_MS)
    assert follow_due_ms(life.state) == LATER_MS + GRACE_MS
    life.do(Tick(), LATER_MS + GRACE_MS)
    assert life.state.runs["c"].note == "run b, which it follows, failed"


def test_one_submitted_after_its_upstream_failed_has_its_whole_grace() -> None:
    life = new_life()
    life.do(Submit(run("a", 1)))
    life.do(Fail("a"))
    life.do(Submit(after("b", "a", policy=FAIL)), LATER_MS)
    assert life.due_ms() == LATER_MS + GRACE_MS


def test_a_chain_fails_link_by_link() -> None:
    life = new_life()
    life.do(Submit(run("a", 1)))
    life.do(Submit(after("b", "a", policy=FAIL)))
    life.do(Submit(after("c", "b", policy=FAIL, grace_ms=0)))
    life.do(Submit(after("d", "c", policy=FAIL)))
    life.do(Fail("a"), LATER_MS)
    life.do(Tick(), LATER_MS + GRACE_MS)
    assert [life.phase(name) for name in "bcd"] == [Phase.FAILED, Phase.FAILED, Phase.PENDING]
    assert follow_due_ms(life.state) == LATER_MS + 2 * GRACE_MS


def test_a_follower_that_waits_may_be_cancelled() -> None:
    life = new_life()
    life.do(Submit(run("a", 1)))
    life.do(Submit(after("b", "a")))
    life.do(Fail("a"))
    life.do(Cancel("b"), LATER_MS)
    assert life.phase("b") is Phase.CANCELLED


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ((after("a", "a"),), "makes a cycle: a -> a"),
        ((after("a", "b"), after("b", "a")), "makes a cycle: a -> b -> a"),
        ((after("a", "nobody"),), "there is no run 'nobody'"),
    ],
    ids=["itself", "a circle of two", "unknown"],
)
def test_what_could_never_start_is_refused_at_the_door(runs: tuple[Run, ...], said: str) -> None:
    decision = new_life().ask(Apply(runs))
    assert not decision.events
    assert any(said in refusal.subject for refusal in decision.refusals)


def test_a_submitted_run_cannot_follow_itself() -> None:
    decision = new_life().ask(Submit(after("a", "a")))
    assert not decision.events
    assert [refusal.code for refusal in decision.refusals] == [RefusalCode.UNKNOWN_NAME]


def test_the_audit_finds_a_follower_that_starts_before_its_upstream_is_over() -> None:
    life = Life(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    life.do(Submit(run("up", 1)))
    life.do(Submit(run("later", 1)))
    follow = Follow(after=("up",))
    forged = [
        replace(event, run=replace(event.run, follow=follow))
        if isinstance(event, RunSubmitted) and event.run.name == "later"
        else event
        for event in life.events
    ]
    (found,) = audit(forged)
    assert (found.rule, found.subject) == ("I6", "later")
    assert found.found == "started, and up, which it follows, is not over"


def test_the_audit_finds_an_array_with_more_tasks_than_its_limit() -> None:
    life = Life(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    life.do(Apply(task_runs(run("w", 1, array=TaskArray(name="w", tasks="0-1")))))
    limited = TaskArray(name="w", tasks="0-1", at_once_max=1)
    forged = [
        replace(event, run=replace(event.run, array=limited))
        if isinstance(event, RunSubmitted)
        else event
        for event in life.events
    ]
    (found,) = audit(forged)
    assert (found.rule, found.subject) == ("I6", "w_1")
    assert "2 tasks of w, which may run 1 at once" in found.found


def test_a_follower_without_grace_of_a_failed_run_fails_with_its_submission() -> None:
    life = new_life()
    life.do(Submit(run("first", 1)))
    life.do(Fail("first"), LATER_MS)
    life.do(Submit(after("next", "first", policy=FAIL, grace_ms=0)))
    assert life.phase("next") is Phase.FAILED
    assert life.do(Tick()).events == ()
