"""Several executors behind one port: the pool of a lease names the executor of the lease.

The service and the loop see one executor. ``ExecutorsByPool`` passes each order to the executor of
its lease, and joins the reports of all executors. A pool may name an executor that the service does
not have. Then no work is started for the pool's leases, and no stop of these leases is confirmed.
``trouble`` says what to configure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    Order,
    Readiness,
    Report,
    RunExited,
    RunUnstarted,
    ServedExecutor,
    StartLease,
    StopLease,
    WipeDone,
    WipeNode,
)

OWN: Final = ""
"""The key of the executor for pools that name no executor."""
_ORDER: Final[Mapping[type[Report], int]] = {
    each: number for number, each in enumerate((RunExited, RunUnstarted, LeaseGone, WipeDone))
}
"""The order in which reports are returned, by kind."""


class ExecutorsByPool:
    """Executors by the names that pools use for them: ``local``, ``kubernetes/CLUSTER``.

    One executor may have several names. ``OWN`` is always among them.
    """

    def __init__(self, executors: Mapping[str, ServedExecutor]) -> None:
        assert OWN in executors, executors
        self._named = dict(executors)
        self._all = list({id(each): each for each in executors.values()}.values())
        self._home: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """Why work cannot be started or stopped here; empty if it can."""
        missing = sorted({name for name in self._home.values() if name not in self._named})
        if missing:
            return (
                f"a pool with runs names the executor {missing[0]}, which this service does not "
                "have; configure it and start the service again"
            )
        return self._named[OWN].trouble

    @property
    def outages(self) -> Mapping[str, str]:
        """Why pools' work cannot be started or stopped, by the name of the pools' executor."""
        own = self._named[OWN]
        others = {name: each for name, each in self._named.items() if each is not own}
        return {name: each.trouble for name, each in sorted(others.items()) if each.trouble}

    def belong_to(self, ledger_id: str) -> None:
        """Reserve every executor for one ledger; raises ``WorkFolderError``."""
        for each in self._all:
            each.belong_to(ledger_id)

    def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` whenever an executor has something new to report."""
        for each in self._all:
            each.listen(wake)

    def next_ms(self) -> int | None:
        """Return the earliest time at which an executor asks to be called, or None."""
        return min((ms for each in self._all if (ms := each.next_ms()) is not None), default=None)

    def close(self) -> None:
        """Close all executors."""
        for each in self._all:
            each.close()

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Pass each order of one commit to its executor."""
        for executor, own in self._shared(orders):
            if own:
                executor.carry_out(own, term=term)

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Pass every open lease to its executor; an executor without leases gets an empty list."""
        if is_whole:
            self._home.clear()
        for executor, own in self._shared(orders):
            executor.resume(own, term=term, is_whole=is_whole)

    def reports(self) -> Sequence[Report]:
        """Return the exits of all executors, then their other reports, ordered by kind."""
        found = [report for each in self._all for report in each.reports()]
        return sorted(found, key=_kind_order)

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last reported step of each of ``runs`` that has reported a step."""
        found: dict[str, int] = {}
        for each in self._all:
            found.update(each.steps(runs))
        return found

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return the readiness of each run in ``runs`` that an executor knows."""
        found: dict[str, Readiness] = {}
        for each in self._all:
            found.update(each.readiness(runs))
        return found

    def _shared(self, orders: Sequence[Order]) -> list[tuple[ServedExecutor, list[Order]]]:
        """Return each executor with its orders, in their original sequence."""
        shares: dict[int, list[Order]] = {id(each): [] for each in self._all}
        for order in orders:
            for executor in self._executors_of(order):
                shares[id(executor)].append(order)
        return [(each, shares[id(each)]) for each in self._all]

    def _executors_of(self, order: Order) -> list[ServedExecutor]:
        """Return the executors of an order: all of them if it concerns a node."""
        if isinstance(order, FenceNode | WipeNode):
            return self._all
        if isinstance(order, StartLease):
            name = self._home[order.lease.lease] = order.executor
        elif isinstance(order, EndLease):
            name = self._home.pop(order.lease, OWN)
        else:
            name = self._home.get(order.lease, OWN)
        return [self._named[name]] if name in self._named else []


def _kind_order(report: Report) -> int:
    return _ORDER[type(report)]


@dataclass(slots=True)
class NoExecutor:
    """The executor of pools that name no executor, if other pools name one. It runs no work.

    A stopped lease ends immediately, as in a service without an executor.
    """

    trouble: str = ""
    outages: Mapping[str, str] = field(default_factory=dict)
    _stopping: dict[str, None] = field(default_factory=dict)

    def belong_to(self, ledger_id: str) -> None:
        """Do nothing: this executor stores nothing for a ledger."""

    def listen(self, wake: Callable[[], None]) -> None:
        """Do nothing: reports exist as soon as an order is accepted."""

    def next_ms(self) -> int | None:
        """Return 0 while there is something to report: this executor cannot wake the loop."""
        return 0 if self._stopping else None

    def close(self) -> None:
        """Do nothing."""

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Accept the orders of one commit.

        Their term does not matter, because this executor starts and ends no work.
        """
        del term
        for order in orders:
            if isinstance(order, StopLease):
                self._stopping[order.lease] = None
            elif isinstance(order, EndLease):
                self._stopping.pop(order.lease, None)

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Accept the open leases again."""
        if is_whole:
            self._stopping.clear()
        self.carry_out(orders, term=term)

    def reports(self) -> Sequence[Report]:
        """Return the leases that were ordered to stop."""
        return [LeaseGone(lease) for lease in self._stopping]

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return an empty mapping: no run works here."""
        del runs
        return {}

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return an empty mapping: no run works here."""
        del runs
        return {}
