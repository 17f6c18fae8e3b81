"""Derives from a ledger how long the work of each run takes.

The work of a run that keeps its GPUs until it ends is the GPU time of its leases, without spares.
The work of a run that shares in rounds is counted in steps, by its rate on each flavor
(``recorded_speeds.py``). A run that ended has done all its work. A run that had not ended still has
to do the rest of its declared duration, or a small amount of work if nothing is left. A recorded
stop takes its recorded time; any other stop takes the median time of all stops. The leases of a
claim are not work, because a claim ends at its stated time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.loop.driver import EXECUTOR_ACTOR
from quorate.model import events as e
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Run
from quorate.sim.whatif.recorded_speeds import STEP, RecordedRates, ToldSteps

LATER: Final = 1 << 60
"""A sequence number for events that the ledger does not have; it is above all recorded numbers."""
UNSTATED_MS: Final = HOUR_MS
"""The assumed duration of a run that never started and declared no duration."""
_NO_WORK: Final = (e.Role.SPARE, e.Role.CLAIM)


@dataclass(slots=True)
class Effort:
    """The work of one run: the work of its ended leases and of its open leases.

    ``open`` has the start and the work per millisecond of each open lease. ``by_hand`` is True if
    people, not an executor, ended the run. ``over`` has the instant and the sequence number of
    the event with which the run ended. ``was_idle`` is True if the run had no lease at its end, as
    between rounds.
    """

    spec: Run
    closed_work: int = 0
    open: dict[str, tuple[int, int]] = field(default_factory=dict)
    total_work: int | None = None
    outcome: e.Outcome | None = None
    by_hand: bool = False
    was_idle: bool = False
    actor: str = ""
    note: str = ""
    over: tuple[int, int] = (0, 0)
    left_ms: int | None = None

    def done_work(self, now_ms: int) -> int:
        """Return the work done up to ``now_ms``."""
        return self.closed_work + sum(
            pace * (now_ms - start_ms) for start_ms, pace in self.open.values()
        )

    def ends_ms(self, total_work: int) -> int | None:
        """Return when the work is done if the leases do not change; None without open leases."""
        pace = sum(pace for _, pace in self.open.values())
        if not pace:
            return None
        weighted = sum(pace * start_ms for start_ms, pace in self.open.values())
        return -((self.closed_work - total_work - weighted) // pace)

    def close(self, event: e.LeaseEnded) -> None:
        """Count a lease that has ended."""
        start_ms, pace = self.open.pop(event.lease)
        self.closed_work += pace * (event.end_ms - start_ms)
        self.left_ms = event.at_ms


class Efforts:
    """The work of all runs, folded from events."""

    def __init__(self, rates: RecordedRates) -> None:
        self.runs: dict[str, Effort] = {}
        self._rates = rates
        self._holders: dict[str, tuple[Effort, ...]] = {}
        self._changed: dict[str, None] = {}

    def enter(self, seq: int, event: e.Event) -> None:
        """Enter an event."""
        match event:
            case e.NodeApplied():
                self._rates.enter_node(event)
            case e.RunSubmitted():
                self.runs[event.run.name] = Effort(event.run)
            case e.LeaseStarted() if event.role not in _NO_WORK:
                self._began(event)
            case e.LeaseEnded() if event.lease in self._holders:
                for effort in self._holders.pop(event.lease):
                    effort.close(event)
                    self._changed[effort.spec.name] = None
            case e.RunStopping() if event.outcome in (e.Outcome.COMPLETED, e.Outcome.FAILED):
                self._over(seq, event, event.outcome, by_hand=event.actor != EXECUTOR_ACTOR)
            case e.RunEnded():
                if self.runs[event.run].outcome is None:
                    self._over(seq, event, event.outcome, by_hand=False)
            case _:
                pass

    def take(self) -> list[str]:
        """Return the runs whose leases have changed since the last call."""
        found, self._changed = list(self._changed), {}
        return found

    def _began(self, event: e.LeaseStarted) -> None:
        names = (event.run,) if event.partner is None else (event.run, event.partner)
        holders = tuple(self.runs[name] for name in names)
        self._holders[event.lease] = holders
        gpus, node = e.lease_gpus(event.slots), event.slots[0][0]
        for effort, beside in zip(holders, reversed(holders), strict=True):
            partner = None if effort is beside else beside.spec
            pace = gpus
            if effort.spec.rounds is not None:
                pace = gpus * self._rates.rate(effort.spec, node, partner)
            effort.open[event.lease] = (event.start_ms, pace)
            self._changed[effort.spec.name] = None

    def _over(
        self, seq: int, event: e.RunStopping | e.RunEnded, outcome: e.Outcome, *, by_hand: bool
    ) -> None:
        effort = self.runs[event.run]
        effort.outcome, effort.by_hand = outcome, by_hand
        effort.actor, effort.note, effort.over = event.actor, event.note, (event.at_ms, seq)
        effort.was_idle = not effort.open and effort.left_ms != event.at_ms
        effort.total_work = effort.done_work(event.at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The durations in a whole ledger: the work of runs, and the time of stops."""

    efforts: Mapping[str, Effort]
    rates: RecordedRates
    told: Mapping[str, ToldSteps]
    """For each run that reported steps, each count of steps and the work done by then."""
    stops: Mapping[str, tuple[int, int]]
    """For each stopped lease: how long the stop took, and the sequence number of its end."""
    usual_stop_ms: int
    end_ms: int

    def total_work(self, run: Run) -> int:
        """Return the total work of a run, at least its recorded work."""
        known = self.efforts[run.name]
        if known.outcome in (e.Outcome.COMPLETED, e.Outcome.FAILED) and known.closed_work:
            assert known.total_work is not None, run.name
            return known.total_work
        declared_ms = run.expected_duration_ms or UNSTATED_MS
        work = run.rounds
        if work is None:
            return max(run.gpus * declared_ms, known.done_work(self.end_ms) + run.gpus)
        fastest = run.gpus * self.rates.fastest(run)
        declared = fastest * declared_ms
        if work.total_steps is not None:
            declared = run.gpus * STEP * work.total_steps
        return max(declared, known.done_work(self.end_ms) + fastest)

    def steps(self, effort: Effort, now_ms: int) -> int | None:
        """Return the steps that a run with ``effort`` reports now; None if it reports no steps.

        A run that had no GPUs in the ledger reports steps if other runs reported steps.
        """
        run, known = effort.spec, self.efforts[effort.spec.name]
        told = self.told.get(run.name)
        if told is None and (known.closed_work or known.open or not self.told):
            return None
        told = ToldSteps() if told is None else told
        return told.at(effort.done_work(now_ms), STEP * run.gpus)


