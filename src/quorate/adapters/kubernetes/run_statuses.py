"""What was last seen of the runs in a cluster: whether they have exited, and whether they work.

Their executor's lock guards it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.adapters.executors.lease_book import Book
from quorate.keeper.wanted import Status
from quorate.ports.executor_port import Readiness, Report


@dataclass(frozen=True, slots=True)
class RunStatuses:
    """The runs with open leases or pods, by name."""

    _status: dict[str, Status] = field(default_factory=dict)
    _exited_ms: dict[str, int] = field(default_factory=dict)
    _readiness: dict[str, Readiness] = field(default_factory=dict)

    def is_news(self, run: str, status: Status) -> bool:
        """Return whether ``status`` is another one than was kept of a run."""
        return self._status.get(run, Status()) != status

    def keep(self, run: str, status: Status, ready: Readiness, seen_ms: int) -> bool:
        """Keep what was seen of a run at ``seen_ms``; return whether it is new."""
        is_news = self.is_news(run, status) or self._readiness.get(run) != ready
        self._status[run], self._readiness[run] = status, ready
        if status.exited is None:
            self._exited_ms.pop(run, None)
        else:
            self._exited_ms.setdefault(run, seen_ms)
        return is_news

    def forget(self, run: str) -> None:
        """Forget a run that is over."""
        for kept in (self._status, self._exited_ms, self._readiness):
            kept.pop(run, None)

    def reports(self, book: Book) -> Sequence[Report]:
        """Return the exits, oldest first, then the leases under which no pod works any more."""
        exited = sorted(self._exited_ms, key=lambda run: self._exited_ms[run])
        return book.reports(exited, self._status)

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return whether the pods of those of ``runs`` work of which it was seen."""
        return {run: self._readiness[run] for run in runs if run in self._readiness}
