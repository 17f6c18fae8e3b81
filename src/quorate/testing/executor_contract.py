"""The contract of ``ports/executor_port.py`` as tests: a test of a new executor subclasses it.

    class TestMyExecutor(ExecutorContract):
        def make_executor(self) -> ServedExecutor: ...
        def reopen(self, executor: ServedExecutor) -> ServedExecutor: ...
        def run_of(self, name: str, work: Work, *, lasts_ms: int) -> Run: ...
        def now_ms(self) -> int: ...
        def let_time_pass(self, until_ms: int | None) -> None: ...
        def is_at_work(self, run: str) -> bool: ...
        def starts_of(self, run: str) -> int: ...

Run with pytest. The adapter's own tests cover failures of its processes and machines.
"""

# ruff: noqa: D102 - a test's name states the one behaviour it checks

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replace_order
from enum import StrEnum

from msgspec.structs import replace

from quorate.model.events import EndReason, Role, StartReason
from quorate.model.specs import Run
from quorate.ports.errors import OldTermError, WorkFolderError
from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    Order,
    RunExited,
    ServedExecutor,
    StartLease,
    StopLease,
    WipeDone,
    WipeNode,
)
from quorate.testing.lease_orders import lease_started, start_lease

CODE_FAILED = 3
"""The exit code of work that fails."""
LASTS_MS = 200
"""The default duration of work that ends by itself."""
NOTICE_MS = 1_000
"""The default time that work has to stop."""
GRACE_MS = 2 * NOTICE_MS
LATE_MS = 6 * NOTICE_MS
"""The duration of work that must outlast other work, even if a busy machine delays that work."""
LONG_MS = 600_000
POLL_MS = 20
WAITS_MAX = 20_000
"""The largest number of times that a test lets time pass while it waits for one condition."""


def refuses(order: Callable[[], None]) -> bool:
    """Return whether an executor refuses ``order`` because of its term."""
    try:
        order()
    except OldTermError:
        return True
    return False


class Work(StrEnum):
    """The behaviour of a run's work in these tests."""

    ENDS = "ends"
    """The work exits with 0 after ``lasts_ms``."""
    FAILS = "fails"
    """The work exits with ``CODE_FAILED`` after ``lasts_ms``."""
    STAYS = "stays"
    """The work continues until it is stopped, and then exits."""
    DEFIES = "defies"
    """The work ignores stops, and continues until it is killed."""
    COUNTS = "counts"
    """The work reports steps, and continues until it is stopped."""


