"""The audit of owners' histories of durations (I8), which keeps its own records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    Event,
    LeaseStarted,
    Outcome,
    OwnerRemoved,
    PoolApplied,
    RunEnded,
    RunRequeued,
    RunStopping,
    RunSubmitted,
)
from quorate.model.specs import DEFAULT_POOL, Pool, Run
from quorate.model.state.durations import RECENT_RUNS, bucket_of, declared_ms
from quorate.model.state.state_view import StateView


@dataclass(slots=True)
class _Life:
    """A run that is not over.

    ``began_ms`` is its first start. ``last_ms`` is its last start, which is later if the run was
    requeued. ``is_stopped`` is true while the run is being stopped.
    """

    run: Run
    began_ms: int | None = None
    last_ms: int | None = None
    is_waiting: bool = True
    is_stopped: bool = False


@dataclass(slots=True)
class DurationBooks:
    """For each owner, the buckets of the durations of its runs, in the order of the runs' ends."""

    pools: dict[str, Pool] = field(default_factory=lambda: {DEFAULT_POOL: Pool(name=DEFAULT_POOL)})
    lives: dict[str, _Life] = field(default_factory=dict)
    buckets: dict[str, list[int]] = field(default_factory=dict)

    def enter(self, event: Event) -> Iterator[Violation]:
        """Record ``event``, and yield nothing: ``compare`` finds the violations."""
        match event:
            case PoolApplied():
                self.pools[event.pool.name] = event.pool
            case RunSubmitted():
                if event.run.rounds is None and not event.run.sensitive:
                    self.lives[event.run.name] = _Life(event.run)
            case LeaseStarted() if event.run in self.lives:
                life = self.lives[event.run]
                life.began_ms = event.start_ms if life.began_ms is None else life.began_ms
                if life.is_waiting:
                    life.last_ms, life.is_waiting = event.start_ms, False
            case RunRequeued() if event.run in self.lives:
                life = self.lives[event.run]
                life.is_waiting, life.is_stopped = True, False
            case RunStopping() if event.run in self.lives:
                self.lives[event.run].is_stopped = event.outcome in (None, Outcome.CANCELLED)
            case RunEnded():
                self._end(event)
            case OwnerRemoved():
                self.buckets.pop(event.owner, None)
            case _:
                pass
        yield from ()

    def _end(self, event: RunEnded) -> None:
        life = self.lives.pop(event.run, None)
        if life is None or life.began_ms is None or life.is_stopped:
            return
        if life.last_ms != life.began_ms:
            return  # The run was requeued, and may have continued from a checkpoint.
        if event.outcome is not Outcome.CANCELLED:
            run = life.run
            expected_ms = declared_ms(run, self.pools[run.pool])
            bucket = bucket_of(event.at_ms - life.began_ms, expected_ms)
            self.buckets.setdefault(run.owner, []).append(bucket)

    def compare(self, view: StateView) -> Iterator[Violation]:
        """Yield a violation if an owner's history in ``view`` differs from the recorded one."""
        for owner in sorted(self.buckets.keys() | view.durations.keys()):
            kept = view.durations[owner].recent if owner in view.durations else b""
            if kept != bytes(self.buckets.get(owner, ())[-RECENT_RUNS:]):
                yield Violation("I8", owner, "its history of durations differs from its runs")
