"""The last seen status of each run in a cluster: whether it has exited, and whether it works.

The caller holds the executor's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.adapters.executors.lease_book import Book
from quorate.keeper.wanted import Status
from quorate.ports.executor_port import Readiness, Report, RunExited, RunUnstarted


@dataclass(frozen=True, slots=True)
class Seen:
    """The status of a run; ``unstarted`` is why the run cannot be started, or empty."""

    status: Status
    ready: Readiness
    unstarted: str = ""


@dataclass(frozen=True, slots=True)
class RunStatuses:
    """The runs with open leases or pods, by name."""

    _status: dict[str, Status] = field(default_factory=dict)
    _exited_ms: dict[str, int] = field(default_factory=dict)
    _unstarted: dict[str, str] = field(default_factory=dict)
    _readiness: dict[str, Readiness] = field(default_factory=dict)

    def is_news(self, run: str, status: Status) -> bool:
        """Return whether ``status`` differs from the stored status."""
        return self._status.get(run, Status()) != status

    def keep(self, run: str, seen: Seen, seen_ms: int) -> bool:
        """Store the status of a run, seen at ``seen_ms``; return whether the status changed."""
        status, ready = seen.status, seen.ready
        is_news = self.is_news(run, status) or self._readiness.get(run) != ready
        is_news |= self._unstarted.get(run, "") != seen.unstarted
        self._status[run], self._readiness[run] = status, ready
        if seen.unstarted:
            self._unstarted[run] = seen.unstarted
        else:
            self._unstarted.pop(run, None)
        if status.exited is None:
            self._exited_ms.pop(run, None)
        else:
            self._exited_ms.setdefault(run, seen_ms)
        return is_news

    def forget(self, run: str) -> None:
        """Forget a run that has ended."""
        for kept in (self._status, self._exited_ms, self._unstarted, self._readiness):
            kept.pop(run, None)

    def reports(self, book: Book) -> Sequence[Report]:
        """Return the exits, oldest first, then the runs that cannot start, then the ended leases.

        A lease has ended when no pod works under it any longer.
        """
        exited = sorted(self._exited_ms, key=lambda run: self._exited_ms[run])
        found = book.reports(exited, self._status)
        unstarted = [
            RunUnstarted(run, lease, note)
            for run, note in self._unstarted.items()
            if run not in self._exited_ms and (lease := book.any_lease(run)) is not None
        ]
        exits = [each for each in found if isinstance(each, RunExited)]
        return [*exits, *unstarted, *found[len(exits) :]]

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return the readiness of each run in ``runs`` whose pods were seen."""
        return {run: self._readiness[run] for run in runs if run in self._readiness}