def lengths_of(events: Iterable[e.Event]) -> Lengths:
    """Return the durations of work and stops in a whole ledger."""
    events = list(events)
    rates = RecordedRates(events)
    efforts, stops = Efforts(rates), dict[str, tuple[int, int]]()
    told = _Told(efforts)
    asked: dict[str, int] = {}
    end_ms = 0
    for seq, event in enumerate(events, start=1):
        efforts.enter(seq, event)
        told.enter(event)
        end_ms = max(end_ms, event.at_ms)
        if isinstance(event, e.LeaseEnding):
            asked.setdefault(event.lease, event.at_ms)
        elif isinstance(event, e.LeaseEnded) and event.lease in asked:
            stops[event.lease] = (event.at_ms - asked.pop(event.lease), seq)
    took = sorted(ms for ms, _ in stops.values())
    usual_ms = took[len(took) // 2] if took else 0
    return Lengths(
        efforts=efforts.runs,
        rates=rates,
        told={run: told.runs[run] for run in told.counted},
        stops=stops,
        usual_stop_ms=usual_ms,
        end_ms=end_ms,
    )


class _Told:
    """The steps that the runs of rounds had reported when each round began, folded from events."""

    def __init__(self, efforts: Efforts) -> None:
        self.runs: dict[str, ToldSteps] = {}
        self.counted: dict[str, int] = {}
        self._efforts = efforts

    def enter(self, event: e.Event) -> None:
        if isinstance(event, e.StepsCounted):
            for count in event.counts:
                self.counted[count.run] = self.counted.get(count.run, 0) + count.steps
        elif isinstance(event, e.RoundShared):
            for share in event.shares:
                done = self._efforts.runs[share.run].done_work(event.at_ms)
                told = self.runs.setdefault(share.run, ToldSteps())
                told.tell(done, self.counted.get(share.run, 0))
