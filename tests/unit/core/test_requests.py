"""Requests with an idempotency key: carried out once, answered alike, forgotten in time."""

from __future__ import annotations

import pytest

from quorate.core.commands import (
    Apply,
    Cancel,
    Change,
    Command,
    Decision,
    IssueToken,
    Keyed,
    Submit,
    Tick,
    UpdateOwner,
)
from quorate.ledger.fold import fold
from quorate.ledger.snapshot import fingerprint, restore, take
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RequestKept, RunSubmitted
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.specs import Owner
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.records import REQUESTS_KEPT_MS, Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.states import same
from tests.oracles.lives import Life
from tests.oracles.plans import firm_ms, moves, of, planned_life


def new_life() -> Life:
    return Life(
        nodes=fleet({"A": 16}),
        owners=[Owner(name="team")],
        budgets=[budget("b", "team", envelope("e", 16, end_ms=NOW_MS + 100 * HOUR_MS))],
    )


def keyed(command: Submit | Cancel | Apply | Tick, key: str = "k", digest: str = "d") -> Keyed:
    return Keyed(command, key, digest)


def last(decision: Decision) -> RequestKept:
    event = decision.events[-1]
    assert isinstance(event, RequestKept)
    return event


def test_a_request_is_kept_after_the_events_that_carried_it_out() -> None:
    life = new_life()
    plain = life.ask(Submit(run("a", 4)))
    decision = life.do(keyed(Submit(run("a", 4))))
    assert decision.events[:-1] == plain.events
    assert decision.changes == plain.changes == (("Run", "a", Change.SUBMITTED),)
    kept = RequestKept(life.now_ms, "test", "k", "d", 2, (("Run", "a", "submitted"),), ())
    assert decision.events[-1] == kept
    assert {type(part) for part in last(decision).changes[0]} == {str}
    record = life.state.requests["k"]
    assert (record.digest, record.seq, record.count) == ("d", life.state.seq, 2)
    assert (record.changes, record.warnings) == (kept.changes, ())
    assert record.at_ms == life.now_ms


def test_a_repeated_request_does_nothing_and_names_the_first() -> None:
    life = new_life()
    life.do(keyed(Submit(run("a", 4))))
    life.do(Cancel("a"))
    decision = life.do(keyed(Submit(run("a", 4))), life.now_ms + HOUR_MS)
    assert decision == Decision(repeats=life.state.requests["k"])
    assert life.phase("a") is Phase.CANCELLED


def test_a_repetition_leaves_even_what_is_due_to_others() -> None:
    life = new_life()
    life.do(keyed(Submit(run("a", 4))))
    due_ms = life.due_ms()
    assert due_ms is not None
    life.now_ms = due_ms
    assert life.ask(Tick()).events
    assert not life.ask(keyed(Submit(run("a", 4)))).events


def test_the_same_key_for_another_request_is_refused() -> None:
    life = new_life()
    life.do(keyed(Submit(run("a", 4))))
    decision = life.ask(keyed(Submit(run("b", 4)), digest="other"))
    assert decision.events == ()
    (refusal,) = decision.refusals
    assert refusal.code is RefusalCode.KEY_REUSED
    assert sentence(refusal) == "the idempotency key 'k' was used for another request"
    assert "choose a new key: a key is remembered for 24 hours" in refusal.remedy
    assert life.do(keyed(Submit(run("b", 4)), key="new", digest="other")).events


def test_nothing_is_kept_of_a_refused_request() -> None:
    life = new_life()
    refused = life.ask(keyed(Cancel("a")))
    assert [refusal.code for refusal in refused.refusals] == [RefusalCode.UNKNOWN_NAME]
    assert refused.events == ()
    life.do(Submit(run("a", 4)))
    plain = life.ask(Cancel("a")).events
    assert last(life.do(keyed(Cancel("a")))).count == len(plain) > 0


@pytest.mark.parametrize("command", [Submit(run("a", 4)), Apply((Owner(name="team"),))])
def test_a_request_that_changes_nothing_is_kept_alone(command: Submit | Apply) -> None:
    life = new_life()
    life.do(Submit(run("a", 4)))
    decision = life.do(keyed(command))
    assert len(decision.events) == 1
    assert (last(decision).count, last(decision).changes[0][2]) == (0, "unchanged")
    assert life.do(keyed(command)).repeats == life.state.requests["k"]


def test_warnings_are_kept_too() -> None:
    life = new_life()
    share = UpdateOwner("team", (("fair_share_target_ppm", 1_200_000),))
    plain = life.ask(share)
    decision = life.do(Keyed(share, "k", "d"))
    assert decision.warnings == plain.warnings
    assert life.state.requests["k"].warnings == plain.warnings
    assert plain.warnings


