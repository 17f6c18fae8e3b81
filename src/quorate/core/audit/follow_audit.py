"""I6: followers start only when their upstreams are over; arrays limit their running tasks.

This part of the audit (``history_audit.py``) keeps its own records: how each run ended, and how
many tasks of each array are not over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.model.events import Event, LeaseStarted, Outcome, RunEnded, RunSubmitted
from quorate.model.specs import Run
from quorate.model.task_arrays import upstreams_of


@dataclass(slots=True)
class _Array:
    """The number of tasks of an array that are not over, and those of them that have started."""

    open_tasks: int = 0
    has_failed: bool = False
    started: set[str] = field(default_factory=set)


@dataclass(slots=True)
class FollowBooks:
    """The outcomes of all runs and arrays, as recorded by the events so far."""

    _runs: dict[str, Run] = field(default_factory=dict)
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _arrays: dict[str, _Array] = field(default_factory=dict)

    def enter(self, event: Event) -> Iterator[Violation]:
        """Record ``event``, and yield a violation if it starts a run too early."""
        match event:
            case RunSubmitted():
                self._runs[event.run.name] = event.run
                if event.run.array is not None:
                    self._arrays.setdefault(event.run.array.name, _Array()).open_tasks += 1
            case LeaseStarted():
                yield from self._check_start(event.run)
                if event.partner:
                    yield from self._check_start(event.partner)
            case RunEnded():
                self._ended(event)
            case _:
                pass

    def _ended(self, event: RunEnded) -> None:
        run = self._runs.get(event.run)
        if run is None or event.run in self._outcomes:
            return  # ``history_audit.py`` reports this event.
        self._outcomes[event.run] = event.outcome
        if run.array is not None:
            array = self._arrays[run.array.name]
            array.open_tasks -= 1
            array.has_failed |= event.outcome is not Outcome.COMPLETED
            array.started.discard(event.run)

    def _check_start(self, name: str) -> Iterator[Violation]:
        run = self._runs.get(name)
        if run is None:
            return
        for upstream in upstreams_of(run):
            fault = self._fault(upstream.name, any_end=upstream.any_end)
            if fault:
                yield Violation(
                    "I6", name, f"started, and {upstream.name}, which it follows, {fault}"
                )
        if run.array is not None and run.array.at_once_max is not None:
            started = self._arrays[run.array.name].started
            started.add(name)
            if len(started) > run.array.at_once_max:
                yield Violation(
                    "I6",
                    name,
                    f"started as one of {len(started)} tasks of {run.array.name}, which may run "
                    f"{run.array.at_once_max} at once",
                )

    def _fault(self, name: str, *, any_end: bool) -> str:
        """Return why a run that follows ``name`` may not start yet; empty if it may."""
        array = self._arrays.get(name)
        if array is not None:
            is_over, has_failed = not array.open_tasks, array.has_failed
        else:
            outcome = self._outcomes.get(name)
            is_over, has_failed = outcome is not None, outcome is not Outcome.COMPLETED
        if not is_over:
            return "is not over"
        return "did not complete" if has_failed and not any_end else ""
