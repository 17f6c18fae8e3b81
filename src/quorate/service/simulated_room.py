"""A simulated executor on the real clock: work takes its declared duration.

For experiments without GPUs. The progress of work is lost when the program ends; after a restart
work begins again under the same leases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import Run
from quorate.ports.clock_port import Clock
from quorate.ports.executor_port import Order, Readiness, Report
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor, StopDelay
from quorate.sim.simulation import Timeline, VirtualClock

WORK_MS_DEFAULT: Final = HOUR_MS
"""How long a run works if it declares no duration."""
STOP_MS: Final = 1_000
"""How long work takes to stop."""
WIPE_MS: Final = MINUTE_MS
"""How long it takes to wipe a node."""
_NOTICE_MS: Final = MINUTE_MS


def as_declared(run: Run) -> Truth:
    """Return work that takes its declared duration, and succeeds."""
    work_ms = WORK_MS_DEFAULT if run.expected_duration_ms is None else run.expected_duration_ms
    return Truth(work_ms=work_ms, checkpoint_every_ms=max(1, min(work_ms, HOUR_MS)))


def at_once(left_ms: int) -> int:
    """Return how long work goes on after the order to stop: ``STOP_MS``, or ``left_ms`` if less."""
    return min(left_ms, STOP_MS)


class SimulatedRoom:
    """An executor that runs on the time of ``clock``. For the ledger thread only.

    ``machines`` is the simulation, advanced to the time of the last call.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        truth_of: Callable[[Run], Truth] = as_declared,
        stop_delay: StopDelay = at_once,
    ) -> None:
        self._clock = clock
        self._reported: Sequence[Report] = []
        self._timeline = Timeline(VirtualClock(clock.now_ms()))
        self.machines = SimExecutor(
            self._timeline,
            truth_of=truth_of,
            stop_delay=stop_delay,
            notice_ms=_NOTICE_MS,
            wipe=lambda: (WIPE_MS, True),
        )

    @property
    def trouble(self) -> str:
        """Empty: a simulation does not fail."""
        return ""

    @property
    def outages(self) -> Mapping[str, str]:
        """Empty: a simulation does not fail."""
        return {}

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return an empty mapping: simulated work begins immediately."""
        del runs
        return {}

    def belong_to(self, ledger_id: str) -> None:
        """Accept any ledger: nothing that is simulated outlives the program."""

    def listen(self, wake: Callable[[], None]) -> None:
        """Do nothing: ``next_ms`` says when something happens."""

    def close(self) -> None:
        """Do nothing: the simulated work is forgotten together with this object."""

    def next_ms(self) -> int | None:
        """Return the time of the next simulated event; the present time if there are new reports.

        New reports exist if work has ended since reports were last read, for example during a
        commit.
        """
        if self.machines.reports() != self._reported:
            return self._timeline.now_ms
        return self._timeline.next_ms()

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Accept the orders of one commit."""
        self._catch_up()
        self.machines.carry_out(orders, term=term)

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Accept every open lease again, after a restart."""
        self._catch_up()
        self.machines.resume(orders, term=term, is_whole=is_whole)

    def reports(self) -> Sequence[Report]:
        """Return the ends of work that are not in the ledger yet, oldest first."""
        self._catch_up()
        self._reported = self.machines.reports()
        return self._reported

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step that each of ``runs`` has reported."""
        self._catch_up()
        return self.machines.steps(runs)

    def _catch_up(self) -> None:
        """Advance the simulation to the present time."""
        now_ms = max(self._clock.now_ms(), self._timeline.now_ms)
        while True:
            next_ms = self._timeline.next_ms()
            if next_ms is None or next_ms > now_ms:
                break
            self._timeline.take()()
        self._timeline.clock.true_ms = now_ms
