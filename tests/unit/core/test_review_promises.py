"""Faults of firm starts that a review found, with a test for each."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.admission.search_budget import SearchBudget
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.core.planning.foresight import Foresight, PlanState
from quorate.core.planning.start_search import Searcher
from quorate.core.profile.profile import Profile
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import Envelope, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import (
    ANYWHERE,
    NOW_MS,
    WINDOW_END_MS,
    budget,
    envelope,
    fleet,
    node,
    run,
    world,
)

QUIET = Pool(name="default", disruption_rate_ppm=0, firm_horizon_ms=1_000 * HOUR_MS)


def do(state: State, command: Apply | Complete | Submit | Tick, at_ms: int = NOW_MS) -> None:
    """Decide and apply; nothing may be refused, and all invariants hold afterwards."""
    decision = decide(state, command, now_ms=at_ms, actor="test")
    assert not decision.refusals, decision.refusals
    apply_all(state, decision.events)
    assert sweep(state) == []


def later(name: str, concurrency: int, start_ms: int) -> Envelope:
    """Return an envelope that opens at ``start_ms`` and may be planned on before that."""
    return Envelope(
        name=name,
        flavor="H100",
        selector=ANYWHERE,
        start_ms=start_ms,
        end_ms=WINDOW_END_MS,
        concurrency=concurrency,
        allow_reservations=True,
    )


def short(name: str, gpus: int, owner: str) -> Run:
    """Return a run of a quarter of an hour."""
    return run(name, gpus, owner, expected_duration_ms=15 * MINUTE_MS)


@pytest.mark.heavy
def test_runs_that_nobody_can_ever_pay_do_not_keep_others_from_a_promise() -> None:
    state = world(
        pools=[QUIET],
        nodes=fleet({"A": 16}),
        budgets=[
            budget("b", "team", envelope("e", 16)),
            budget("p", "poor", envelope("e", 16, gpu_ms_max=1)),
        ],
    )
    do(state, Submit(run("busy", 16)))
    for number in range(20):
        do(state, Submit(run(f"poor{number}", 8, "poor")))
    do(state, Submit(run("wide", 16)))
    assert state.runs["wide"].reservation is not None
    assert all(state.runs[f"poor{n}"].reservation is None for n in range(20))


def test_runs_that_wait_for_a_far_window_keep_no_other_owner_from_its_room() -> None:
    opens_ms = NOW_MS + 500 * HOUR_MS
    state = world(
        pools=[Pool(name="default", disruption_rate_ppm=0, reservation_depth=3)],
        nodes=fleet({"A": 16}),
        budgets=[
            budget("b", "team", envelope("e", 16)),
            budget("x", "evil", later("e", 16, opens_ms)),
        ],
    )
    for number in range(6):
        do(state, Submit(short(f"decoy{number}", 1, "evil")))
    do(state, Submit(run("busy", 16)))
    do(state, Submit(run("wide", 16)))
    # The decoys use up the depth; other runs are not planned, but use GPUs that become free.
    foreseen = Foresight.of(state, NOW_MS, has_executor=False).start_of(state.runs["wide"])
    assert foreseen.state is PlanState.NOT_BEFORE
    assert foreseen.entry is not None
    assert foreseen.entry.start_ms == NOW_MS + HOUR_MS
    do(state, Complete("busy"), NOW_MS + HOUR_MS)
    assert state.runs["wide"].phase is Phase.RUNNING


def test_a_promise_in_a_domain_that_is_gone_is_moved_and_does_not_stop_the_clock() -> None:
    pool = replace(QUIET, whole_nodes=True)
    state = world(
        pools=[pool],
        nodes=[node("a0", 8, "A"), node("a1", 8, "A")],
        budgets=[
            budget("b", "team", envelope("e", 64)),
            budget("x", "late", later("e", 8, NOW_MS + HOUR_MS)),
        ],
    )
    do(state, Submit(run("r", 8, "late")))
    assert state.runs["r"].reservation is not None
    do(state, Apply((node("a0", 8, "B"), node("a1", 8, "B"))))
    do(state, Tick(), NOW_MS + HOUR_MS)
    do(state, Tick(), NOW_MS + HOUR_MS + 1)
    assert state.runs["r"].phase is Phase.RUNNING


def test_looking_for_a_start_that_money_allows_in_the_last_of_its_window_only_takes_few_looks() -> (
    None
):
    state = world(
        pools=[QUIET],
        nodes=fleet({"A": 64}),
        budgets=[
            budget("b", "team", envelope("e", 64)),
            budget("p", "poor", envelope("e", 64, gpu_ms_max=HOUR_MS)),
        ],
    )
    for number in range(8):
        do(state, Submit(run(f"r{number}", 8, expected_duration_ms=(number + 1) * HOUR_MS)))
    search, steps = Searcher(Profile(state, NOW_MS), has_executor=False), SearchBudget()
    allowed = steps.left
    found = search.find(run("x", 8, "poor"), NOW_MS, steps)
    assert found is not None
    # One GPU-hour is an eighth of an hour of eight GPUs.
    assert found.start_ms == WINDOW_END_MS - HOUR_MS // 8
    assert allowed - steps.left < 100


def test_a_tick_at_which_nothing_is_due_leaves_a_long_queue_alone() -> None:
    state = world(
        pools=[QUIET], nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 64))]
    )
    do(state, Submit(run("busy", 8, expected_duration_ms=50 * HOUR_MS)))
    for number in range(5):
        do(state, Submit(run(f"r{number}", 8)))
    due_ms = next_due_ms(state, has_executor=False)
    assert due_ms is not None
    assert due_ms > NOW_MS + HOUR_MS
    assert len(state.reservations) == 5
    assert decide(state, Tick(), now_ms=NOW_MS + HOUR_MS, actor="test").events == ()
