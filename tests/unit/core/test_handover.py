"""Hand-over: when a payer can no longer pay, the next one does, and the work continues."""

from __future__ import annotations

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Submit, Tick
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    LeaseEnded,
    LeaseStarted,
    Outcome,
    Role,
    RunEnded,
    StartReason,
    Tier,
)
from quorate.model.specs import Funding, Owner
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
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
from tests.oracles.lives import Life

HOLD_MS = HOUR_MS + 2 * MINUTE_MS


def test_the_next_payer_takes_over_on_the_same_slots() -> None:
    first = envelope("a", 8, gpu_ms_max=8 * HOLD_MS)
    second = envelope("b", 8)
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", first, second)])
    apply_all(
        state,
        decide(
            state, Submit(run("r", 8, expected_duration_ms=HOUR_MS)), now_ms=NOW_MS, actor="t"
        ).events,
    )
    slots = state.leases["r/0"].fact.slots
    decision = decide(state, Tick(), now_ms=NOW_MS + HOLD_MS, actor="t")
    apply_all(state, decision.events)
    ended, started = decision.events
    assert isinstance(ended, LeaseEnded)
    assert isinstance(started, LeaseStarted)
    assert (ended.reason, ended.end_ms) == (EndReason.HANDOVER, NOW_MS + HOLD_MS)
    assert (started.reason, started.payer, started.slots) == (
        StartReason.HANDOVER,
        "b/b",
        slots,
    )
    assert state.runs["r"].phase is Phase.RUNNING
    assert sweep(state) == []


def test_a_bundle_is_handed_over_whole_spares_and_shared_nodes_included() -> None:
    first = envelope("a", 6, gpu_ms_max=6 * HOLD_MS)
    second = envelope("b", 6)
    third = envelope("c", 12)
    state = world(nodes=fleet({"A": 16}), budgets=[budget("b", "team", first, second, third)])
    asked = run("r", 8, group_gpus=4, spares_per_group=2, expected_duration_ms=HOUR_MS)
    apply_all(state, decide(state, Submit(asked), now_ms=NOW_MS, actor="t").events)
    assert {lease.fact.payer for lease in state.leases.values()} == {"b/a", "b/b"}
    before = {
        (lease.fact.comp_path, node, mask)
        for lease in state.leases.values()
        for node, mask in lease.fact.slots
    }
    apply_all(state, decide(state, Tick(), now_ms=NOW_MS + HOLD_MS, actor="t").events)
    assert {lease.fact.payer for lease in state.leases.values()} == {"b/b", "b/c"}
    gpus = {
        role: sum(lease.gpus for lease in state.leases.values() if lease.fact.role is role)
        for role in (Role.ACTIVE, Role.SPARE)
    }
    assert gpus == {Role.ACTIVE: 8, Role.SPARE: 4}
    taken = sum(mask.bit_count() for _, _, mask in before)
    assert sum(lease.gpus for lease in state.leases.values()) == taken
    assert sweep(state) == []


def test_a_sponsor_takes_over_only_where_the_run_may_borrow() -> None:
    own = envelope("a", 8, gpu_ms_max=8 * HOLD_MS)
    lent = envelope("l", 8, lending=lending("team"))
    for allowed in (True, False):
        state = world(
            nodes=fleet({"A": 8}),
            owners=[Owner(name="team"), Owner(name="lab")],
            budgets=[budget("b", "team", own), budget("l", "lab", lent)],
        )
        funding = borrowing(8) if allowed else Funding()
        asked = run("r", 8, expected_duration_ms=HOUR_MS, funding=funding)
        apply_all(state, decide(state, Submit(asked), now_ms=NOW_MS, actor="t").events)
        apply_all(state, decide(state, Tick(), now_ms=NOW_MS + HOLD_MS, actor="t").events)
        tiers = {lease.fact.tier for lease in state.leases.values()}
        assert tiers == ({Tier.BORROWED} if allowed else set())
        assert sweep(state) == []


def test_a_hand_over_that_nobody_takes_is_seen_by_the_audit() -> None:
    lines = (envelope("a", 8, gpu_ms_max=8 * HOLD_MS), envelope("b", 8))
    life = Life(nodes=fleet({"A": 8}), budgets=[budget("b", "team", *lines)])
    life.do(Submit(run("r", 8, expected_duration_ms=HOUR_MS)))
    ended, started = life.do(Tick(), NOW_MS + HOLD_MS).events
    assert isinstance(started, LeaseStarted)
    assert started.reason is StartReason.HANDOVER
    spoiled = [event for event in life.events if event is not started]
    assert spoiled[-1] is ended
    found = audit([*spoiled, RunEnded(ended.at_ms, "t", "r", Outcome.COMPLETED)])
    assert ("I6", "r", "is handed over with other slots or another role") in {
        (violation.rule, violation.subject, violation.found) for violation in found
    }
