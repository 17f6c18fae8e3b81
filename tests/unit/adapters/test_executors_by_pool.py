"""Orders go to the executor of their pool, and the reports of all executors are joined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.adapters.executors.executors_by_pool import OWN, ExecutorsByPool, NoExecutor
from quorate.model.events import EndReason
from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    Order,
    Readiness,
    Report,
    RunExited,
    StartLease,
    StopLease,
)
from quorate.testing.builders import run
from quorate.testing.lease_orders import lease_started


@dataclass(slots=True)
class Listening:
    """An executor that keeps its orders and returns a test's reports."""

    trouble: str = ""
    outages: Mapping[str, str] = field(default_factory=dict)
    due_ms: int | None = None
    said: list[Report] = field(default_factory=list)
    heard: list[Order] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    term: int = 0

    def belong_to(self, ledger_id: str) -> None:
        self.calls.append(ledger_id)

    def listen(self, wake: Callable[[], None]) -> None:
        self.calls.append(f"listen {bool(wake)}")

    def next_ms(self) -> int | None:
        return self.due_ms

    def close(self) -> None:
        self.calls.append("close")

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        self.heard += orders
        self.term = term

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        self.calls.append("resume" if is_whole else "resume in part")
        self.heard = list(orders)
        self.term = term

    def reports(self) -> Sequence[Report]:
        return self.said

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        return {each: 1 for each in runs if f"{each}/0" in {_lease(order) for order in self.heard}}

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        return {each: Readiness(is_ready=True, reason="Started") for each in self.steps(runs)}


def _lease(order: Order) -> str:
    return order.lease.lease if isinstance(order, StartLease) else ""


def start(name: str, executor: str) -> StartLease:
    fact = lease_started(f"{name}/0", {"n1": [0]})
    return StartLease(fact, run(name, 1), executor=executor)


def test_each_order_reaches_the_executor_of_its_lease_and_nodes_concern_all() -> None:
    local, west = Listening(), Listening()
    both = ExecutorsByPool({OWN: local, "local": local, "kubernetes/west": west})
    fence = FenceNode("n1")
    orders: list[Order] = [
        start("a", OWN),
        start("b", "kubernetes/west"),
        start("c", "local"),
        fence,
        StopLease("b/0", 5),
        EndLease("a/0", EndReason.END),
    ]
    both.carry_out(orders)
    assert local.heard == [orders[0], orders[2], fence, orders[5]]
    assert west.heard == [orders[1], fence, orders[4]]
    assert both.steps(["a", "b", "d"]) == {"a": 1, "b": 1}
    assert both.readiness(["a", "b", "d"]).keys() == {"a", "b"}


def test_after_a_restart_every_executor_is_told_what_is_open_though_it_has_nothing() -> None:
    local, west = Listening(), Listening()
    both = ExecutorsByPool({OWN: local, "kubernetes/west": west})
    both.belong_to("ledger")
    both.resume([start("a", OWN)])
    assert (local.calls, west.calls) == (["ledger", "resume"],) * 2
    assert west.heard == []
    both.close()
    assert local.calls[-1] == west.calls[-1] == "close"


def test_exits_of_all_come_before_leases_that_have_gone() -> None:
    gone, exited = LeaseGone("a/0"), RunExited("b", "b/0", 0)
    local, west = Listening(said=[gone], due_ms=7), Listening(said=[exited], due_ms=3)
    both = ExecutorsByPool({OWN: local, "kubernetes/west": west})
    assert list(both.reports()) == [exited, gone]
    assert both.next_ms() == 3


def test_a_lease_whose_executor_is_missing_is_left_alone_and_that_is_trouble() -> None:
    local = Listening()
    alone = ExecutorsByPool({OWN: local})
    alone.carry_out([start("a", "kubernetes/west"), StopLease("a/0", 5)])
    assert local.heard == []
    assert list(alone.reports()) == []
    assert "names the executor kubernetes/west" in alone.trouble
    alone.carry_out([EndLease("a/0", EndReason.FAIL)])
    assert alone.trouble == ""
    local.trouble = "the disk is full"
    assert alone.trouble == "the disk is full"


def test_a_cluster_that_is_away_is_an_outage_of_its_pools_and_no_trouble_of_the_service() -> None:
    local, west = Listening(), Listening(trouble="no answer")
    both = ExecutorsByPool({OWN: local, "local": local, "kubernetes/west": west})
    assert (both.trouble, dict(both.outages)) == ("", {"kubernetes/west": "no answer"})
    local.trouble, west.trouble = "the disk is full", ""
    assert (both.trouble, dict(both.outages)) == ("the disk is full", {})


def test_without_an_executor_of_its_own_a_pool_has_its_stops_confirmed_at_once() -> None:
    west = Listening()
    both = ExecutorsByPool({OWN: NoExecutor(), "kubernetes/west": west})
    both.carry_out([start("a", OWN), StopLease("a/0", 5)])
    assert list(both.reports()) == [LeaseGone("a/0")]
    assert both.next_ms() == 0
    both.carry_out([EndLease("a/0", EndReason.CANCELLED)])
    assert list(both.reports()) == []
    assert both.next_ms() is None
