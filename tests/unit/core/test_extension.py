"""The length of an extension of a hold, to the millisecond: ADR-0009."""

from __future__ import annotations

import pytest

from quorate.core.admission.holds import extension_ms, may_still_pay
from quorate.core.commands import Submit, Tick
from quorate.core.decide import decide
from quorate.model.amounts import HOLD_QUANTUM_MS, HOUR_MS
from quorate.model.events import BudgetApplied, Event, ReservationMoved
from quorate.model.specs import Budget
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Lease
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world

HOURS_MS = 8 * 100 * HOUR_MS


def started(*, gpu_ms_max: int = HOURS_MS) -> tuple[State, Lease]:
    """Return a state with one lease of four GPUs, and the lease."""
    line = envelope("e", 8, gpu_ms_max=gpu_ms_max)
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", line)])
    submit = Submit(run("r", 4, expected_duration_ms=HOUR_MS))
    apply_all(state, decide(state, submit, now_ms=NOW_MS, actor="test").events)
    return state, state.leases["r/0"]


def change(state: State, spec: Budget) -> None:
    """Record ``spec`` without checks, because a hold must survive even what `apply` refuses."""
    apply_all(state, [BudgetApplied(at_ms=NOW_MS, actor="test", budget=spec)])


@pytest.mark.parametrize(
    ("late_ms", "quanta"),
    [
        (0, 1),
        (HOLD_QUANTUM_MS - 2, 1),
        (HOLD_QUANTUM_MS - 1, 1),
        (HOLD_QUANTUM_MS, 2),
        (2 * HOLD_QUANTUM_MS - 1, 2),
        (2 * HOLD_QUANTUM_MS, 3),
    ],
)
def test_an_extension_is_the_fewest_quanta_that_outlast_now(late_ms: int, quanta: int) -> None:
    state, lease = started()
    found = extension_ms(state, lease, lease.hold_ends_ms + late_ms)
    assert found == quanta * HOLD_QUANTUM_MS


def test_an_extension_is_no_longer_than_the_money_lasts_for_all_gpus() -> None:
    state, lease = started()
    left = 4 * 1_000 + 3
    change(state, budget("b", "team", envelope("e", 8, gpu_ms_max=lease.hold_gpu_ms + left)))
    assert extension_ms(state, lease, lease.hold_ends_ms) == 1_000


def test_an_extension_ends_with_the_payers_window() -> None:
    state, lease = started()
    change(state, budget("b", "team", envelope("e", 8, end_ms=lease.hold_ends_ms + 7)))
    assert extension_ms(state, lease, lease.hold_ends_ms) == 7


@pytest.mark.parametrize("too_much_ms", [0, 1, 4, HOUR_MS])
def test_an_extension_is_nothing_however_much_more_is_promised_than_granted(
    too_much_ms: int,
) -> None:
    state, lease = started()
    granted = lease.hold_gpu_ms - too_much_ms
    change(state, budget("b", "team", envelope("e", 8, gpu_ms_max=granted)))
    assert extension_ms(state, lease, lease.hold_ends_ms) == 0


def test_an_envelope_that_left_its_budget_extends_nothing() -> None:
    state, lease = started()
    assert may_still_pay(state, lease)
    change(state, budget("b", "team", envelope("other", 8)))
    assert not may_still_pay(state, lease)
    assert extension_ms(state, lease, lease.hold_ends_ms) == 0


def test_what_a_moved_promise_lets_go_is_held_at_once_for_who_is_slow_to_stop() -> None:
    closes_ms = NOW_MS + 4 * HOUR_MS
    line = envelope("e", 3, gpu_ms_max=3 * 4 * HOUR_MS, end_ms=closes_ms)
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", line)])
    for name in ("r", "promised"):
        submit = Submit(run(name, 3, expected_duration_ms=HOUR_MS))
        apply_all(state, decide(state, submit, now_ms=NOW_MS, actor="test").events)
    late_ms = closes_ms - HOUR_MS

    def tick() -> list[Event]:
        decided = decide(state, Tick(), now_ms=late_ms, actor="test", has_executor=True)
        apply_all(state, decided.events)
        return list(decided.events)

    assert any(isinstance(event, ReservationMoved) for event in tick())
    assert state.leases["r/0"].ending is not None
    assert state.leases["r/0"].hold_ends_ms > late_ms
    assert tick() == []
