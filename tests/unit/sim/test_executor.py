"""The simulated executor: how it carries out work, and which orders it rejects as wrong."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import EndReason, LeaseStarted, Role, StartReason, Tier
from quorate.model.specs import EnvelopeId, Run
from quorate.ports.executor_port import (
    EndLease,
    LeaseGone,
    RunExited,
    StartLease,
    StopLease,
    WipeDone,
    WipeNode,
)
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import WIPE_MS, SimExecutor
from quorate.sim.simulation import Timeline, VirtualClock
from quorate.testing.builders import NOW_MS, run

TRUTH = Truth(work_ms=HOUR_MS, checkpoint_every_ms=10 * MINUTE_MS)


def room(truth: Truth = TRUTH) -> tuple[Timeline, SimExecutor]:
    """Return a machine room in which every stop takes one minute."""
    timeline = Timeline(VirtualClock(NOW_MS))
    executor = SimExecutor(
        timeline, truth_of=lambda _: truth, stop_delay=lambda _: MINUTE_MS, notice_ms=HOUR_MS
    )
    return timeline, executor


def start(name: str, node: str, mask: int, asked: Run, bundle: int = 0) -> StartLease:
    fact = LeaseStarted(
        at_ms=NOW_MS,
        actor="test",
        lease=name,
        run=asked.name,
        partner=None,
        comp_path=f"group/{bundle}",
        bundle=bundle,
        role=Role.ACTIVE,
        slots=((node, mask),),
        payer=EnvelopeId("b/e"),
        tier=Tier.OWNED,
        hold_gpu_ms=HOUR_MS,
        start_ms=NOW_MS,
        reason=StartReason.START,
    )
    return StartLease(fact, asked)


def claim(name: str, node: str) -> StartLease:
    order = start(f"{name}/0", node, 3, run(name, 2, sensitive=True))
    return StartLease(replace(order.lease, role=Role.CLAIM), order.run)


def pass_until(timeline: Timeline, at_ms: int) -> None:
    while (next_ms := timeline.next_ms()) is not None and next_ms <= at_ms:
        timeline.take()()
    timeline.clock.true_ms = at_ms


def test_work_ends_when_it_is_done_and_says_so_until_the_ledger_has_it() -> None:
    timeline, executor = room()
    executor.carry_out([start("r/0", "n", 3, run("r", 2))])
    pass_until(timeline, NOW_MS + HOUR_MS - 1)
    assert executor.reports() == []
    pass_until(timeline, NOW_MS + HOUR_MS)
    exited = RunExited("r", "r/0", 0, "exited")
    assert executor.reports() == executor.reports() == [exited]
    executor.carry_out([EndLease("r/0", EndReason.END)])
    assert executor.reports() == []
    assert executor.wrongs == []


def test_a_wider_run_is_done_sooner() -> None:
    timeline, executor = room()
    asked = run("r", 2)
    executor.carry_out([start("r/0", "n", 3, asked)])
    pass_until(timeline, NOW_MS + HOUR_MS // 2)
    executor.carry_out([start("r/1", "m", 3, asked, bundle=1)])
    pass_until(timeline, NOW_MS + HOUR_MS * 3 // 4)
    assert [type(report) for report in executor.reports()] == [RunExited]


def test_a_stop_takes_its_time_and_keeps_what_was_done() -> None:
    timeline, executor = room()
    asked = run("r", 2)
    executor.carry_out([start("r/0", "n", 3, asked)])
    pass_until(timeline, NOW_MS + 25 * MINUTE_MS)
    executor.carry_out([StopLease("r/0", timeline.now_ms + 2 * MINUTE_MS)])
    assert executor.reports() == []
    pass_until(timeline, NOW_MS + 26 * MINUTE_MS)
    assert executor.reports() == [LeaseGone("r/0")]
    executor.carry_out([EndLease("r/0", EndReason.DRAINED), start("r/1", "m", 3, asked)])
    pass_until(timeline, NOW_MS + 61 * MINUTE_MS)
    assert [type(report) for report in executor.reports()] == [RunExited]


def test_a_lost_node_throws_work_back_to_its_last_checkpoint() -> None:
    timeline, executor = room()
    asked = run("r", 2)
    executor.carry_out([start("r/0", "n", 3, asked)])
    pass_until(timeline, NOW_MS + 25 * MINUTE_MS)
    executor.lose_node("n")
    executor.carry_out([EndLease("r/0", EndReason.FAIL), start("r/1", "m", 3, asked)])
    # 20 of 25 minutes were saved, so 40 are left.
    pass_until(timeline, NOW_MS + 65 * MINUTE_MS - 1)
    assert executor.reports() == []
    pass_until(timeline, NOW_MS + 65 * MINUTE_MS)
    assert [type(report) for report in executor.reports()] == [RunExited]
    assert executor.wrongs == []


def test_a_hand_over_of_the_same_slots_is_not_noticed() -> None:
    timeline, executor = room()
    asked = run("r", 2)
    executor.carry_out([start("r/0", "n", 3, asked)])
    pass_until(timeline, NOW_MS + 25 * MINUTE_MS)
    executor.carry_out([EndLease("r/0", EndReason.HANDOVER), start("r/1", "n", 3, asked)])
    pass_until(timeline, NOW_MS + HOUR_MS)
    assert executor.reports() == [RunExited("r", "r/1", 0, "exited")]
    assert executor.wrongs == []


def test_broken_work_that_nobody_deals_with_fails_by_itself() -> None:
    timeline, executor = room()
    executor.carry_out([start("r/0", "n", 3, run("r", 2))])
    executor.lose_node("n")
    pass_until(timeline, NOW_MS + HOUR_MS)
    (report,) = executor.reports()
    assert isinstance(report, RunExited)
    assert report.code != 0


def test_hearing_it_again_changes_nothing_and_what_is_not_named_goes() -> None:
    timeline, executor = room()
    stays, goes = start("r/0", "n", 3, run("r", 2)), start("s/0", "m", 3, run("s", 2))
    executor.carry_out([stays, goes])
    executor.resume([stays, StopLease("r/0", NOW_MS)])
    executor.resume([stays, StopLease("r/0", NOW_MS)])
    assert executor.known() == {"r/0": True}
    pass_until(timeline, NOW_MS + HOUR_MS)
    assert executor.reports() == [LeaseGone("r/0")]
    assert executor.wrongs == []


def test_two_pieces_of_work_on_one_slot_are_wrong() -> None:
    _, executor = room()
    executor.carry_out([start("r/0", "n", 3, run("r", 2)), start("s/0", "n", 6, run("s", 2))])
    assert executor.wrongs


def test_slots_given_away_before_the_work_is_gone_are_wrong() -> None:
    _, executor = room()
    executor.carry_out([start("r/0", "n", 3, run("r", 2)), StopLease("r/0", NOW_MS)])
    executor.carry_out([EndLease("r/0", EndReason.CANCELLED)])
    assert executor.wrongs


def test_work_is_gone_once_its_node_has_lost_its_power_even_when_that_is_back() -> None:
    _, executor = room()
    executor.carry_out([start("r/0", "n", 3, run("r", 2))])
    executor.lose_node("n")
    executor.carry_out([start("s/0", "n", 12, run("s", 2))])
    executor.restore_node("n")
    for lease in ("r/0", "s/0"):
        executor.carry_out([StopLease(lease, NOW_MS), EndLease(lease, EndReason.FAIL)])
    assert executor.wrongs == []


def test_work_that_came_after_the_power_was_back_is_not_gone() -> None:
    _, executor = room()
    executor.lose_node("n")
    executor.restore_node("n")
    executor.carry_out([start("r/0", "n", 3, run("r", 2)), StopLease("r/0", NOW_MS)])
    executor.carry_out([EndLease("r/0", EndReason.FAIL)])
    assert executor.wrongs == ["r/0 ended by Fail before it had stopped"]


def test_work_is_not_gone_where_only_another_of_its_nodes_lost_its_power() -> None:
    _, executor = room()
    order = start("r/0", "n", 3, run("r", 4))
    both = replace(order.lease, slots=(("n", 3), ("m", 3)))
    executor.carry_out([StartLease(both, order.run)])
    executor.lose_node("n")
    executor.carry_out([StopLease("r/0", NOW_MS), EndLease("r/0", EndReason.FAIL)])
    assert executor.wrongs == ["r/0 ended by Fail before it had stopped"]


def test_a_lease_that_starts_twice_is_wrong() -> None:
    _, executor = room()
    again = start("r/0", "n", 3, run("r", 2))
    executor.carry_out([again, EndLease("r/0", EndReason.END)])
    executor.carry_out([again])
    assert executor.wrongs


def test_a_claims_node_is_wiped_once_and_that_is_said_until_it_is_used_again() -> None:
    timeline, executor = room()
    executor.carry_out([claim("c", "n")])
    pass_until(timeline, NOW_MS + HOUR_MS)
    wipe = WipeNode("n", "c")
    executor.carry_out([EndLease("c/0", EndReason.END), wipe])
    executor.carry_out([wipe])
    pass_until(timeline, NOW_MS + HOUR_MS + WIPE_MS - 1)
    assert executor.reports() == []
    pass_until(timeline, NOW_MS + HOUR_MS + WIPE_MS)
    executor.carry_out([wipe])
    assert executor.reports() == [WipeDone("n", "c", is_clean=True)]
    executor.carry_out([start("r/0", "n", 3, run("r", 2))])
    assert (executor.reports(), executor.wrongs) == ([], [])


def test_work_on_a_node_that_was_not_wiped_is_wrong() -> None:
    _, executor = room()
    executor.carry_out([claim("c", "n")])
    executor.carry_out([EndLease("c/0", EndReason.END), WipeNode("n", "c")])
    executor.carry_out([start("r/0", "n", 3, run("r", 2))])
    assert executor.wrongs == ["r/0 is started on n, which was not wiped"]


def test_wiping_what_is_in_use_is_wrong() -> None:
    _, executor = room()
    executor.carry_out([claim("c", "n"), WipeNode("n", "c")])
    assert executor.wrongs == ["n is to be wiped after c while it is in use"]
