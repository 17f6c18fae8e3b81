"""Forecasts when waiting runs start, by a queue walk whose events are discarded.

The walk plans only the first runs of each pool, as many as the pool's depth says. For a run beyond
the depth, the earliest possible start follows from the room that the plan leaves. To find the
planned start of such a run, a longer walk continues until it reaches the run. The longer walk costs
more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.core.planning.queue_walk import Walk
from quorate.core.planning.walk_plan import Reach
from quorate.core.profile.plan_entry import Entry
from quorate.model.closed_words import Word
from quorate.model.events import LeaseStarted
from quorate.model.refusal import Refusal
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView

EXACT_RUNS_MAX: Final = 10_000
"""The most waiting runs that a walk examines to find the start of a run beyond the depth."""


class PlanState(Word):
    """How certain a planned start is."""

    FIRM = "firm"
    """The start is recorded, and moves later only for a recorded cause."""
    TENTATIVE = "tentative"
    """The start is not recorded, and changes with the queue."""
    NOT_BEFORE = "not-before"
    """The run is beyond the pool's depth. The instant that is given is only a lower bound."""
    NONE = "none"
    """The run has no planned start: no known future event lets it start."""


@dataclass(frozen=True, slots=True)
class LongWalk:
    """How many ``runs`` a long walk has examined, and whether it has reached its target run."""

    runs: int
    has_reached: bool


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The planned start of a waiting run; ``entry`` is None if no start is planned.

    ``long_walk`` is set if a walk beyond the depth has searched for the start.
    """

    state: PlanState
    entry: Entry | None
    long_walk: LongWalk | None = None


@dataclass(slots=True)
class Foresight:
    """The plan of a view at an instant, from a walk whose events are never recorded.

    ``long_walk`` is set if the walk continued beyond the depth.
    """

    walk: Walk
    long_walk: LongWalk | None = None

    @classmethod
    def of(cls, view: StateView, now_ms: int, *, has_executor: bool) -> Foresight:
        """Return the plan of all runs that wait in ``view``."""
        return cls(_walked(view, now_ms, None, has_executor=has_executor))

    @classmethod
    def up_to(
        cls,
        view: StateView,
        run: str,
        now_ms: int,
        *,
        has_executor: bool,
        runs_max: int = EXACT_RUNS_MAX,
    ) -> Foresight:
        """Return the plan of all runs before ``run`` in the queue, and of ``run`` itself.

        The start of ``run`` is found as if the run were within the pool's depth. The walk ends
        after ``runs_max`` runs. If the walk has not reached ``run`` by then, only the earliest
        possible start of ``run`` is known.
        """
        reach = Reach(run, view.runs[run].spec.pool, runs_max)
        walk = _walked(view, now_ms, reach, has_executor=has_executor)
        return cls(walk, LongWalk(len(walk.plan.seen), run in walk.plan.seen))

    def start_of(self, record: RunRecord) -> Foreseen:
        """Return the planned start of a waiting run, and how certain the start is."""
        found = self.planned_start_of(record)
        if found is not None:
            return found
        entry = self.walk.plan.search.find(record.spec, self.walk.plan.log.now_ms)
        state = PlanState.NONE if entry is None else PlanState.NOT_BEFORE
        return Foreseen(state, entry, self.long_walk)

    def planned_start_of(self, record: RunRecord) -> Foreseen | None:
        """Return the start that the walk has found for a waiting run.

        Return None for a run that the walk has not examined. This function does not search for a
        start, so its cost does not depend on the length of the queue.
        """
        name, plan = record.spec.name, self.walk.plan
        if waits_for_upstream(plan.view, record.spec) is not None:
            return Foreseen(PlanState.NONE, None)
        pin = plan.pins.get(name)
        if pin is not None:
            # A start that became firm in this walk is a forecast until a decision records it.
            is_firm = record.reservation is not None
            return Foreseen(PlanState.FIRM if is_firm else PlanState.TENTATIVE, pin)
        entry = plan.entries.get(name)
        if entry is None and self.long_walk is not None:
            # The long walk has started the run, but the walk of a decision would not reach the run.
            entry = plan.started_runs.get(name)
        if entry is not None:
            return Foreseen(PlanState.TENTATIVE, entry, self.long_walk)
        if plan.has_started(name) or plan.is_fruitless(name):
            return Foreseen(PlanState.NONE, None, self.long_walk)
        return None

    def tentative(self) -> dict[str, Entry]:
        """Return the planned starts that are not firm, by run, the soonest first."""
        plan = self.walk.plan
        found = [
            entry
            for entry in (*plan.pins.values(), *plan.entries.values())
            if plan.view.runs[entry.run].reservation is None
        ]
        return {entry.run: entry for entry in sorted(found, key=lambda entry: entry.start_ms)}

    def refusal_of(self, record: RunRecord) -> Refusal | None:
        """Return why a waiting run does not start now; None if it starts now."""
        if self.walk.plan.has_started(record.spec.name):
            return None
        return self.walk.reasons.why(record)

    def starts_now(self) -> set[str]:
        """Return the names of the runs that start now."""
        events = self.walk.plan.log.events
        return {event.run for event in events if isinstance(event, LeaseStarted)}


def _walked(view: StateView, now_ms: int, reach: Reach | None, *, has_executor: bool) -> Walk:
    log = DecisionLog(view, now_ms=now_ms, actor="", has_executor=has_executor)
    walk = Walk(log, reach=reach)
    walk.firm.put_pins()
    walk.run()
    return walk
