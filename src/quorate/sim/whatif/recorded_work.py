"""How long the work of each run takes, learnt from a ledger, and the executor that plays it.

Work is GPU time under the leases of a run, spares left out. A run that ended has done what it had;
one that had not ended has at least a bit more to do, or what it declared. A stop takes as long as
it took, or as long as stops took in the middle of all, where it is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.model import events as e
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Run
from quorate.ports.executor_port import LeaseGone, Order, Report, RunExited

LATER: Final = 1 << 60
"""The place of what was not recorded at its instant: after everything that was."""
UNSTATED_MS: Final = HOUR_MS
"""How long a run is taken to last that never started and declared nothing."""


@dataclass(slots=True)
class Effort:
    """The work of one run: its ended leases, its running ones, and what is left to do.

    ``by_hand``: people ended it, not an executor. ``over`` is when it ended as recorded, and the
    sequence of that.
    """

    spec: Run
    closed_gpu_ms: int = 0
    open: dict[str, tuple[int, int]] = field(default_factory=dict)
    total_gpu_ms: int | None = None
    outcome: e.Outcome | None = None
    by_hand: bool = False
    actor: str = ""
    note: str = ""
    over: tuple[int, int] = (0, 0)

    def done_gpu_ms(self, now_ms: int) -> int:
        """Return what was done up to ``now_ms``."""
        return self.closed_gpu_ms + sum(
            gpus * (now_ms - start_ms) for start_ms, gpus in self.open.values()
        )

    def ends_ms(self, total_gpu_ms: int) -> int | None:
        """Return when the work is done if its leases stay as they are; None if none is open."""
        width = sum(gpus for _, gpus in self.open.values())
        if not width:
            return None
        weighted = sum(gpus * start_ms for start_ms, gpus in self.open.values())
        return -((self.closed_gpu_ms - total_gpu_ms - weighted) // width)

    def enter(self, event: e.LeaseStarted | e.LeaseEnded) -> None:
        """Count a lease that starts or ends."""
        if isinstance(event, e.LeaseStarted):
            self.open[event.lease] = (event.start_ms, e.lease_gpus(event.slots))
        else:
            start_ms, gpus = self.open.pop(event.lease)
            self.closed_gpu_ms += gpus * (event.end_ms - start_ms)


class Efforts:
    """The work of all runs, folded from events; ``changed`` are runs since the last ``take``."""

    def __init__(self) -> None:
        self.runs: dict[str, Effort] = {}
        self._holders: dict[str, Effort] = {}
        self._changed: dict[str, None] = {}

    def enter(self, seq: int, event: e.Event) -> None:
        """Count an event."""
        match event:
            case e.RunSubmitted():
                self.runs[event.run.name] = Effort(event.run)
            case e.LeaseStarted() if event.role is not e.Role.SPARE:
                effort = self._holders[event.lease] = self.runs[event.run]
                effort.enter(event)
                self._changed[event.run] = None
            case e.LeaseEnded() if event.lease in self._holders:
                effort = self._holders.pop(event.lease)
                effort.enter(event)
                self._changed[effort.spec.name] = None
            case e.RunStopping() if event.outcome in (e.Outcome.COMPLETED, e.Outcome.FAILED):
                self._over(seq, event, event.outcome, by_hand=True)
            case e.RunEnded():
                if self.runs[event.run].outcome is None:
                    self._over(seq, event, event.outcome, by_hand=False)
            case _:
                pass

    def take(self) -> list[str]:
        """Return the runs whose leases have changed since the last call."""
        found, self._changed = list(self._changed), {}
        return found

    def _over(
        self, seq: int, event: e.RunStopping | e.RunEnded, outcome: e.Outcome, *, by_hand: bool
    ) -> None:
        effort = self.runs[event.run]
        effort.outcome, effort.by_hand = outcome, by_hand
        effort.actor, effort.note, effort.over = event.actor, event.note, (event.at_ms, seq)
        effort.total_gpu_ms = effort.done_gpu_ms(event.at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """What was learnt of a whole ledger: the work of runs, and how long stops took."""

    efforts: Mapping[str, Effort]
    stops: Mapping[str, tuple[int, int]]
    """For each lease that was stopped, how long it took, and the sequence of its end."""
    usual_stop_ms: int
    end_ms: int

    def total_gpu_ms(self, run: Run) -> int:
        """Return how much work a run has, at least what it was seen to do."""
        known = self.efforts[run.name]
        if known.outcome in (e.Outcome.COMPLETED, e.Outcome.FAILED) and known.closed_gpu_ms:
            assert known.total_gpu_ms is not None, run.name
            return known.total_gpu_ms
        declared_ms = run.expected_duration_ms or UNSTATED_MS
        return max(run.gpus * declared_ms, known.done_gpu_ms(self.end_ms) + run.gpus)


def lengths_of(events: Iterable[e.Event]) -> Lengths:
    """Return what a whole ledger says about the work of its runs."""
    efforts, stops = Efforts(), dict[str, tuple[int, int]]()
    asked: dict[str, int] = {}
    end_ms = 0
    for seq, event in enumerate(events, start=1):
        efforts.enter(seq, event)
        end_ms = max(end_ms, event.at_ms)
        if isinstance(event, e.LeaseEnding):
            asked.setdefault(event.lease, event.at_ms)
        elif isinstance(event, e.LeaseEnded) and event.lease in asked:
            stops[event.lease] = (event.at_ms - asked.pop(event.lease), seq)
    took = sorted(ms for ms, _ in stops.values())
    usual_ms = took[len(took) // 2] if took else 0
    return Lengths(efforts=efforts.runs, stops=stops, usual_stop_ms=usual_ms, end_ms=end_ms)


class RecordedExecutor:
    """An executor whose reports are put in by the fork: work exits, and stopped leases go."""

    def __init__(self) -> None:
        self._exits: dict[str, RunExited] = {}
        self._gone: dict[str, None] = {}

    def exit(self, run: str, lease: str, code: int, note: str) -> None:
        """Let the work of ``run`` exit."""
        self._exits[run] = RunExited(run, lease, code, note)

    def go(self, lease: str) -> None:
        """Let the last process under a stopping lease exit."""
        self._gone[lease] = None

    def forget(self, event: e.Event) -> None:
        """Stop reporting what the ledger has."""
        if isinstance(event, e.LeaseEnded):
            self._gone.pop(event.lease, None)
            for run in [r for r, each in self._exits.items() if each.lease == event.lease]:
                del self._exits[run]

    def carry_out(self, orders: Sequence[Order]) -> None:
        """Take the orders: their results come from the fork."""

    def resume(self, orders: Sequence[Order]) -> None:
        """Take every open lease again: the fork knows them."""

    def reports(self) -> Sequence[Report]:
        """Return what has come to an end and is not in the ledger yet."""
        return [*self._exits.values(), *(LeaseGone(lease) for lease in self._gone)]

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return nothing: pools of rounds are not forked."""
        del runs
        return {}
