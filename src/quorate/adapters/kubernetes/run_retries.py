"""When to handle a run again although nothing has changed, and which run a bug blocks.

If a cluster refuses an order, the executor repeats the order after a pause. The pause grows with
each refusal. A bug in the handling of one run does not block other runs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from quorate.ports.errors import ClusterError

_LOG = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""The first pause before a refused order is repeated; later pauses are longer."""
AGAIN_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class RunRetries:
    """The runs to handle again later. Only one thread changes them; others may read ``stuck``."""

    _late: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)
    _complaints: dict[str, str] = field(default_factory=dict)
    _bugs: dict[str, None] = field(default_factory=dict)

    @property
    def stuck(self) -> str:
        """A run that a bug blocks; empty if a bug blocks no run."""
        return next(iter(tuple(self._bugs)), "")

    def at(self, run: str, at_s: float) -> None:
        """Schedule a run for ``at_s`` of the monotonic clock, unless it is due earlier."""
        self._late[run] = min(at_s, self._late.get(run, at_s))

    def soon(self, runs: Iterable[str]) -> None:
        """Schedule ``runs`` after the first pause."""
        at_s = monotonic() + AGAIN_S
        self._late.update((run, at_s) for run in runs)

    def due(self) -> list[str]:
        """Return the runs that are due now."""
        now_s = monotonic()
        return [run for run, at_s in self._late.items() if at_s <= now_s]

    def wait_s(self) -> float | None:
        """Return how long until the next run is due; None if no run is scheduled."""
        if not self._late:
            return None
        return max(0.0, min(self._late.values()) - monotonic())

    def begin(self, run: str) -> None:
        """Remove a run from the schedule, because it is being handled."""
        self._late.pop(run, None)

    def succeed(self, run: str) -> None:
        """Record that the steps of a run were taken."""
        for kept in (self._bugs, self._pauses, self._complaints):
            kept.pop(run, None)

    def fail(self, run: str, error: ClusterError) -> None:
        """Schedule a run after a pause, because the cluster refused an order."""
        pause_s = self._pauses.get(run, AGAIN_S)
        self._late[run] = monotonic() + pause_s
        self._pauses[run] = min(2 * pause_s, AGAIN_S_MAX)
        if self._complaints.get(run) != str(error):
            self._complaints[run] = str(error)
            _LOG.warning("run %s could not be handled; trying again: %s", run, error)

    def fail_by_bug(self, run: str) -> None:
        """Schedule a run after the longest pause; called when a bug was caught."""
        if run not in self._bugs:
            _LOG.exception("a bug keeps run %s from being handled; trying again", run)
        self._bugs[run] = None
        self._late[run] = monotonic() + AGAIN_S_MAX
