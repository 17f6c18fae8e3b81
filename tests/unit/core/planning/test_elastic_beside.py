"""Widths, growth, spares and fill beside a firm start: none takes GPUs that it needs."""

from __future__ import annotations

import pytest

from quorate.core.commands import Complete, Confirm, MarkNode, Submit, Tick
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import EndReason, MoveCode, NodeStatus, Role
from quorate.model.specs import Malleable
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, fleet, node
from tests.oracles.lives import ends, stops
from tests.oracles.plans import (
    clashes,
    firm_ms,
    foreseen,
    marked,
    moves,
    of,
    planned_life,
    start_ms_of,
    tick_until,
)

START_MS = NOW_MS + 2 * HOUR_MS
ELASTIC = Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8)


# --- Widths ---


def test_malleable_run_starts_at_the_width_that_a_firm_start_leaves_it() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 2)))
    life.do(Submit(of("firm", 4, "two", selector=(("fabric.domain", "A"),))))
    assert life.phase("firm") is Phase.RUNNING
    life.do(Submit(of("wide", 4, "two", 60)))
    assert firm_ms(life, "wide") == START_MS
    life.do(Submit(of("el", 8, "three", 60, malleable=ELASTIC, group_gpus=2)))
    assert (life.phase("el"), life.gpus("el")) == (Phase.RUNNING, 2)
    assert clashes(life) == []


def test_malleable_run_that_would_reach_a_firm_start_starts_at_the_width_beside_it() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("next", 6, "two", 60)))
    assert firm_ms(life, "next") == START_MS
    life.do(Submit(of("el", 8, "three", 600, malleable=ELASTIC, group_gpus=2)))
    assert (life.phase("el"), life.gpus("el")) == (Phase.RUNNING, 2)
    assert (clashes(life), firm_ms(life, "next")) == ([], START_MS)


def test_malleable_run_is_planned_at_the_widest_width_of_its_earliest_start() -> None:
    life = planned_life()
    life.do(Submit(of("long", 2, minutes=600)))
    life.do(Submit(of("busy", 6)))
    life.do(Submit(of("el", 8, "two", malleable=ELASTIC, group_gpus=2)))
    entry = foreseen(life, "el").entry
    assert entry is not None
    assert (entry.start_ms, entry.slice.gpus) == (START_MS, 6)


# --- Growth ---


def test_run_grows_at_once_into_room_that_no_firm_start_needs() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("el", 8, "two", 60, malleable=ELASTIC, group_gpus=2)))
    assert life.gpus("el") == 4
    life.do(Complete("busy"), NOW_MS + MINUTE_MS)
    assert life.gpus("el") == 8


def test_run_that_would_reach_a_firm_start_does_not_grow_into_its_room() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("other", 2)))
    life.do(Submit(of("el", 8, "three", 600, malleable=ELASTIC, group_gpus=2)))
    life.do(Submit(of("next", 6, "two", 60)))
    assert (firm_ms(life, "next"), life.gpus("el")) == (START_MS, 2)
    decision = life.do(Complete("other"), NOW_MS + MINUTE_MS)
    assert (life.gpus("el"), moves(decision), firm_ms(life, "next")) == (2, [], START_MS)
    life.do(Complete("busy"), START_MS)
    assert (start_ms_of(life, "next"), life.gpus("el")) == (START_MS, 2)


def test_run_that_is_gone_before_a_firm_start_grows_in_front_of_it_and_the_step_is_marked() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("other", 2)))
    life.do(Submit(of("el", 8, "three", 60, malleable=ELASTIC, group_gpus=2)))
    life.do(Submit(of("next", 8, "two", 60)))
    assert (life.gpus("el"), marked(life, "el")) == (2, [])
    decision = life.do(Complete("other"), NOW_MS + MINUTE_MS)
    assert (life.gpus("el"), marked(life, "el")) == (4, [1])
    assert (moves(decision), firm_ms(life, "next")) == ([], START_MS)