@pytest.mark.parametrize(("later_ms", "is_known"), [(0, True), (1, False)])
def test_a_request_is_known_for_a_day(later_ms: int, is_known: bool) -> None:  # noqa: FBT001 - a parameter
    life = new_life()
    life.do(keyed(Submit(run("a", 4))))
    life.now_ms += REQUESTS_KEPT_MS + later_ms
    decision = life.try_(keyed(Submit(run("a", 4)), digest="other"))
    assert bool(decision.refusals) is is_known
    assert life.state.requests["k"].digest == ("d" if is_known else "other")


def test_old_requests_are_dropped_when_a_new_one_is_kept() -> None:
    life = new_life()
    for number in range(5):
        life.do(keyed(Submit(run(f"r{number}", 1)), key=f"k{number}"), NOW_MS + number * HOUR_MS)
    life.do(Tick(), NOW_MS + REQUESTS_KEPT_MS + 2 * HOUR_MS + 1)
    assert len(life.state.requests) == 5
    life.do(keyed(Submit(run("r5", 1)), key="k5"))
    assert list(life.state.requests) == ["k3", "k4", "k5"]
    assert same(life.state, fold(life.events)) == []


def test_a_key_that_comes_again_when_it_is_forgotten_is_the_youngest() -> None:
    life = new_life()
    for number in range(3):
        life.do(keyed(Submit(run(f"r{number}", 1)), key=f"k{number}"))
    late_ms = NOW_MS + REQUESTS_KEPT_MS + 1
    over = life.state.overlay()
    for state in (over, life.state):
        for number, key in enumerate(("k1", "k0", "k2")):
            apply(state, RequestKept(late_ms + number, "test", key, "new", 0, (), ()))
        assert {record.digest for record in state.requests.values()} == {"new"}
    assert list(life.state.requests) == ["k1", "k0", "k2"]


def test_a_snapshot_keeps_requests_in_their_order() -> None:
    life = new_life()
    for key in ("z", "a", "m"):
        life.do(keyed(Submit(run(key, 1)), key=key))
    life.do(IssueToken("t2", "00", "admin", "", "root"))
    life.do(IssueToken("t1", "00", "user", "team", "ada", ("runs",), NOW_MS + HOUR_MS, "laptop"))
    restored = restore(take(life.state))
    assert restored is not None
    assert same(restored, life.state) == []
    assert list(restored.requests) == ["z", "a", "m"]
    assert fingerprint(restored) == fingerprint(life.state)
    before = fingerprint(life.state)
    apply_all(life.state, life.ask(keyed(Tick(), key="more")).events)
    assert fingerprint(life.state) != before


def test_a_window_that_opens_is_not_passed_over_by_a_request_that_changes_nothing() -> None:
    opens_ms = NOW_MS + HOUR_MS
    life = Life(
        nodes=fleet({"A": 16}),
        owners=[Owner(name="team")],
        budgets=[budget("b", "team", envelope("e", 16, start_ms=opens_ms))],
    )
    life.do(Submit(run("a", 4)))
    assert life.phase("a") is Phase.PENDING
    life.do(keyed(Submit(run("a", 4))), opens_ms + MINUTE_MS)
    assert life.phase("a") is Phase.RUNNING


def test_a_run_is_in_the_ledger_once_however_often_it_is_asked_for() -> None:
    life = new_life()
    asked: list[Command] = [keyed(Submit(run("a", 4)), key=key) for key in ("k", "k", "j", "k")]
    for command in asked:
        life.do(command)
    assert sum(isinstance(event, RunSubmitted) for event in life.events) == 1
    assert [e.count for e in life.events if isinstance(e, RequestKept)] == [2, 0]


@pytest.mark.parametrize("is_claim", [False, True])
def test_what_is_recorded_after_an_expected_end_moves_firm_starts_that_counted_on_it(
    is_claim: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A repeated request that changes nothing, and a claim elsewhere: both advance the time."""
    life = planned_life(nodes=fleet({"A": 8, "S": 8}))
    here, there = ((("fabric.domain", name),) for name in "AS")
    late = of("late", 4, minutes=120, selector=here)
    life.do(Submit(late))
    life.do(Submit(of("last", 4, minutes=125, selector=here)))
    life.do(Submit(of("first", 8, "two", selector=here)))
    assert firm_ms(life, "first") == NOW_MS + 125 * MINUTE_MS
    life.do(Tick(), NOW_MS + 120 * MINUTE_MS)
    claim = of("claim", 8, "three", selector=there, sensitive=True)
    again = Submit(claim if is_claim else late)
    decision = life.do(keyed(again), NOW_MS + 121 * MINUTE_MS)
    (moved,) = moves(decision)
    assert moved.cause.objects == (("lease", "late/0"),)
    assert firm_ms(life, "first") == NOW_MS + 150 * MINUTE_MS
