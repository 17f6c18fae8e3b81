"""The executor of a fork, which runs nothing and reports the results that the fork enters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from quorate.model import events as e
from quorate.ports.executor_port import LeaseGone, Order, Report, RunExited, WipeDone

Steps = Callable[[Collection[str]], Mapping[str, int]]
"""Returns the steps that runs report now; runs that report no steps are left out."""


class RecordedExecutor:
    """An executor that reports the exits, ended leases and wipes that the fork enters."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._exits: dict[str, RunExited] = {}
        self._gone: dict[str, None] = {}
        self._wiped: dict[str, WipeDone] = {}

    def exit(self, run: str, lease: str, code: int, note: str) -> None:
        """Report that the work of ``run`` has exited."""
        self._exits[run] = RunExited(run, lease, code, note)

    def go(self, lease: str) -> None:
        """Report that the last process under a stopping lease has ended."""
        self._gone[lease] = None

    def wipe(self, done: WipeDone) -> None:
        """Report that the wipe of a node has ended."""
        self._wiped[done.node] = done

    def forget(self, event: e.Event) -> None:
        """Drop the reports that the ledger has recorded."""
        if isinstance(event, e.LeaseEnded):
            self._gone.pop(event.lease, None)
            for run in [r for r, each in self._exits.items() if each.lease == event.lease]:
                del self._exits[run]
        elif isinstance(event, e.NodeWiped):
            self._wiped.pop(event.node, None)

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Ignore the orders, because the fork enters their results."""

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Ignore the open leases, because the fork knows them."""

    def reports(self) -> Sequence[Report]:
        """Return the ends of work, leases and wipes that the ledger has not recorded yet."""
        gone = (LeaseGone(lease) for lease in self._gone)
        return [*self._exits.values(), *gone, *self._wiped.values()]

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the steps that each of ``runs`` reports."""
        return self._steps(runs)
