"""Histories of durations: the buckets of ratios, and which runs enter and leave them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.admission.holds import expected_ms
from quorate.core.audit.history_audit import audit
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    Confirm,
    Drain,
    Fail,
    MarkNode,
    RemoveOwner,
    Submit,
    Tick,
)
from quorate.ledger.fold import fold
from quorate.ledger.snapshot import fingerprint, restore, take
from quorate.model.amounts import DURATION_MS_MAX, HOLD_QUANTUM_MS, HOUR_MS, MINUTE_MS
from quorate.model.events import NodeStatus
from quorate.model.specs import Owner, Pool
from quorate.model.state.apply_event import apply_all
from quorate.model.state.durations import (
    BUCKETS,
    NO_HISTORY,
    ON_TIME,
    RATIO_BOUNDS,
    RECENT_RUNS,
    DurationHistory,
    bucket_end_ms,
    bucket_of,
    declared_ms,
)
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.states import same
from tests.oracles.lives import Life


def new_life(*, has_executor: bool = False) -> Life:
    return Life(
        nodes=fleet({"A": 16}),
        owners=[Owner(name="team"), Owner(name="other")],
        budgets=[budget("b", "team", envelope("e", 16)), budget("c", "other", envelope("e", 16))],
        has_executor=has_executor,
    )


def buckets(life: Life, owner: str = "team") -> list[int]:
    return list(life.state.durations.get(owner, NO_HISTORY).recent)


# --- Buckets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual_ms", "expected", "bucket"),
    [
        (HOUR_MS, HOUR_MS, ON_TIME),
        (HOUR_MS + 1, HOUR_MS, ON_TIME + 1),
        (HOUR_MS - 1, HOUR_MS, ON_TIME),
        (HOUR_MS // 2, HOUR_MS, ON_TIME - 8),
        (2 * HOUR_MS, HOUR_MS, ON_TIME + 8),
        (2 * HOUR_MS + 1, HOUR_MS, ON_TIME + 9),
        (0, HOUR_MS, 0),
        (1, DURATION_MS_MAX, 0),
        (DURATION_MS_MAX, HOLD_QUANTUM_MS, BUCKETS - 1),
    ],
)
def test_a_ratio_is_in_the_bucket_whose_bounds_hold_it(
    actual_ms: int, expected: int, bucket: int
) -> None:
    assert bucket_of(actual_ms, expected) == bucket


def test_bounds_are_eight_to_an_octave() -> None:
    assert len(RATIO_BOUNDS) == BUCKETS
    assert list(RATIO_BOUNDS) == sorted(set(RATIO_BOUNDS))
    for bucket, bound in enumerate(RATIO_BOUNDS):
        power = Fraction(2) ** (bucket - ON_TIME)
        assert Fraction(bound, 1 << 32) ** 8 <= power < Fraction(bound + 1, 1 << 32) ** 8


@given(st.integers(0, DURATION_MS_MAX), st.integers(HOLD_QUANTUM_MS, DURATION_MS_MAX))
def test_a_bucket_ends_at_most_a_tenth_after_what_is_in_it(actual_ms: int, expected: int) -> None:
    bucket = bucket_of(actual_ms, expected)
    end_ms = bucket_end_ms(bucket, expected)
    assert bucket_of(end_ms - 1, expected) <= bucket <= bucket_of(end_ms, expected)
    if bucket < BUCKETS - 1:
        assert end_ms >= actual_ms
    if bucket:
        assert bucket_end_ms(bucket - 1, expected) <= actual_ms
        assert bucket == BUCKETS - 1 or end_ms <= actual_ms * 11 // 10 + 2


@given(st.lists(st.integers(0, BUCKETS - 1), max_size=2 * RECENT_RUNS + 3))
def test_a_history_has_the_last_runs(entered: list[int]) -> None:
    history = NO_HISTORY
    for bucket in entered:
        before, kept = history, history.recent
        history = history.after(bucket)
        assert before.recent == kept
    last = entered[-RECENT_RUNS:]
    assert list(history.recent) == last
    assert history.copy() == history


# --- What enters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated_ms", "default_ms", "declared"),
    [
        (3 * HOUR_MS, HOUR_MS, 3 * HOUR_MS),
        (None, 2 * HOUR_MS, 2 * HOUR_MS),
        (MINUTE_MS, HOUR_MS, HOLD_QUANTUM_MS),
        (None, MINUTE_MS, HOLD_QUANTUM_MS),
    ],
)
def test_declared_is_what_planning_expects(
    stated_ms: int | None, default_ms: int, declared: int
) -> None:
    spec = run("a", 1, expected_duration_ms=stated_ms)
    pool = Pool(name="default", expected_duration_ms=default_ms)
    assert declared_ms(spec, pool) == declared == expected_ms(spec, pool)


@pytest.mark.parametrize("end", [Complete("a"), Fail("a")])
@pytest.mark.parametrize("has_executor", [False, True])
def test_a_run_that_ends_by_itself_enters_its_owners_history(
    end: Command, *, has_executor: bool
) -> None:
    life = new_life(has_executor=has_executor)
    life.do(Submit(run("a", 4, expected_duration_ms=2 * HOUR_MS)))
    life.do(end, NOW_MS + HOUR_MS)
    for lease in life.stopping():
        life.do(Confirm(lease))
    assert buckets(life) == [ON_TIME - 8]
    assert buckets(life, "other") == []


def test_the_default_of_the_pool_counts_as_it_is_when_the_run_ends() -> None:
    life = new_life()
    life.do(Submit(run("a", 4)))
    life.do(Apply((Pool(name="default", expected_duration_ms=4 * HOUR_MS),)))
    life.do(Complete("a"), NOW_MS + HOUR_MS)
    assert buckets(life) == [ON_TIME - 16]


def cancelled(life: Life) -> None:
    life.do(Submit(run("a", 4)))
    life.do(Cancel("a"), NOW_MS + HOUR_MS)


def cancelled_while_waiting(life: Life) -> None:
    life.do(Submit(run("a", 16, owner="other")))
    life.do(Submit(run("b", 4)))
    life.do(Cancel("b"), NOW_MS + HOUR_MS)


def put_back_into_the_queue(life: Life) -> None:
    life.do(Submit(run("a", 8)))
    (node,) = life.on("a")
    life.do(MarkNode(node, NodeStatus.FAILED), NOW_MS + HOUR_MS)
    life.do(Complete("a"), NOW_MS + 2 * HOUR_MS)


def out_of_money(life: Life) -> None:
    money = budget("b", "team", envelope("e", 16, gpu_ms_max=8 * HOUR_MS))
    life.do(Apply((money,)))
    life.do(Submit(run("a", 4, expected_duration_ms=HOUR_MS)))
    for _ in range(9):
        due_ms = life.due_ms()
        if due_ms is None or life.state.runs["a"].since_ms is None:
            break
        life.do(Tick(), due_ms)
    assert life.state.runs["a"].since_ms is None


@pytest.mark.parametrize(
    "happen", [cancelled, cancelled_while_waiting, put_back_into_the_queue, out_of_money]
)
def test_a_run_that_did_not_end_by_itself_enters_no_history(
    happen: Callable[[Life], None],
) -> None:
    life = new_life()
    happen(life)
    assert buckets(life) == []


@pytest.mark.parametrize("end", [Complete("a", has_gone=True), Fail("a", "", has_gone=True)])
def test_a_run_that_was_told_to_stop_and_ends_in_its_grace_enters_no_history(end: Command) -> None:
    life = new_life(has_executor=True)
    life.do(Submit(run("a", 4)))
    (node,) = life.on("a")
    life.do(Drain(node), NOW_MS + HOUR_MS)
    stopping = life.state.runs["a"].stopping
    assert stopping is not None
    assert stopping.outcome is None
    life.do(end, life.now_ms + 1)
    assert buckets(life) == []


def test_an_owner_that_is_removed_and_made_anew_has_no_history() -> None:
    life = new_life()
    life.do(Submit(run("a", 4)))
    life.do(Complete("a"), NOW_MS + HOUR_MS)
    assert buckets(life)
    life.do(RemoveOwner("team"))
    life.do(Apply((Owner(name="team"),)))
    assert buckets(life) == []


# --- Rebuilt, restored and tried ------------------------------------------------------------------


def lived() -> Life:
    life = new_life()
    for number, hours in enumerate((1, 3, 2, 5, 1)):
        name, owner = f"run-{number}", ("team", "other")[number % 2]
        life.do(Submit(run(name, 4, owner=owner, expected_duration_ms=2 * HOUR_MS)))
        life.do(Complete(name), life.now_ms + hours * HOUR_MS)
    return life


def test_histories_are_what_the_events_add_up_to_and_survive_a_snapshot() -> None:
    life = lived()
    assert buckets(life) == [ON_TIME - 8, ON_TIME, ON_TIME - 8]
    assert same(fold(life.events), life.state) == []
    restored = restore(take(life.state))
    assert restored is not None
    assert same(restored, life.state) == []
    assert fingerprint(restored) == fingerprint(life.state)
    restored.durations["team"] = DurationHistory(b"x")
    assert fingerprint(restored) != fingerprint(life.state)


def test_what_is_tried_in_an_overlay_leaves_the_history_below_alone() -> None:
    life = lived()
    before = buckets(life)
    life.do(Submit(run("more", 4)))
    over = life.state.overlay()
    life.now_ms += HOUR_MS
    apply_all(over, life.ask(Complete("more")).events)
    assert list(over.durations["team"].recent) == [*before, ON_TIME]
    assert buckets(life) == before


@pytest.mark.parametrize("wrong", [b"", b"\x01\x02", None])
def test_the_audit_names_an_owner_whose_history_is_not_that_of_its_runs(
    wrong: bytes | None,
) -> None:
    life = lived()
    if wrong is None:
        del life.state.durations["team"]
    else:
        life.state.durations["team"] = DurationHistory(wrong)
    (found,) = audit(life.events, view=life.state)
    assert (found.rule, found.subject) == ("I8", "team")
