"""The executor of a fork: what it reports is put in by the fork, from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from quorate.model import events as e
from quorate.ports.executor_port import LeaseGone, Order, Report, RunExited, WipeDone

Steps = Callable[[Collection[str]], Mapping[str, int]]
"""How many steps runs tell of now; a run that tells of none is left out."""


class RecordedExecutor:
    """An executor whose reports are put in: work exits, stopped leases go, nodes are wiped."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._exits: dict[str, RunExited] = {}
        self._gone: dict[str, None] = {}
        self._wiped: dict[str, WipeDone] = {}

    def exit(self, run: str, lease: str, code: int, note: str) -> None:
        """Let the work of ``run`` exit."""
        self._exits[run] = RunExited(run, lease, code, note)

    def go(self, lease: str) -> None:
        """Let the last process under a stopping lease exit."""
        self._gone[lease] = None

    def wipe(self, done: WipeDone) -> None:
        """Let the wiping of a node end."""
        self._wiped[done.node] = done

    def forget(self, event: e.Event) -> None:
        """Stop reporting what the ledger has."""
        if isinstance(event, e.LeaseEnded):
            self._gone.pop(event.lease, None)
            for run in [r for r, each in self._exits.items() if each.lease == event.lease]:
                del self._exits[run]
        elif isinstance(event, e.NodeWiped):
            self._wiped.pop(event.node, None)

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Take the orders: their results come from the fork."""

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Take every open lease again: the fork knows them."""

    def reports(self) -> Sequence[Report]:
        """Return what has come to an end and is not in the ledger yet."""
        gone = (LeaseGone(lease) for lease in self._gone)
        return [*self._exits.values(), *gone, *self._wiped.values()]

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return how many steps each of ``runs`` tells of."""
        return self._steps(runs)
