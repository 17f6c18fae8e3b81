"""What happens when a lease outlives its hold: docs/design/calculus.md, ADR-0009."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType

import pytest
from msgspec.structs import replace

from quorate.core.commands import (
    Applied,
    Apply,
    Cancel,
    Command,
    Complete,
    Decision,
    Submit,
    Tick,
)
from quorate.core.decide import decide
from quorate.core.lifecycle.settle import due_holds
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    RunRequeued,
)
from quorate.model.specs import Cap, EnvelopeId, Malleable, Owner, Sharing
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    fleet,
    lending,
    run,
    world,
)

ENVELOPE = EnvelopeId("b/e")
QUANTUM_MS = 15 * MINUTE_MS


def act(state: State, command: Command, at_ms: int) -> Decision:
    decision = decide(state, command, now_ms=at_ms, actor="test")
    apply_all(state, decision.events)
    return decision


def small_world(
    *,
    gpu_ms_max: int | None = None,
    end_ms: int = NOW_MS + 1_000 * HOUR_MS,
    caps: tuple[Cap, ...] = (),
) -> State:
    line = envelope("e", 8, gpu_ms_max=gpu_ms_max, end_ms=end_ms)
    return world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", line, caps=caps)])


def test_a_start_holds_the_expected_duration_and_the_grace() -> None:
    state = small_world()
    act(state, Submit(run("r", 4, expected_duration_ms=HOUR_MS)), NOW_MS)
    account = state.envelopes[ENVELOPE]
    assert account.held_gpu_ms(NOW_MS) == 4 * (HOUR_MS + 2 * MINUTE_MS)
    assert account.spent_gpu_ms(NOW_MS) == 0


def test_a_start_holds_at_least_a_quantum() -> None:
    state = small_world()
    act(state, Submit(run("r", 1, expected_duration_ms=MINUTE_MS)), NOW_MS)
    assert state.leases["r/0"].hold_gpu_ms == QUANTUM_MS + 2 * MINUTE_MS


def test_the_grace_is_at_most_the_pools() -> None:
    state = small_world()
    act(state, Submit(run("r", 1, expected_duration_ms=HOUR_MS, checkpoint_ms=HOUR_MS)), NOW_MS)
    assert state.leases["r/0"].hold_gpu_ms == HOUR_MS + 5 * MINUTE_MS


def test_use_turns_held_into_spent_and_the_end_releases_the_rest() -> None:
    state = small_world()
    act(state, Submit(run("r", 4, expected_duration_ms=HOUR_MS)), NOW_MS)
    later = NOW_MS + 10 * MINUTE_MS
    account = state.envelopes[ENVELOPE]
    promised = account.committed_gpu_ms
    assert account.spent_gpu_ms(later) == 4 * 10 * MINUTE_MS
    assert account.spent_gpu_ms(later) + account.held_gpu_ms(later) == promised
    act(state, Complete("r"), later)
    account = state.envelopes[ENVELOPE]
    assert (account.committed_gpu_ms, account.held_gpu_ms(later)) == (4 * 10 * MINUTE_MS, 0)


def test_a_hold_that_ran_out_is_extended_by_whole_quanta_to_outlast_now() -> None:
    state = small_world()
    act(state, Submit(run("r", 2, expected_duration_ms=HOUR_MS)), NOW_MS)
    hold_ends_ms = NOW_MS + HOUR_MS + 2 * MINUTE_MS
    decision = act(state, Tick(), hold_ends_ms + 20 * MINUTE_MS)
    assert [type(event) for event in decision.events] == [HoldExtended]
    assert state.leases["r/0"].hold_ends_ms == hold_ends_ms + 2 * QUANTUM_MS
    assert act(state, Tick(), hold_ends_ms + 20 * MINUTE_MS).events == ()


def test_a_hold_is_extended_at_the_instant_it_ends_and_not_before() -> None:
    state = small_world()
    act(state, Submit(run("r", 2, expected_duration_ms=HOUR_MS)), NOW_MS)
    hold_ends_ms = state.leases["r/0"].hold_ends_ms
    assert act(state, Tick(), hold_ends_ms - 1).events == ()
    assert len(act(state, Tick(), hold_ends_ms).events) == 1


def test_without_money_the_run_stops_when_the_money_did_and_waits_again() -> None:
    hours = 4 * (HOUR_MS + 2 * MINUTE_MS) + 4 * QUANTUM_MS
    state = small_world(gpu_ms_max=hours)
    act(state, Submit(run("r", 4, expected_duration_ms=HOUR_MS)), NOW_MS)
    decision = act(state, Tick(), NOW_MS + 5 * HOUR_MS)
    ends_ms = NOW_MS + HOUR_MS + 2 * MINUTE_MS + QUANTUM_MS
    ended = [event for event in decision.events if isinstance(event, LeaseEnded)]
    assert [(e.reason, e.end_ms) for e in ended] == [(EndReason.BUDGET_EXHAUSTED, ends_ms)]
    assert [type(e) for e in decision.events[:4]] == [
        HoldExtended,
        LeaseEnding,
        LeaseEnded,
        RunRequeued,
    ]
    assert state.runs["r"].phase is Phase.PENDING
    account = state.envelopes[ENVELOPE]
    assert account.committed_gpu_ms == account.spec.gpu_ms_granted == hours


def test_a_closing_window_stops_the_run_at_its_end() -> None:
    end_ms = NOW_MS + 30 * MINUTE_MS
    state = small_world(end_ms=end_ms)
    act(state, Submit(run("r", 4, expected_duration_ms=HOUR_MS)), NOW_MS)
    assert state.leases["r/0"].hold_ends_ms == end_ms
    decision = act(state, Tick(), end_ms)
    ended = [event for event in decision.events if isinstance(event, LeaseEnded)]
    assert [(e.reason, e.end_ms) for e in ended] == [(EndReason.WINDOW_CLOSED, end_ms)]


def test_a_cap_stops_an_extension_too() -> None:
    hours = 4 * (HOUR_MS + 2 * MINUTE_MS)
    cap = Cap(name="c", flavor="H100", envelopes=("e",), gpu_ms_max=hours)
    state = small_world(caps=(cap,))
    act(state, Submit(run("r", 4, expected_duration_ms=HOUR_MS)), NOW_MS)
    decision = act(state, Tick(), NOW_MS + 2 * HOUR_MS)
    reasons = [event.reason for event in decision.events if isinstance(event, LeaseEnded)]
    assert reasons == [EndReason.BUDGET_EXHAUSTED]


def test_a_step_that_cannot_be_paid_on_ends_alone() -> None:
    # The second envelope pays for the step only, and runs out first.
    first = envelope("a", 4, gpu_ms_max=4 * 100 * HOUR_MS)
    second = envelope("b", 4, gpu_ms_max=4 * (HOUR_MS + 2 * MINUTE_MS))
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", first, second)])
    elastic = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
    act(state, Submit(run("r", 8, malleable=elastic, expected_duration_ms=HOUR_MS)), NOW_MS)
    assert {lease.fact.bundle for lease in state.leases.values()} == {0, 1}
    act(state, Tick(), NOW_MS + 2 * HOUR_MS)
    assert {lease.fact.bundle for lease in state.leases.values()} == {0}
    assert state.runs["r"].phase is Phase.RUNNING


def test_those_who_waited_are_tried_before_a_new_run_takes_what_became_free() -> None:
    state = small_world(gpu_ms_max=None, end_ms=NOW_MS + 100 * HOUR_MS)
    dry = envelope("dry", 8, gpu_ms_max=8 * (HOUR_MS + 2 * MINUTE_MS))
    rich = envelope("rich", 8)
    state = world(
        nodes=fleet({"A": 8}),
        budgets=[budget("b1", "poor", dry), budget("b2", "team", rich)],
    )
    act(state, Submit(run("first", 8, owner="poor", expected_duration_ms=HOUR_MS)), NOW_MS)
    act(state, Submit(run("waits", 8)), NOW_MS + 1)
    decision = act(state, Submit(run("new", 8)), NOW_MS + 3 * HOUR_MS)
    started = [event.run for event in decision.events if isinstance(event, LeaseStarted)]
    assert started == ["waits"]


def test_due_holds_finds_exactly_the_entries_up_to_now_and_leaves_the_heap_alone() -> None:
    heap = [(1, "a"), (5, "b"), (2, "c"), (9, "d"), (6, "e"), (3, "f")]
    before = list(heap)
    assert sorted(due_holds(heap, 5)) == [(1, "a"), (2, "c"), (3, "f"), (5, "b")]
    assert due_holds(heap, 0) == []
    assert heap == before


def test_a_run_that_has_just_lost_a_step_can_be_cancelled() -> None:
    first = envelope("a", 4)
    second = envelope("b", 4, gpu_ms_max=4 * (HOUR_MS + 2 * MINUTE_MS))
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", first, second)])
    elastic = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
    act(state, Submit(run("r", 8, malleable=elastic, expected_duration_ms=HOUR_MS)), NOW_MS)
    act(state, Cancel("r"), NOW_MS + 2 * HOUR_MS)
    assert (state.runs["r"].phase, dict(state.leases)) == (Phase.CANCELLED, {})


@pytest.mark.parametrize("change", ["list", "sharing", "parents"])
def test_who_may_not_be_asked_any_more_promises_nothing_more(change: str) -> None:
    lent = envelope("l", 8, lending=lending("team"))
    shared = envelope("s", 8)
    owners = [
        Owner(name="org"),
        Owner(name="team", parents=("org",)),
        Owner(name="kin", parents=("org",)),
        Owner(name="lab"),
    ]
    payer = lent if change == "list" else shared
    state = world(
        nodes=fleet({"A": 8}),
        owners=owners,
        budgets=[budget("b", "lab" if change == "list" else "kin", payer)],
    )
    asked = run("r", 8, funding=borrowing(), expected_duration_ms=HOUR_MS)
    act(state, Submit(asked), NOW_MS)
    assert state.leases
    spec: Applied
    if change == "list":
        spec = budget("b", "lab", replace(lent, lending=lending("org")))
    elif change == "sharing":
        spec = budget("b", "kin", replace(shared, sharing=Sharing.NONE))
    else:
        spec = Owner(name="team")
    act(state, Apply((spec,)), NOW_MS + MINUTE_MS)
    act(state, Tick(), NOW_MS + 10 * HOUR_MS)
    account = next(iter(state.envelopes.values()))
    assert account.committed_gpu_ms == 8 * (HOUR_MS + 2 * MINUTE_MS)
    assert not state.leases


def test_who_waits_for_a_window_is_tried_before_a_newcomer_when_it_opens() -> None:
    opens_ms = NOW_MS + HOUR_MS
    state = world(
        nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8, start_ms=opens_ms))]
    )
    act(state, Submit(run("old", 8)), NOW_MS)
    act(state, Submit(run("new", 8)), opens_ms)
    assert state.runs["old"].phase is Phase.RUNNING
    assert state.runs["new"].phase is Phase.PENDING


@pytest.mark.heavy
def test_holds_that_passed_long_ago_are_looked_at_once() -> None:
    state = small_world()
    for number in range(50):
        act(state, Submit(run(f"r{number}", 1, expected_duration_ms=HOUR_MS)), NOW_MS)
        act(state, Complete(f"r{number}"), NOW_MS)
    act(state, Submit(run("last", 1)), NOW_MS + 10 * HOUR_MS)
    assert len(state.holds_due()) == 1


@pytest.mark.heavy
def test_runs_that_come_together_are_started_without_a_look_at_every_hold() -> None:
    there = 200
    state = world(nodes=fleet({"A": 2 * there}), budgets=[budget("b", "team", envelope("e", 400))])
    act(state, Apply(tuple(run(f"r{number}", 1) for number in range(there))), NOW_MS)
    state.holds_due()
    calls: Counter[str] = Counter()

    def note(frame: FrameType, happens: str, _: object) -> None:
        if happens == "call":
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act(state, Apply((run("n0", 1), run("n1", 1))), NOW_MS + MINUTE_MS)
    finally:
        sys.setprofile(before)
    assert state.runs["n1"].phase is Phase.RUNNING
    assert calls["renew_ms"] < 20


@pytest.mark.parametrize("is_asked_first", [True, False])
def test_an_overlay_knows_its_holds_whenever_it_is_asked(*, is_asked_first: bool) -> None:
    state = small_world()
    for number in range(4):
        act(state, Submit(run(f"r{number}", 1, expected_duration_ms=HOUR_MS)), NOW_MS + number)
    below = sorted(state.holds_due()), sorted(state.holds_ending())
    over = state.overlay()
    if is_asked_first:
        assert over.holds_due()
        assert over.holds_ending()
    act(over, Cancel("r0"), NOW_MS + MINUTE_MS)
    act(over, Submit(run("short", 1, expected_duration_ms=MINUTE_MS)), NOW_MS + MINUTE_MS)
    act(over, Tick(), NOW_MS + 62 * MINUTE_MS + 1)
    leases = over.overlay().leases.items()
    assert "r0/0" not in dict(leases)
    assert "short/0" in dict(leases)
    for heap, found in (
        (over.overlay().holds_due(), {(lease.renew_ms, name) for name, lease in leases}),
        (over.overlay().holds_ending(), {(lease.hold_ends_ms, name) for name, lease in leases}),
    ):
        assert heap[0] == min(found)
        assert found <= set(heap)
    assert (sorted(state.holds_due()), sorted(state.holds_ending())) == below


def test_a_lease_that_was_lifted_and_set_down_is_renewed_when_it_was_to_be() -> None:
    state = small_world()
    act(state, Submit(run("r", 1, expected_duration_ms=HOUR_MS)), NOW_MS)
    over = state.overlay()
    over.lift_lease("r/0")
    assert over.holds_due() == over.holds_ending() == []
    over.set_down_lease("r/0")
    lease = state.leases["r/0"]
    for trial in (over, over.overlay()):
        assert trial.holds_due() == [(lease.renew_ms, "r/0")]
        assert trial.holds_ending() == [(lease.hold_ends_ms, "r/0")]


def test_what_an_overlay_lifts_and_sets_down_is_its_own_from_then_on() -> None:
    state = small_world()
    act(state, Submit(run("r0", 1, expected_duration_ms=HOUR_MS)), NOW_MS)
    before = state.leases["r0/0"].hold_gpu_ms
    over = state.overlay()
    over.lift_lease("r0/0")
    over.set_down_lease("r0/0")
    more = HoldExtended(at_ms=NOW_MS, actor="test", lease="r0/0", gpu_ms=HOUR_MS)
    apply(over, more)
    assert state.leases["r0/0"].hold_gpu_ms == before
    lease = over.leases["r0/0"]
    assert (lease.hold_ends_ms, "r0/0") in over.holds_ending()


@pytest.mark.parametrize("has_executor", [True, False])
def test_an_overlay_that_made_no_heap_knows_whether_a_hold_is_due(*, has_executor: bool) -> None:
    state = small_world()
    for number in (1, 2):
        act(state, Submit(run(f"r{number}", 1, expected_duration_ms=number * HOUR_MS)), NOW_MS)
    over = state.overlay()
    act(over, Cancel("r1"), NOW_MS + MINUTE_MS)
    act(over, Submit(run("short", 1, expected_duration_ms=MINUTE_MS)), NOW_MS + MINUTE_MS)
    lease = over.leases["short/0"]
    due_ms = lease.renew_ms if has_executor else lease.hold_ends_ms
    for view in (over.overlay(), over.overlay().overlay()):
        assert not view.may_hold_be_due(due_ms - 1, has_executor=has_executor)
        assert view.may_hold_be_due(due_ms, has_executor=has_executor)


def test_a_hold_that_is_to_be_renewed_is_left_until_it_ends_where_nothing_runs() -> None:
    state = small_world()
    act(state, Submit(run("r", 1, expected_duration_ms=HOUR_MS, checkpoint_ms=MINUTE_MS)), NOW_MS)
    lease = state.leases["r/0"]
    assert lease.renew_ms < lease.hold_ends_ms
    assert not act(state, Tick(), lease.hold_ends_ms - 1).events
    extended = act(state, Tick(), lease.hold_ends_ms).events
    assert [type(event) for event in extended] == [HoldExtended]


def test_an_overlay_has_the_tables_of_a_state_and_nothing_else() -> None:
    over = small_world().overlay()
    assert over.leases is over.leases
    with pytest.raises(AttributeError, match="no_such_table"):
        getattr(over, "no_such_table")  # noqa: B009 - mypy knows that there is none