def test_only_the_marked_step_of_an_overdue_run_is_stopped_for_a_firm_start() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("other", 2)))
    life.do(Submit(of("el", 8, "three", 60, malleable=ELASTIC, group_gpus=2)))
    life.do(Submit(of("next", 6, "two", 60)))
    life.do(Complete("other"), NOW_MS + MINUTE_MS)
    assert (life.gpus("el"), marked(life, "el")) == (4, [1])
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    assert ends(decision) == [("el/1", EndReason.OVERSTAYED)]
    assert (life.phase("next"), life.gpus("el")) == (Phase.RUNNING, 2)


def test_run_grows_beside_a_firm_start_that_is_elsewhere() -> None:
    life = planned_life(nodes=fleet({"A": 4, "B": 4}, gpus=4))
    here, there = ((("fabric.domain", name),) for name in "AB")
    elastic = Malleable(gpus_min=2, gpus_max=4, gpus_step=2, gpus_desired=4)
    life.do(Submit(of("x", 2, selector=here)))
    life.do(Submit(of("m", 4, "two", selector=here, malleable=elastic)))
    assert life.gpus("m") == 2
    life.do(Submit(of("y", 4, selector=there)))
    life.do(Submit(of("z", 4, "three", selector=there)))
    assert set(life.state.reservations) == {"z@1"}
    life.do(Complete("x"), NOW_MS + MINUTE_MS)
    assert life.gpus("m") == 4


# --- Spares and fill ---


def test_spares_of_a_run_are_part_of_its_firm_place() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("careful", 4, "two", 60, group_gpus=4, spares_per_group=4)))
    life.do(Submit(of("next", 4, "three", 60)))
    assert (firm_ms(life, "careful"), firm_ms(life, "next")) == (START_MS, START_MS + HOUR_MS)
    life.do(Complete("busy"), START_MS)
    # The start takes the spares, and the next run may fill them.
    assert (life.gpus("careful"), life.filled("careful")) == (4, 4)
    assert start_ms_of(life, "next") == START_MS


@pytest.mark.parametrize(("minutes", "phase"), [(120, Phase.RUNNING), (121, Phase.PENDING)])
def test_filler_of_a_spare_is_gone_when_a_firm_start_needs_its_other_room(
    minutes: int, phase: Phase
) -> None:
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)])
    life.do(Submit(of("keeper", 2, minutes=120, group_gpus=2, spares_per_group=2)))
    life.do(Submit(of("wide", 8, "two", 60)))
    assert firm_ms(life, "wide") == START_MS
    life.do(Submit(of("filler", 6, "three", minutes)))
    assert (life.phase("filler"), clashes(life)) == (phase, [])


def test_filler_that_overstays_is_stopped_and_the_spare_is_its_keepers_again() -> None:
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)])
    life.do(Submit(of("keeper", 2, minutes=900, group_gpus=2, spares_per_group=1)))
    life.do(Submit(of("busy", 3)))
    life.do(Submit(of("wide", 5, "two", 60)))
    assert firm_ms(life, "wide") == START_MS
    life.do(Submit(of("filler", 3, "three", 30)))
    assert (life.filled("keeper"), marked(life, "filler")) == (1, [0])
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    assert {name.split("/")[0] for name, _ in ends(decision)} == {"filler"}
    assert (life.phase("wide"), life.gpus("keeper", Role.SPARE)) == (Phase.RUNNING, 1)


@pytest.mark.parametrize("has_executor", [True, False])
@pytest.mark.parametrize("gpus", [7, 8])
def test_filler_and_keeper_that_both_overstay_are_stopped_together(
    gpus: int,
    has_executor: bool,  # noqa: FBT001 - a case
) -> None:
    """The slots of the filler go back to the spare, unless the spare's run is stopped, too."""
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)], has_executor=has_executor)
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", gpus, "two", 60)))
    assert firm_ms(life, "wide") == START_MS
    keeper = of("keeper", 2, "three", 30, group_gpus=2, spares_per_group=2)
    life.do(Submit(keeper))
    life.do(Submit(of("filler", 2, "three", 30)))
    assert (life.filled("keeper"), marked(life, "keeper"), marked(life, "filler")) == (2, [0], [0])
    seen = [life.do(Complete("busy", has_gone=True), START_MS - MINUTE_MS)]
    seen += tick_until(life, START_MS)
    told = [pair for each in seen for pair in (stops(each) if has_executor else ends(each))]
    gone = [name for name, reason in told if reason is EndReason.OVERSTAYED]
    assert {name.split("/")[0] for name in gone} == {"keeper", "filler"}
    for name in gone if has_executor else ():
        life.do(Confirm(name))
    assert [move for each in seen for move in moves(each)] == []
    assert start_ms_of(life, "wide") == START_MS


