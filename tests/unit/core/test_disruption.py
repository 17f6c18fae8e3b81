"""Who may call a conflict, when a conflict would help, and what it may cost."""

from __future__ import annotations

import pytest

from quorate.core.commands import Cancel
from quorate.core.decide import decide
from quorate.core.preemption.disruption_rules import (
    CallBar,
    foresee_conflict,
    may_call,
)
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import OwnerApplied, Slice
from quorate.model.specs import Malleable, Owner, Pool, Quota, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import RunRecord
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, run
from tests.oracles.resolving import BEGAN_MS, WANTED, begin, reserve, start

PLACE = Slice("H100", 4, (("r/c/A", 4),))


def long(name: str, gpus: int, owner: str = "ada", **more: object) -> Run:
    return run(name, gpus, owner, expected_duration_ms=1_000 * HOUR_MS, **more)


def waiting(pool: Pool | None = None) -> State:
    """Return a full fleet of 8 GPUs and a waiting run."""
    state = begin({"A": 8}, pool)
    assert start(state, long("a", 8), NOW_MS)
    reserve(state, run(WANTED, 4, "ben"), ["r/c/A"])
    return state


def test_whoever_did_nothing_may_ask() -> None:
    state = waiting()
    assert may_call(state, state.runs[WANTED], BEGAN_MS) is None


def test_a_run_that_was_cut_may_not_ask_within_the_cool_down() -> None:
    state = waiting()
    state.runs.own(WANTED).cut_ms = BEGAN_MS
    last_ms = BEGAN_MS + 120 * MINUTE_MS - 1
    answer = may_call(state, state.runs[WANTED], last_ms)
    assert answer is not None
    assert answer.bar is CallBar.COOL_DOWN
    assert may_call(state, state.runs[WANTED], last_ms + 1) is None


def test_an_owner_that_throws_a_start_away_may_not_ask_for_a_while() -> None:
    state = waiting()
    record = state.runs.own("a")
    record.via_conflict = "7"
    cancelled_ms = NOW_MS + 59 * MINUTE_MS
    apply_all(state, decide(state, Cancel("a"), now_ms=cancelled_ms, actor="test").events)
    assert state.barred == {"ada": cancelled_ms + 120 * MINUTE_MS}
    mine = RunRecord(long("m", 1), 99, 0, record.phase, None, 0, {}, 0, {}, None, None, "")
    answer = may_call(state, mine, cancelled_ms)
    assert answer is not None
    assert answer.bar is CallBar.THREW_AWAY
    assert may_call(state, mine, cancelled_ms + 120 * MINUTE_MS) is None


def test_a_rate_of_nothing_allows_nothing_nor_does_an_older_budget_of_nothing() -> None:
    for pool in (
        Pool(name="default", disruption_rate_ppm=0),
        Pool(name="default", disruption_gpu_ms_per_day=0),
    ):
        state = waiting(pool)
        answer = may_call(state, state.runs[WANTED], BEGAN_MS)
        assert answer is not None
        assert answer.bar is CallBar.NO_CONFLICTS


@pytest.mark.parametrize(
    ("quota", "says"),
    [
        (Quota(), ""),
        (Quota(gpu_ms_budget=0), "ben has used 100 % of its budget"),
        (Quota(fair_share_target_ppm=0), "it would take ben beyond its target share of H100"),
        (Quota(fair_share_target_ppm=1_000_000), ""),
        (Quota(nodes_max=0), "it waits for its owner's hard quota"),
    ],
)
def test_soft_and_hard_quotas_keep_their_owner_from_asking(quota: Quota, says: str) -> None:
    state = waiting()
    owner = Owner(name=state.runs[WANTED].spec.owner, quota=quota)
    apply_all(state, [OwnerApplied(at_ms=state.at_ms, actor="test", owner=owner)])
    answer = may_call(state, state.runs[WANTED], BEGAN_MS)
    assert ("" if answer is None else answer.text) == says


def test_a_conflict_waits_until_enough_has_run_long_enough() -> None:
    state = begin({"A": 8})
    assert start(state, long("a", 2), NOW_MS)
    assert start(state, long("b", 2), NOW_MS + 10 * MINUTE_MS)
    assert start(state, long("c", 4), NOW_MS + 20 * MINUTE_MS)
    now_ms = NOW_MS + 30 * MINUTE_MS
    found = foresee_conflict(state, run(WANTED, 4, "ben"), PLACE, made_ms=now_ms, now_ms=now_ms)
    assert found is not None
    assert found.start_ms == NOW_MS + 70 * MINUTE_MS
    assert (found.deficit, found.short, found.lost_gpu_ms) == (4, 4, 4 * HOUR_MS)
    made_ms = NOW_MS + MINUTE_MS
    late = foresee_conflict(state, run(WANTED, 4, "ben"), PLACE, made_ms=made_ms, now_ms=now_ms)
    assert late is not None
    assert late.start_ms == now_ms, "what began after the promise may be drawn at once"


def test_steps_need_not_ripen_and_too_much_never_works() -> None:
    state = begin({"A": 8})
    elastic = Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8)
    assert start(state, long("m", 8, malleable=elastic), NOW_MS)
    soon = NOW_MS + MINUTE_MS
    found = foresee_conflict(state, run(WANTED, 4, "ben"), PLACE, made_ms=soon, now_ms=soon)
    assert found is not None
    assert (found.start_ms, found.short, found.lost_gpu_ms) == (soon, 0, 4 * MINUTE_MS)
    wide = run(WANTED, 9, "ben")
    assert foresee_conflict(state, wide, PLACE, made_ms=soon, now_ms=soon) is None
