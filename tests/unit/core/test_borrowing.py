"""The limit on a run's loans applies at every instant, and not only at its start."""

from __future__ import annotations

from quorate.core.audit.invariants import sweep
from quorate.core.commands import Submit, Tick
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import EndReason, LeaseEnded, Tier
from quorate.model.specs import Malleable, Owner
from quorate.model.state.apply_event import apply_all
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

HOLD_MS = HOUR_MS + 2 * MINUTE_MS


def borrowed(state: State) -> int:
    return sum(lease.gpus for lease in state.leases.values() if lease.fact.tier is Tier.BORROWED)


def test_a_hand_over_counts_what_the_run_borrows_already() -> None:
    own = envelope("a", 4, gpu_ms_max=4 * HOLD_MS)
    lent = envelope("l", 16, lending=lending("team"))
    state = world(
        nodes=fleet({"A": 8}),
        owners=[Owner(name="team"), Owner(name="lab")],
        budgets=[budget("b", "team", own), budget("l", "lab", lent)],
    )
    elastic = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
    asked = run(
        "r",
        8,
        group_gpus=4,
        malleable=elastic,
        expected_duration_ms=HOUR_MS,
        funding=borrowing(4),
    )
    apply_all(state, decide(state, Submit(asked), now_ms=NOW_MS, actor="t").events)
    assert borrowed(state) == 4
    decision = decide(state, Tick(), now_ms=NOW_MS + HOLD_MS, actor="t")
    apply_all(state, decision.events)
    reasons = {event.reason for event in decision.events if isinstance(event, LeaseEnded)}
    assert EndReason.HANDOVER not in reasons
    assert borrowed(state) <= 4
    assert sweep(state) == []