def test_filler_goes_on_where_its_slots_would_be_a_spares_again() -> None:
    life = planned_life(nodes=[node(f"a{number}", 4) for number in range(3)])
    life.do(Submit(of("keeper", 4, minutes=600, group_gpus=4, spares_per_group=2)))
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("old", 2, minutes=30)))
    life.do(Submit(of("next", 6, "two")))
    assert firm_ms(life, "next") == START_MS
    life.do(Submit(of("filler", 2, "three", 30)))
    assert (life.filled("keeper"), marked(life, "filler")) == (2, [0])
    decisions = [life.do(Complete("busy"), START_MS - 1), life.do(Tick(), START_MS)]
    assert (ends(decisions[1]), life.phase("filler")) == ([], Phase.RUNNING)
    (moved,) = [event for each in decisions for event in moves(each)]
    assert moved.cause.code is MoveCode.LEASE_OVERRAN
    assert ("lease", "old/0") in moved.cause.objects


def test_filler_is_stopped_for_a_start_that_lacks_its_slots_after_the_end_of_the_spares_run() -> (
    None
):
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)])
    life.do(Submit(of("keeper", 2, minutes=130, group_gpus=2, spares_per_group=2)))
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 5, "two")))
    life.do(Submit(of("next", 3, "two")))
    assert (firm_ms(life, "wide"), firm_ms(life, "next")) == (
        START_MS + 10 * MINUTE_MS,
        START_MS,
    )
    life.do(Submit(of("filler", 2, "three", 30)))
    assert (life.filled("keeper"), marked(life, "filler")) == (2, [0])
    decisions = [*tick_until(life, START_MS - MINUTE_MS), life.do(Complete("busy"))]
    decisions += [life.do(Tick(), START_MS)]
    assert ends(decisions[-1]) == [("filler/0", EndReason.OVERSTAYED)]
    assert [move for each in decisions for move in moves(each)] == []
    assert start_ms_of(life, "next") == START_MS


def test_spare_that_takes_the_place_of_a_lost_node_moves_no_firm_start() -> None:
    life = planned_life(nodes=[node(f"a{number}", 4) for number in range(4)])
    life.do(Submit(of("careful", 4, minutes=240, group_gpus=4, spares_per_group=4)))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("next", 8, "two")))
    assert firm_ms(life, "next") == START_MS
    (working,) = life.on("careful")
    decision = life.do(MarkNode(working, NodeStatus.FAILED), NOW_MS + MINUTE_MS)
    assert (life.phase("careful"), life.gpus("careful")) == (Phase.RUNNING, 4)
    assert (moves(decision), firm_ms(life, "next"), clashes(life)) == ([], START_MS, [])


@pytest.mark.parametrize("waits", [True, False])
def test_run_past_its_declared_end_grows_only_where_no_planned_start_waits(
    waits: bool,  # noqa: FBT001 - a parameter
) -> None:
    life = planned_life(8)
    grows = Malleable(gpus_min=2, gpus_max=4, gpus_step=2, gpus_desired=4)
    life.do(Submit(of("older", 4, "one", 240)))
    life.do(Submit(of("brief", 2, "one", 240)))
    life.do(Submit(of("elastic", 4, "two", 60, malleable=grows)))
    if waits:
        life.do(Submit(of("first", 8, "three")))
    life.do(Complete("brief"), NOW_MS + 70 * MINUTE_MS)
    assert life.gpus("elastic") == (2 if waits else 4)