class ExecutorContract(ABC):
    """The contract of every executor."""

    outlives_service = True
    """Whether work continues when its service ends, so that the next service finds the work."""
    ledger = "contract"
    """The name of the ledger whose work the executors of a test run."""
    wipes_nodes = True
    """Whether the executor wipes nodes; otherwise an operator wipes them and records the wipe."""

    @abstractmethod
    def make_executor(self) -> ServedExecutor:
        """Return a new executor, on machines where nothing runs."""

    @abstractmethod
    def reopen(self, executor: ServedExecutor) -> ServedExecutor:
        """Close ``executor``, and return another executor on the same machines."""

    @abstractmethod
    def run_of(self, name: str, work: Work, *, lasts_ms: int) -> Run:
        """Return a run of one GPU whose work behaves as ``work``."""

    @abstractmethod
    def now_ms(self) -> int:
        """Return the present time of the clock in which deadlines are given."""

    @abstractmethod
    def let_time_pass(self, until_ms: int | None) -> None:
        """Return at ``until_ms`` at the latest, or earlier if the executor wakes its service."""

    @abstractmethod
    def is_at_work(self, run: str) -> bool:
        """Return whether the work of a run makes progress."""

    @abstractmethod
    def starts_of(self, run: str) -> int:
        """Return how often the work of a run was started since the test began."""

    # --- What a service does ---

    def opened(self, *orders: Order) -> ServedExecutor:
        """Return a new executor of a ledger whose open leases have the orders ``orders``."""
        executor = self.make_executor()
        executor.belong_to(self.ledger)
        executor.resume(orders)
        return executor

    def served_again(self, executor: ServedExecutor, *orders: Order) -> ServedExecutor:
        """Return the executor of a restarted service; open leases have the orders ``orders``."""
        again = self.reopen(executor)
        again.belong_to(self.ledger)
        again.resume(orders)
        return again

    def start(  # noqa: PLR0913 - what is started, where, and why
        self,
        lease: str,
        work: Work = Work.STAYS,
        *,
        slots: Mapping[str, Iterable[int]] | None = None,
        lasts_ms: int = LASTS_MS,
        role: Role = Role.ACTIVE,
        reason: StartReason = StartReason.START,
    ) -> StartLease:
        """Return the order to start ``lease``, whose name is ``RUN/NUMBER``."""
        run = self.run_of(lease.rpartition("/")[0], work, lasts_ms=lasts_ms)
        fact = lease_started(lease, slots or {"n1": [0]}, role=role, reason=reason)
        return start_lease(run, fact, grace_ms=GRACE_MS)

    def stop(self, lease: str, *, within_ms: int = LONG_MS) -> StopLease:
        """Return the order to stop ``lease`` within ``within_ms`` from now."""
        return StopLease(lease, self.now_ms() + within_ms)

    def until(self, executor: ServedExecutor, look: Callable[[], bool], what: str) -> None:
        """Let time pass until ``look()`` is true.

        Each wait ends at the executor's ``next_ms`` at the latest. After ``WAITS_MAX`` waits the
        test fails with the text ``what``.
        """
        for _ in range(WAITS_MAX):
            if look():
                return
            self.let_time_pass(executor.next_ms())
        raise AssertionError(f"{what}: {executor.reports()}")

    def poll(self, executor: ServedExecutor, look: Callable[[], bool], what: str) -> None:
        """Let time pass until ``look()`` is true, for conditions that an executor does not report.

        After ``WAITS_MAX`` waits the test fails with the text ``what``.
        """
        for _ in range(WAITS_MAX):
            if look():
                return
            self.let_time_pass(self.now_ms() + POLL_MS)
        raise AssertionError(f"{what}: {executor.reports()}")

    def until_at_work(self, executor: ServedExecutor, run: str) -> None:
        """Let time pass until the work of ``run`` makes progress."""
        self.poll(executor, lambda: self.is_at_work(run), f"{run} is at work")

    def until_idle(self, executor: ServedExecutor, run: str) -> None:
        """Let time pass until no process of the work of ``run`` is left."""
        self.poll(executor, lambda: not self.is_at_work(run), f"{run} has gone")

    def exit_of(self, executor: ServedExecutor, run: str) -> RunExited:
        """Let time pass until the exit of ``run`` is reported, and return it."""
        self.until(executor, lambda: run in _exits(executor), f"{run} exits")
        return _exits(executor)[run]

    def until_gone(self, executor: ServedExecutor, lease: str) -> None:
        """Let time pass until the end of ``lease`` is reported."""
        self.until(executor, lambda: LeaseGone(lease) in executor.reports(), f"{lease} goes")

    def until_refused(self, executor: ServedExecutor, order: Callable[[], None]) -> None:
        """Let time pass until ``order`` is refused because of its term."""
        self.poll(executor, lambda: refuses(order), "orders of an older term are refused")

    def rest(self, executor: ServedExecutor, for_ms: int) -> None:
        """Let ``for_ms`` pass, and read the reports whenever the executor wakes the service."""
        until_ms = self.now_ms() + for_ms
        while self.now_ms() < until_ms:
            executor.reports()
            asked_ms = executor.next_ms()
            self.let_time_pass(until_ms if asked_ms is None else min(until_ms, asked_ms))

    # --- Starts ---

    def test_an_executor_without_orders_has_nothing_to_report(self) -> None:
        executor = self.opened()
        assert list(executor.reports()) == []
        assert executor.trouble == ""
        executor.close()

    def test_work_that_ends_well_is_reported_with_its_lease_until_the_lease_has_ended(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.ENDS)])
        found = self.exit_of(executor, "r")
        assert (found.lease, found.code) == ("r/0", 0)
        assert list(executor.reports()) == list(executor.reports()) == [found]
        executor.carry_out([EndLease("r/0", EndReason.END)])
        assert list(executor.reports()) == []
        executor.close()

    def test_work_that_fails_is_reported_with_its_code(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.FAILS)])
        assert self.exit_of(executor, "r").code == CODE_FAILED
        executor.close()

    def test_a_start_that_is_heard_again_starts_nothing(self) -> None:
        executor = self.opened()
        order = self.start("r/0")
        executor.carry_out([order, order])
        self.until_at_work(executor, "r")
        executor.carry_out([order])
        self.rest(executor, NOTICE_MS)
        assert self.is_at_work("r")
        assert self.starts_of("r") == 1
        # An executor need not report that work has begun, but a report must be true.
        asked = ("r", "unknown")
        self.until(
            executor,
            lambda: all(each.is_ready for each in executor.readiness(asked).values()),
            "work that has begun is ready",
        )
        assert "unknown" not in executor.readiness(asked)
        executor.close()

    def test_a_lease_that_has_ended_is_not_started_again(self) -> None:
        executor = self.opened()
        order = self.start("r/0")
        executor.carry_out([order])
        self.until_at_work(executor, "r")
        executor.carry_out([self.stop("r/0")])
        self.until_gone(executor, "r/0")
        executor.carry_out([EndLease("r/0", EndReason.CANCELLED)])
        executor.carry_out([order])
        self.rest(executor, NOTICE_MS)
        assert not self.is_at_work("r")
        assert self.starts_of("r") == 1
        assert list(executor.reports()) == []
        executor.close()

    def test_one_run_under_two_leases_exits_once_and_under_one_that_it_worked_under(self) -> None:
        executor = self.opened()
        spare = self.start("r/0", Work.ENDS, slots={"n2": [0]}, role=Role.SPARE)
        first = self.start("r/1", Work.ENDS)
        second = self.start("r/2", Work.ENDS, slots={"n3": [0]})
        executor.carry_out([spare, first, second])
        found = self.exit_of(executor, "r")
        assert found.lease in {"r/1", "r/2"}
        assert list(executor.reports()) == [found]
        executor.close()

    def test_a_spare_has_no_work_and_goes_as_soon_as_it_is_told(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", role=Role.SPARE)])
        self.rest(executor, NOTICE_MS)
        assert not self.is_at_work("r")
        assert list(executor.reports()) == []
        executor.carry_out([self.stop("r/0", within_ms=LONG_MS)])
        told_ms = self.now_ms()
        self.until_gone(executor, "r/0")
        assert self.now_ms() < told_ms + LONG_MS
        executor.close()

    def test_of_two_that_share_each_exits_by_itself_and_the_lease_goes_with_the_last(self) -> None:
        executor = self.opened()
        order = self.start("one/0", Work.ENDS)
        fact = replace(order.lease, partner="two")
        other = self.run_of("two", Work.STAYS, lasts_ms=LASTS_MS)
        executor.carry_out([replace_order(order, lease=fact, partner=other)])
        found = self.exit_of(executor, "one")
        assert (found.lease, found.code) == ("one/0", 0)
        self.until_at_work(executor, "two")
        assert LeaseGone("one/0") not in executor.reports()
        executor.carry_out([self.stop("one/0")])
        self.until_gone(executor, "one/0")
        assert not self.is_at_work("two")
        executor.carry_out([EndLease("one/0", EndReason.ROUND_END)])
        assert list(executor.reports()) == []
        executor.close()

    # --- Stops ---

    def test_work_that_is_told_to_stop_goes_and_that_is_reported_until_its_lease_has_ended(
        self,
    ) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0")])
        self.until_at_work(executor, "r")
        executor.carry_out([self.stop("r/0")])
        self.until_gone(executor, "r/0")
        assert not self.is_at_work("r")
        assert list(executor.reports()) == list(executor.reports()) == [LeaseGone("r/0")]
        executor.carry_out([EndLease("r/0", EndReason.CANCELLED)])
        assert list(executor.reports()) == []
        executor.close()

    def test_work_that_defies_a_stop_has_all_of_its_time_and_no_more(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.DEFIES)])
        self.until_at_work(executor, "r")
        order = self.stop("r/0", within_ms=NOTICE_MS)
        executor.carry_out([order])
        self.until_gone(executor, "r/0")
        assert self.now_ms() >= order.deadline_ms
        assert not self.is_at_work("r")
        executor.close()

    def test_a_stop_that_is_heard_again_gives_no_more_time(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.DEFIES)])
        self.until_at_work(executor, "r")
        first, later = self.stop("r/0", within_ms=NOTICE_MS), self.stop("r/0", within_ms=LONG_MS)
        executor.carry_out([first])
        executor.carry_out([first, later])
        self.until_gone(executor, "r/0")
        assert first.deadline_ms <= self.now_ms() < later.deadline_ms
        executor.close()

    def test_a_stop_that_is_brought_forward_ends_work_by_its_new_deadline(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.DEFIES)])
        self.until_at_work(executor, "r")
        first, sooner = self.stop("r/0"), self.stop("r/0", within_ms=NOTICE_MS)
        executor.carry_out([first])
        executor.carry_out([sooner, first])
        self.until_gone(executor, "r/0")
        assert sooner.deadline_ms <= self.now_ms() < first.deadline_ms
        executor.close()

    def test_orders_for_a_lease_that_is_not_open_change_nothing(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0")])
        self.until_at_work(executor, "r")
        executor.carry_out([self.stop("r/7"), EndLease("s/0", EndReason.FAIL), FenceNode("n9")])
        assert list(executor.reports()) == []
        assert self.is_at_work("r")
        executor.close()

    def test_the_orders_of_one_commit_are_taken_in_their_order(self) -> None:
        executor = self.opened()
        end = EndLease("r/0", EndReason.CANCELLED)
        executor.carry_out([self.start("r/0"), self.stop("r/0"), end])
        executor.carry_out([self.start("s/0"), self.stop("s/0")])
        self.until_gone(executor, "s/0")
        assert list(executor.reports()) == [LeaseGone("s/0")]
        assert not self.is_at_work("r")
        assert not self.is_at_work("s")
        executor.close()

    def test_a_run_goes_on_under_the_leases_that_were_not_stopped(self) -> None:
        executor = self.opened()
        extra = self.start("r/1", slots={"n2": [0]})
        step = replace_order(extra, lease=replace(extra.lease, bundle=1))
        executor.carry_out([self.start("r/0"), step])
        self.until_at_work(executor, "r")
        executor.carry_out([self.stop("r/1")])
        self.until_gone(executor, "r/1")
        executor.carry_out([EndLease("r/1", EndReason.SHRINK)])
        self.until_at_work(executor, "r")
        assert list(executor.reports()) == []
        executor.close()

    # --- Ends ---

    def test_nothing_is_left_of_a_lease_that_has_ended(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.DEFIES)])
        self.until_at_work(executor, "r")
        executor.carry_out([EndLease("r/0", EndReason.FAIL)])
        self.until_idle(executor, "r")
        assert list(executor.reports()) == []
        executor.close()

    def test_work_does_not_notice_that_its_slots_are_handed_over(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.ENDS, lasts_ms=2 * NOTICE_MS)])
        self.until_at_work(executor, "r")
        after = self.start("r/1", Work.ENDS, lasts_ms=2 * NOTICE_MS, reason=StartReason.HANDOVER)
        executor.carry_out([EndLease("r/0", EndReason.HANDOVER), after])
        self.poll(
            executor,
            lambda: self.is_at_work("r") or "r" in _exits(executor),
            "r works on, or has ended by itself",
        )
        assert self.exit_of(executor, "r").lease == "r/1"
        assert self.starts_of("r") == 1
        executor.close()

    def test_no_report_names_a_life_of_a_run_that_is_over(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.FAILS)])
        self.exit_of(executor, "r")
        executor.carry_out([EndLease("r/0", EndReason.FAIL)])
        executor.carry_out([self.start("r/1", Work.FAILS)])
        assert list(executor.reports()) == []
        assert self.exit_of(executor, "r").lease == "r/1"
        executor.close()

    def test_exits_are_reported_before_leases_that_have_gone_and_oldest_first(self) -> None:
        executor = self.opened()
        slots = [{"n1": [gpu]} for gpu in range(3)]
        executor.carry_out(
            [
                self.start("late/0", Work.ENDS, slots=slots[0], lasts_ms=LATE_MS),
                self.start("stopped/0", slots=slots[1]),
                self.start("early/0", Work.ENDS, slots=slots[2]),
            ]
        )
        self.until_at_work(executor, "stopped")
        executor.carry_out([self.stop("stopped/0")])
        self.until_gone(executor, "stopped/0")
        self.exit_of(executor, "early")
        self.exit_of(executor, "late")
        self.rest(executor, NOTICE_MS)
        first, second, third = executor.reports()
        assert isinstance(first, RunExited)
        assert isinstance(second, RunExited)
        assert [first.run, second.run] == ["early", "late"]
        assert third == LeaseGone("stopped/0")
        executor.close()

    # --- Lost work ---

    def test_what_runs_on_a_node_that_failed_ends_at_once(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.DEFIES)])
        self.until_at_work(executor, "r")
        fenced_ms = self.now_ms()
        executor.carry_out([FenceNode("n1")])
        self.until_idle(executor, "r")
        assert self.now_ms() < fenced_ms + LONG_MS
        executor.close()

    def test_a_lease_on_a_node_that_failed_has_gone_when_it_is_told_to_stop(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0", Work.DEFIES)])
        self.until_at_work(executor, "r")
        order = self.stop("r/0")
        executor.carry_out([FenceNode("n1"), order])
        self.until_gone(executor, "r/0")
        assert self.now_ms() < order.deadline_ms
        executor.close()

    def test_work_that_comes_after_a_node_failed_is_not_ended_with_what_ran_there(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0")])
        self.until_at_work(executor, "r")
        executor.carry_out([FenceNode("n1"), EndLease("r/0", EndReason.FAIL)])
        executor.carry_out([self.start("s/0"), self.start("r/1", slots={"n2": [0]})])
        self.until_at_work(executor, "s")
        self.until_at_work(executor, "r")
        assert list(executor.reports()) == []
        executor.close()

    # --- Wipes ---

    def test_a_node_is_wiped_once_and_that_is_reported_until_it_has_work_again(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("c/0", role=Role.CLAIM)])
        self.until_at_work(executor, "c")
        executor.carry_out([self.stop("c/0")])
        self.until_gone(executor, "c/0")
        wipe = WipeNode("n1", "c")
        executor.carry_out([EndLease("c/0", EndReason.END), wipe])
        executor.carry_out([wipe])
        if not self.wipes_nodes:
            self.rest(executor, NOTICE_MS)
            assert list(executor.reports()) == []
            executor.close()
            return
        done = WipeDone("n1", "c", is_clean=True)
        self.until(executor, lambda: done in executor.reports(), "the node is wiped")
        executor.carry_out([wipe])
        assert list(executor.reports()) == [done]
        executor.carry_out([self.start("r/0")])
        assert list(executor.reports()) == []
        executor.close()

    # --- Steps ---

    def test_steps_are_those_that_a_run_has_reported(self) -> None:
        executor = self.opened()
        executor.carry_out(
            [self.start("r/0", Work.COUNTS), self.start("quiet/0", slots={"n2": [0]})]
        )
        asked = ("r", "quiet", "unknown")
        self.poll(executor, lambda: executor.steps(asked).get("r", 0) > 0, "r reports a step")
        assert set(executor.steps(asked)) == {"r"}
        assert not executor.steps(())
        executor.close()

    # --- Restarts ---

    def test_open_leases_are_worked_under_after_a_restart(self) -> None:
        order = self.start("r/0")
        executor = self.opened(order)
        self.until_at_work(executor, "r")
        again = self.served_again(executor, order)
        self.until_at_work(again, "r")
        assert list(again.reports()) == []
        assert self.starts_of("r") == (1 if self.outlives_service else 2)
        again.close()

    def test_work_that_ends_while_no_service_runs_is_reported_by_the_next_one(self) -> None:
        order = self.start("r/0", Work.ENDS, lasts_ms=NOTICE_MS)
        executor = self.opened(order)
        # The work may end before the test examines it.
        self.poll(executor, lambda: self.starts_of("r") == 1, "r has begun")
        again = self.reopen(executor)
        if self.outlives_service:
            self.until_idle(again, "r")
        again.belong_to(self.ledger)
        again.resume([order])
        assert self.exit_of(again, "r").lease == "r/0"
        again.close()

    def test_a_lease_that_was_committed_and_not_ordered_is_started_by_the_next_service(
        self,
    ) -> None:
        again = self.served_again(self.opened(), self.start("r/0"))
        self.until_at_work(again, "r")
        again.close()

    def test_work_whose_lease_is_not_open_any_more_goes_after_a_restart(self) -> None:
        stays, goes = self.start("s/0", slots={"n2": [0]}), self.start("r/0", Work.DEFIES)
        executor = self.opened(stays, goes)
        self.until_at_work(executor, "r")
        self.until_at_work(executor, "s")
        again = self.served_again(executor, stays)
        self.until_idle(again, "r")
        self.until_at_work(again, "s")
        assert list(again.reports()) == []
        again.close()

    def test_a_stop_goes_on_after_a_restart(self) -> None:
        order = self.start("r/0", Work.DEFIES)
        executor = self.opened(order)
        self.until_at_work(executor, "r")
        stop = self.stop("r/0", within_ms=2 * NOTICE_MS)
        executor.carry_out([stop])
        again = self.served_again(executor, order, stop)
        self.until_gone(again, "r/0")
        assert self.now_ms() >= stop.deadline_ms
        assert not self.is_at_work("r")
        again.close()

    def test_an_exit_that_no_ledger_has_is_reported_after_a_restart(self) -> None:
        order = self.start("r/0", Work.ENDS)
        executor = self.opened(order)
        self.exit_of(executor, "r")
        again = self.served_again(executor, order)
        assert self.exit_of(again, "r").lease == "r/0"
        again.close()

    def test_taking_every_open_lease_anew_twice_changes_nothing(self) -> None:
        order = self.start("r/0")
        executor = self.opened(order)
        self.until_at_work(executor, "r")
        executor.resume([order])
        executor.resume([order])
        self.rest(executor, NOTICE_MS)
        assert self.is_at_work("r")
        assert self.starts_of("r") == 1
        assert list(executor.reports()) == []
        executor.close()

    def test_resume_names_a_lease_anew_that_a_restored_ledger_has_open(self) -> None:
        order = self.start("r/0")
        executor = self.opened(order)
        self.until_at_work(executor, "r")
        executor.carry_out([self.stop("r/0")])
        self.until_gone(executor, "r/0")
        executor.carry_out([EndLease("r/0", EndReason.CANCELLED)])
        again = self.served_again(executor, order)
        self.until_at_work(again, "r")
        again.close()

    # --- Terms ---

    def test_orders_of_an_older_term_are_refused_and_start_nothing(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0")], term=2)
        self.until_at_work(executor, "r")
        assert refuses(lambda: executor.carry_out([self.start("s/0", slots={"n2": [0]})], term=1))
        assert refuses(lambda: executor.carry_out([self.stop("r/0", within_ms=0)], term=1))
        assert refuses(lambda: executor.resume([], term=1))
        self.rest(executor, NOTICE_MS)
        assert self.is_at_work("r")
        assert self.starts_of("s") == 0
        executor.carry_out([self.start("s/0", slots={"n2": [0]})], term=2)
        self.until_at_work(executor, "s")
        executor.close()

    def test_a_lease_is_started_once_whatever_term_its_orders_have(self) -> None:
        order = self.start("r/0")
        executor = self.opened()
        executor.carry_out([order], term=1)
        self.until_at_work(executor, "r")
        executor.resume([order], term=2, is_whole=False)
        executor.resume([order], term=2)
        executor.carry_out([order], term=3)
        self.rest(executor, NOTICE_MS)
        assert self.is_at_work("r")
        assert self.starts_of("r") == 1
        executor.close()

    def test_the_newest_term_is_known_after_a_restart(self) -> None:
        executor = self.opened()
        executor.carry_out([self.start("r/0")], term=4)
        self.until_at_work(executor, "r")
        if not self.outlives_service:
            return
        again = self.reopen(executor)
        again.belong_to(self.ledger)
        self.until_refused(again, lambda: again.resume([], term=3))
        self.rest(again, NOTICE_MS)
        assert self.is_at_work("r")
        again.close()
        last = self.reopen(again)
        last.belong_to(self.ledger)
        last.resume([self.start("r/0")], term=5)
        self.until_at_work(last, "r")
        assert self.starts_of("r") == 1
        last.close()

    def test_work_of_unknown_leases_goes_on_until_all_leases_are_known(self) -> None:
        known, later = self.start("s/0", slots={"n2": [0]}), self.start("r/0")
        executor = self.opened(known, later)
        self.until_at_work(executor, "r")
        self.until_at_work(executor, "s")
        executor.resume([known], term=1, is_whole=False)
        self.rest(executor, NOTICE_MS)
        assert self.is_at_work("r")
        executor.resume([known, later], term=1)
        self.rest(executor, NOTICE_MS)
        assert (self.starts_of("r"), self.starts_of("s")) == (1, 1)
        assert self.is_at_work("r")
        executor.resume([known], term=1, is_whole=False)
        executor.resume([known], term=1)
        self.until_idle(executor, "r")
        self.until_at_work(executor, "s")
        executor.close()

    # --- Belonging and closing ---

    def test_one_ledger_may_come_back_and_another_may_not_take_its_work(self) -> None:
        executor = self.opened(self.start("r/0"))
        again = self.reopen(executor)
        again.belong_to(self.ledger)
        again.close()
        if self.outlives_service:
            other = self.reopen(again)
            assert _refuses(other, "another")
            other.close()

    def test_what_was_ordered_last_is_done_when_the_executor_is_closed(self) -> None:
        executor = self.opened(self.start("r/0", Work.DEFIES))
        self.until_at_work(executor, "r")
        executor.carry_out([self.stop("r/0", within_ms=NOTICE_MS)])
        executor.close()
        executor.close()
        if self.outlives_service:
            self.until_idle(executor, "r")


def _exits(executor: ServedExecutor) -> dict[str, RunExited]:
    return {each.run: each for each in executor.reports() if isinstance(each, RunExited)}


def _refuses(executor: ServedExecutor, ledger_id: str) -> bool:
    try:
        executor.belong_to(ledger_id)
    except WorkFolderError:
        return True
    return False
