"""Firm starts beside one that is late because of overstaying work: no other start moves for it."""

from __future__ import annotations

import pytest

from quorate.core.commands import Complete, Confirm, Reported, Submit, Tick
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import EndReason, MoveCause, MoveCode
from quorate.model.specs import Follow, OnQuota, Owner, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, node
from tests.oracles.lives import Life, stops
from tests.oracles.plans import clashes, firm_ms, funds, marked, moves, of, planned_life

DUE_MS = NOW_MS + 40 * MINUTE_MS
OVERRAN = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "late/0"),))


def at(domain: str) -> dict[str, object]:
    """Return the fields of a run that needs one domain and waits for its quota."""
    return {"selector": (("fabric.domain", domain),), "on_quota": OnQuota.WAIT}


def late_life(*, tail_first: bool, grace_ms: int = 0) -> Life:
    """Return a firm start in 40 min, ``due``, behind work of ``two`` that overstays until then.

    ``tail`` is firm right behind it, and recorded before it if ``tail_first``. ``other`` is firm in
    45 min, and ``two`` may have one run at a time.
    """
    life = planned_life(
        nodes=[node("a0", 4), node("b0", 2, "B"), node("c0", 4, "C")],
        owners=[Owner(name="two", quota=Quota(concurrent_runs_max=1))],
        budgets=[funds("tail", 4)],
        has_executor=True,
    )
    # Its payer can pay for no other run before that.
    life.do(Submit(of("pays", 4, "tail", 220, **at("C"))))
    tail = Submit(of("tail", 4, "tail", 5, **at("A")))
    life.do(Submit(of("first", 4, "one", 60, **at("A"))))
    life.do(Submit(of("busy", 2, "three", 45, **at("B"))))
    if tail_first:
        life.do(tail)
    life.do(Submit(of("late", 4, "two", 30, checkpoint_ms=grace_ms, **at("A"))))
    life.do(Submit(of("other", 2, "two", 5, **at("B"))))
    life.do(Submit(of("due", 4, "one", 180, follow=Follow(after=("first",)), **at("A"))))
    life.do(Reported((Complete("first", has_gone=True),)), NOW_MS + 10 * MINUTE_MS)
    if not tail_first:
        life.do(tail)
    assert (life.phase("late"), marked(life, "late")) == (Phase.RUNNING, [0])
    assert firm_ms(life, "due") == DUE_MS
    assert firm_ms(life, "tail") == NOW_MS + 220 * MINUTE_MS
    assert firm_ms(life, "other") == NOW_MS + 45 * MINUTE_MS
    return life


@pytest.mark.parametrize("tail_first", [True, False])
@pytest.mark.parametrize("late_ms", [1, MINUTE_MS])
def test_start_moves_for_no_work_that_the_same_decision_stops(
    late_ms: int, *, tail_first: bool
) -> None:
    life = late_life(tail_first=tail_first)
    assert moves(life.do(Tick(), DUE_MS)) == []
    decision = life.do(Tick(), DUE_MS + late_ms)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]
    # Only the start right behind the late one moves, by the same time.
    (moved,) = moves(decision)
    assert (moved.reservation, moved.cause) == ("tail@1", OVERRAN)
    assert moved.planned_start_ms == NOW_MS + 220 * MINUTE_MS + late_ms
    assert firm_ms(life, "due") == DUE_MS
    assert firm_ms(life, "other") == NOW_MS + 45 * MINUTE_MS
    life.do(Reported((Confirm("late/0"),)), DUE_MS + late_ms)
    assert life.phase("due") is Phase.RUNNING
    assert clashes(life) == []


def test_start_moves_for_backfill_that_holds_only_its_quota() -> None:
    """No bundle is stopped to free a quota, so it counts as late like any other lease."""
    life = late_life(tail_first=False, grace_ms=MINUTE_MS)
    # It may not be stopped for a start at its declared end, because it needs a minute to stop.
    decision = life.do(Tick(), DUE_MS + 1)
    assert stops(decision) == []
    causes = {event.reservation: event.cause for event in moves(decision)}
    assert causes["other@1"] == OVERRAN
    assert life.phase("late") is Phase.RUNNING
    # A quarter more than it declared, in whole quarters of an hour.
    assert firm_ms(life, "other") == NOW_MS + 55 * MINUTE_MS
