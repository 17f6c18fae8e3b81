"""When a run is looked at again though nothing has changed, and what has kept it from its steps.

A cluster that does not take an order is asked again after a pause, which is longer each time. A bug
that one run has met keeps no other run from its steps.
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
"""How long until an order is given again that the cluster did not take; longer each time."""
AGAIN_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class RunRetries:
    """The runs that are looked at again later, on one thread; other threads read ``stuck`` only."""

    _late: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)
    _complaints: dict[str, str] = field(default_factory=dict)
    _bugs: dict[str, None] = field(default_factory=dict)

    @property
    def stuck(self) -> str:
        """A run that a bug keeps from its steps; empty where there is none."""
        return next(iter(tuple(self._bugs)), "")

    def at(self, run: str, at_s: float) -> None:
        """Have a run looked at again at ``at_s`` of the monotonic clock, or earlier."""
        self._late[run] = min(at_s, self._late.get(run, at_s))

    def soon(self, runs: Iterable[str]) -> None:
        """Have ``runs`` looked at again after the first pause."""
        at_s = monotonic() + AGAIN_S
        self._late.update((run, at_s) for run in runs)

    def due(self) -> list[str]:
        """Return the runs that are to be looked at now."""
        now_s = monotonic()
        return [run for run, at_s in self._late.items() if at_s <= now_s]

    def wait_s(self) -> float | None:
        """Return how long until the first of them is due; None where there is none."""
        if not self._late:
            return None
        return max(0.0, min(self._late.values()) - monotonic())

    def begin(self, run: str) -> None:
        """Take it that a run is being looked at."""
        self._late.pop(run, None)

    def succeed(self, run: str) -> None:
        """Take it that the steps of a run were taken."""
        for kept in (self._bugs, self._pauses, self._complaints):
            kept.pop(run, None)

    def fail(self, run: str, error: ClusterError) -> None:
        """Have a run looked at again after a pause: the cluster did not take an order of it."""
        pause_s = self._pauses.get(run, AGAIN_S)
        self._late[run] = monotonic() + pause_s
        self._pauses[run] = min(2 * pause_s, AGAIN_S_MAX)
        if self._complaints.get(run) != str(error):
            self._complaints[run] = str(error)
            _LOG.warning("run %s cannot be seen to, and is tried again: %s", run, error)

    def fail_by_bug(self, run: str) -> None:
        """Have a run looked at again after the longest pause; called where a bug was caught."""
        if run not in self._bugs:
            _LOG.exception("a bug keeps run %s from being seen to; it is tried again", run)
        self._bugs[run] = None
        self._late[run] = monotonic() + AGAIN_S_MAX
