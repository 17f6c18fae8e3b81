"""Firm starts that keep their places because of what the same decision does later."""

from __future__ import annotations

import pytest

from quorate.core.commands import Complete, Reported, Submit, Tick
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import EndReason, MoveCause, MoveCode
from quorate.model.specs import Follow, Owner, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, node
from tests.oracles.lives import Life, stops
from tests.oracles.plans import clashes, firm_ms, marked, moves, of, planned_life

DUE_MS = NOW_MS + 40 * MINUTE_MS
IN_A = {"selector": (("fabric.domain", "A"),)}
IN_B = {"selector": (("fabric.domain", "B"),)}
OVERRAN = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "late/0"),))


def overstayed_life(late_gpus: int) -> Life:
    """Return a ledger in which ``late`` overstays without grace before ``due``, firm for 40 min.

    ``due`` takes 8 of 16 GPUs. Runs that are submitted from now on began to wait after the start of
    ``late``, so it may not be stopped for them.
    """
    nodes = [node("a0", 8), node("a1", 8), node("b0", 2, "B")]
    life = planned_life(nodes=nodes, has_executor=True)
    life.do(Submit(of("first", 16, "one", 60, **IN_A)))
    life.do(Submit(of("busy", 2, "three", 300, **IN_B)))
    life.do(Submit(of("later", 2, "three", 60, **IN_B)))
    life.do(Submit(of("late", late_gpus, "two", 30, **IN_A)))
    life.do(Submit(of("due", 8, "one", 180, follow=Follow(after=("first",)), **IN_A)))
    if late_gpus < 16:
        # It is late, too, but cannot be stopped in time, because it needs a minute to stop.
        life.do(Submit(of("slow", 16 - late_gpus, "two", 30, checkpoint_ms=MINUTE_MS, **IN_A)))
    life.do(Reported((Complete("first", has_gone=True),)), NOW_MS + 10 * MINUTE_MS)
    assert (life.phase("late"), marked(life, "late")) == (Phase.RUNNING, [0])
    assert firm_ms(life, "due") == DUE_MS
    return life


def test_start_stays_beside_a_late_one_whose_later_end_meets_the_start_behind() -> None:
    life = overstayed_life(16)
    life.do(Submit(of("small", 1, "three", 20, **IN_A)))
    life.do(Submit(of("tail", 8, "three", 10, **IN_A)))
    assert (firm_ms(life, "small"), firm_ms(life, "tail")) == (DUE_MS, DUE_MS + 20 * MINUTE_MS)
    assert moves(life.do(Tick(), DUE_MS)) == []
    decision = life.do(Tick(), DUE_MS + 1)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]
    # The small start ends a millisecond later, so only the start right behind it moves.
    (moved,) = moves(decision)
    assert (moved.reservation, moved.cause) == ("tail@1", OVERRAN)
    assert moved.planned_start_ms == DUE_MS + 20 * MINUTE_MS + 1
    assert (firm_ms(life, "due"), firm_ms(life, "small")) == (DUE_MS, DUE_MS)


def test_start_stays_if_the_work_stopped_for_another_start_leaves_it_room() -> None:
    life = overstayed_life(12)
    life.do(Submit(of("big", 6, "three", 60, **IN_A)))
    life.do(Submit(of("small", 2, "three", 60, **IN_A)))
    assert {firm_ms(life, name) for name in ("due", "big", "small")} == {DUE_MS}
    assert moves(life.do(Tick(), DUE_MS)) == []
    decision = life.do(Tick(), DUE_MS + 1)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]
    # Of the 12 GPUs of the stopped work, the due start takes 8 and the small one 2.
    (moved,) = moves(decision)
    assert (moved.reservation, moved.cause.code) == ("big@1", MoveCode.LEASE_OVERRAN)
    assert ("lease", "slow/0") in moved.cause.objects
    assert (firm_ms(life, "due"), firm_ms(life, "small")) == (DUE_MS, DUE_MS)


def test_start_behind_a_late_one_stays_if_the_late_one_cannot_really_start() -> None:
    """By counting, the other rack has room for the late start, but the start may not use it."""
    life = planned_life(nodes=[node("a0", 4, rack="k0"), node("a1", 4, rack="k1")])
    in_rack = {"selector": (("rack", "k0"),)}
    life.do(Submit(of("late", 4, "one", 40, **in_rack)))
    life.do(Submit(of("racked", 4, "two", 60, **in_rack)))
    life.do(Submit(of("behind", 8, "three", 30)))
    behind_ms = DUE_MS + 60 * MINUTE_MS
    assert (firm_ms(life, "racked"), firm_ms(life, "behind")) == (DUE_MS, behind_ms)
    assert moves(life.do(Tick(), DUE_MS)) == []
    (moved,) = moves(life.do(Tick(), DUE_MS + 1))
    assert (moved.reservation, moved.cause) == ("racked@1", OVERRAN)
    assert moved.planned_start_ms == behind_ms + 30 * MINUTE_MS
    assert firm_ms(life, "behind") == behind_ms
    assert clashes(life) == []


@pytest.mark.parametrize("quota", [None, 9])
def test_a_run_that_was_stopped_and_has_started_again_is_not_stopped_again(
    quota: int | None,
) -> None:
    """The decision is made again with this stop known; under a quota of nodes it plans twice."""
    owners = [] if quota is None else [Owner(name="two", quota=Quota(nodes_max=quota))]
    nodes = [node("a0", 8), node("a1", 8), node("b0", 12, "B")]
    life = planned_life(nodes=nodes, owners=owners)
    life.do(Submit(of("first", 16, "one", 60, **IN_A)))
    life.do(Submit(of("busy", 12, "three", 300, **IN_B)))
    life.do(Submit(of("late", 12, "two", 30)))
    life.do(Submit(of("due", 8, "one", 180, follow=Follow(after=("first",)), **IN_A)))
    life.do(Submit(of("slow", 4, "two", 30, checkpoint_ms=MINUTE_MS, **IN_A)))
    life.do(Reported((Complete("first", has_gone=True),)), NOW_MS + 10 * MINUTE_MS)
    life.do(Submit(of("big", 6, "three", 60, **IN_A)))
    life.do(Submit(of("small", 2, "three", 60, **IN_A)))
    life.do(Submit(of("waits", 4, "two", 60, **IN_A)))
    decision = life.do(Complete("busy", has_gone=True), DUE_MS + 1)
    assert [name for name, _ in stops(decision)].count("late/1") == 0
    assert life.on("late") == {"b0": 12}
