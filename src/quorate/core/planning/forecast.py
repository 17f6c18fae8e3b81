"""Forecasts: when a waiting run starts, read off a walk that is thrown away.

Within the depth the plan tells it. Beyond it, what is left behind the plan tells when it cannot
start before; walking on to it, which costs more, tells the start itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.follow import waits_for_upstream
from quorate.core.planning.entry import Entry
from quorate.core.planning.walk import Walk
from quorate.core.scribe import Scribe
from quorate.model.events import LeaseStarted
from quorate.model.records import RunRecord
from quorate.model.refusal import Refusal
from quorate.model.view import StateView
from quorate.model.words import Word


class PlanState(Word):
    """What a planned start is worth."""

    FIRM = "firm"
    """Recorded; it moves later only for a recorded cause."""
    TENTATIVE = "tentative"
    """It follows the queue: what is submitted may go before it."""
    NOT_BEFORE = "not-before"
    """Beyond the depth: it starts then at the earliest."""
    NONE = "none"
    """Nothing that is known to come leads to a start."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The planned start of a waiting run; ``entry`` is None where there is none."""

    state: PlanState
    entry: Entry | None


@dataclass(slots=True)
class Foresight:
    """The plan of a view at an instant: a walk in an overlay, of which nothing is kept."""

    walk: Walk

    @classmethod
    def of(
        cls, view: StateView, now_ms: int, *, has_executor: bool, depth: int | None = None
    ) -> Foresight:
        """Return the plan of everything that waits in ``view``.

        ``depth`` is how many runs of a pool are planned, where that is more than the pool says.
        """
        scribe = Scribe(view, now_ms=now_ms, actor="", has_executor=has_executor)
        walk = Walk(scribe, depth=depth)
        walk.put_pins()
        walk.run()
        return cls(walk)

    def start_of(self, record: RunRecord) -> Foreseen:
        """Return when a waiting run starts, and what that is worth."""
        found = self.planned_start_of(record)
        if found is not None:
            return found
        entry = self.walk.search.find(record.spec, self.walk.scribe.now_ms)
        return Foreseen(PlanState.NONE if entry is None else PlanState.NOT_BEFORE, entry)

    def planned_start_of(self, record: RunRecord) -> Foreseen | None:
        """Return the start of a waiting run that the walk has found; None for one beyond it.

        Costs the same however long the queue is: nothing is searched.
        """
        name, walk = record.spec.name, self.walk
        if waits_for_upstream(walk.view, record.spec) is not None:
            return Foreseen(PlanState.NONE, None)
        pin = walk.pins.get(name)
        if pin is not None:
            # One that became firm in this very walk is a forecast until a decision writes it.
            is_firm = record.reservation is not None
            return Foreseen(PlanState.FIRM if is_firm else PlanState.TENTATIVE, pin)
        entry = walk.entries.get(name)
        if entry is not None:
            return Foreseen(PlanState.TENTATIVE, entry)
        if walk.has_started(name) or walk.is_fruitless(name):
            return Foreseen(PlanState.NONE, None)
        return None

    def tentative(self) -> dict[str, Entry]:
        """Return the planned starts that are not firm, by run, the soonest first."""
        walk = self.walk
        found = [
            entry
            for entry in (*walk.pins.values(), *walk.entries.values())
            if walk.view.runs[entry.run].reservation is None
        ]
        return {entry.run: entry for entry in sorted(found, key=lambda entry: entry.start_ms)}

    def refusal_of(self, record: RunRecord) -> Refusal | None:
        """Return why a waiting run does not start now; None where it does."""
        if self.walk.has_started(record.spec.name):
            return None
        return self.walk.why(record)

    def starts_now(self) -> set[str]:
        """Return the runs that start now."""
        events = self.walk.scribe.events
        return {event.run for event in events if isinstance(event, LeaseStarted)}
