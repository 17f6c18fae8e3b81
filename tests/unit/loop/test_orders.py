"""Orders and reports: nodes after a claim or a failure, and work that ends by itself."""

from __future__ import annotations

import pytest

from quorate.core.commands import (
    Cancel,
    Command,
    Complete,
    Confirm,
    Drain,
    Fail,
    MarkNode,
    NotStarted,
    Release,
    Reported,
    Submit,
    Wiped,
)
from quorate.loop.orders import commands_of, orders_of, standing_orders
from quorate.model.amounts import HOUR_MS
from quorate.model.events import NodeStatus
from quorate.model.state.records import Phase
from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    RunExited,
    RunUnstarted,
    StartLease,
    StopLease,
    WipeDone,
    WipeNode,
)
from quorate.testing.builders import NOW_MS, budget, envelope, node, run
from tests.oracles.lives import Life

CLEAN = WipeDone("n0", "c", is_clean=True)


def left() -> Life:
    """Return a node whose claim has ended."""
    life = Life(
        nodes=[node("n0")],
        budgets=[budget("lab", "lab", envelope("e", 64))],
        has_executor=True,
    )
    life.do(Submit(run("c", 8, "lab", sensitive=True, expected_duration_ms=HOUR_MS)))
    life.do(Release("c"))
    return life


def test_a_node_is_to_be_wiped_when_the_last_lease_of_its_claim_has_ended() -> None:
    life = left()
    assert not any(isinstance(order, WipeNode) for order in standing_orders(life.state))
    decision = life.do(Confirm("c/0"))
    assert [type(order) for order in orders_of(life.state, decision.events)] == [
        EndLease,
        WipeNode,
    ]
    assert standing_orders(life.state) == [WipeNode("n0", "c")]


def test_commits_that_are_nobodys_orders_say_nothing() -> None:
    life = left()
    life.do(Confirm("c/0"))
    assert orders_of(life.state, []) == []


def test_a_quarantined_node_is_left_to_people() -> None:
    life = left()
    life.do(Confirm("c/0"))
    life.do(Wiped("n0", is_clean=False))
    assert standing_orders(life.state) == []
    assert list(commands_of(life.state, [CLEAN])) == []


def test_a_wipe_is_taken_from_whoever_was_told() -> None:
    life = left()
    life.do(Confirm("c/0"))
    assert list(commands_of(life.state, [CLEAN])) == [Wiped("n0", is_clean=True, claim="c")]
    late = WipeDone("n0", "b", is_clean=True)
    assert list(commands_of(life.state, [late])) == []
    life.do(Wiped("n0", is_clean=True, claim="c"))
    assert list(commands_of(life.state, [CLEAN])) == []


def test_work_that_ends_under_a_claim_ends_nothing() -> None:
    life = Life(nodes=[node("n0")], budgets=[budget("lab", "lab", envelope("e", 64))])
    life.do(Submit(run("c", 8, "lab", sensitive=True, expected_duration_ms=HOUR_MS)))
    assert isinstance(standing_orders(life.state)[0], StartLease)
    assert list(commands_of(life.state, [RunExited("c", "c/0", 0)])) == []


# --- Work that ends, and nodes that fail ---

LATER_MS = NOW_MS + HOUR_MS
DONE = RunExited("r", "r/0", 0)
BROKEN = RunExited("r", "r/0", 3, "rank 0 on n0 exited with code 3")
GONE = LeaseGone("r/0")


def working() -> Life:
    """Return a run that works on two nodes."""
    life = Life(
        nodes=[node("n0"), node("n1")],
        budgets=[budget("lab", "lab", envelope("e", 64))],
        has_executor=True,
    )
    life.do(Submit(run("r", 16, "lab", group_gpus=16)))
    return life


def test_an_exit_ends_its_run_once() -> None:
    life = working()
    assert list(commands_of(life.state, [DONE])) == [Complete("r", has_gone=True)]
    (failed,) = commands_of(life.state, [BROKEN])
    assert failed == Fail("r", BROKEN.note, has_gone=True)
    life.do(failed, LATER_MS)
    assert life.phase("r") is Phase.FAILED
    assert list(commands_of(life.state, [BROKEN, GONE])) == []


def test_work_that_is_done_while_it_is_drained_has_completed() -> None:
    life = working()
    life.do(Drain("n0"), LATER_MS)
    commands = list(commands_of(life.state, [DONE, GONE]))
    assert commands == [Reported((Complete("r", has_gone=True), Confirm("r/0")))]
    for command in commands:
        life.do(command, LATER_MS + 1)
    assert life.phase("r") is Phase.COMPLETED
    assert not life.state.leases


@pytest.mark.parametrize(
    ("told", "phase"),
    [
        (Cancel("r"), Phase.CANCELLED),
        (Complete("r"), Phase.COMPLETED),
        (Fail("r", "by hand"), Phase.FAILED),
    ],
)
@pytest.mark.parametrize("report", [DONE, BROKEN])
def test_what_somebody_has_ended_stays_that_however_its_work_ends(
    told: Command, phase: Phase, report: RunExited
) -> None:
    life = working()
    life.do(told, LATER_MS)
    assert list(commands_of(life.state, [report])) == []
    (confirm,) = commands_of(life.state, [report, GONE])
    life.do(confirm, LATER_MS + 1)
    assert life.phase("r") is phase


def test_a_failed_node_is_named_until_it_is_back() -> None:
    life = working()
    decision = life.do(MarkNode("n1", NodeStatus.FAILED), LATER_MS)
    orders = orders_of(life.state, decision.events)
    assert orders[0] == FenceNode("n1")
    assert [type(order) for order in orders[1:]] == [StopLease]
    assert [type(order) for order in standing_orders(life.state)] == [
        StartLease,
        StopLease,
        FenceNode,
    ]
    life.do(Confirm("r/0"), LATER_MS + 1)
    assert standing_orders(life.state)[-1] == FenceNode("n1"), "its work may be there still"
    back = life.do(MarkNode("n1", NodeStatus.READY), LATER_MS + 2)
    assert FenceNode("n1") not in standing_orders(life.state)
    assert not any(isinstance(each, FenceNode) for each in orders_of(life.state, back.events))


def test_a_run_that_cannot_be_started_is_reported_once_and_only_while_its_lease_goes_on() -> None:
    life = Life(
        nodes=[node("n0")], budgets=[budget("lab", "lab", envelope("e", 64))], has_executor=True
    )
    life.do(Submit(run("r", 8, "lab", expected_duration_ms=HOUR_MS)))
    report = RunUnstarted("r", "r/0", "exceeded quota")
    (command,) = commands_of(life.state, [report])
    assert command == NotStarted("r", "exceeded quota")
    life.do(command)
    assert list(commands_of(life.state, [report])) == []
    assert list(commands_of(life.state, [report, LeaseGone("r/0")])) == [Confirm("r/0")]
    life.do(Confirm("r/0"))
    assert list(commands_of(life.state, [report])) == []
