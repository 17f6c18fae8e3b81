"""The outcome of runs and arrays that other runs follow, and when a follower may start.

An upstream is a run or an array. An array completes when the last of its tasks has completed. It
fails when the first task fails or is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from quorate.model.specs import Run, UpstreamFailure
from quorate.model.state.records import ArrayRecord, BackfillMark, Phase, RunRecord
from quorate.model.state.run_table import Runs
from quorate.model.task_arrays import upstreams_of

_UNCOMPLETED = (Phase.FAILED, Phase.CANCELLED)


class UpstreamView(Protocol):
    """The runs and arrays that may be followed."""

    @property
    def runs(self) -> Runs:
        """Every run ever submitted, by name."""
        ...

    @property
    def arrays(self) -> Mapping[str, ArrayRecord]:
        """Every array ever submitted, by name."""
        ...


class Ended(NamedTuple):
    """The outcome of a run or an array.

    ``failed_ms`` is when the run, or the first task of the array, failed or was cancelled.
    ``over_ms`` is when the run, or the last task of the array, ended. A field is None if its
    instant has not come yet.
    """

    failed_ms: int | None
    over_ms: int | None
    phase: Phase


class Failing(NamedTuple):
    """When a follower fails because of an upstream, and which upstream that is."""

    at_ms: int
    upstream: str


def ended(view: UpstreamView, name: str) -> Ended:
    """Return the outcome of the run or array ``name``."""
    array = view.arrays.get(name)
    if array is not None:
        over_ms = None if array.open_tasks else array.ended_ms
        return Ended(array.failed_ms, over_ms, Phase.FAILED)
    record = view.runs[name]
    has_failed = record.phase in _UNCOMPLETED
    return Ended(record.ended_ms if has_failed else None, record.ended_ms, record.phase)


def is_released(view: UpstreamView, run: Run) -> bool:
    """Return whether ``run`` may start under the limit of its array; True if there is no limit."""
    if run.array is None or run.array.at_once_max is None:
        return True
    return run.task in view.arrays[run.array.name].released


def eligible_since_ms(view: UpstreamView, record: RunRecord) -> int | None:
    """Return since when neither an upstream nor an array's limit blocks a run; None if one does.

    An upstream blocks a follower until the upstream has completed (or ended, if any end is enough).
    The limit of an array blocks a task until the task is released. For a run that nothing blocked,
    the result is the time of its submission.
    """
    run, since_ms = record.spec, record.submitted_ms
    if not is_released(view, run):
        return None
    if run.array is not None and run.task is not None:
        since_ms = max(since_ms, view.arrays[run.array.name].released.get(run.task, 0))
    for upstream in upstreams_of(run):
        found = ended(view, upstream.name)
        if found.over_ms is None or (not upstream.any_end and found.failed_ms is not None):
            return None
        since_ms = max(since_ms, found.over_ms)
    return since_ms


class WaitStart(NamedTuple):
    """When a run began to wait in the queue: at event ``seq`` or at ``at_ms``, the later one."""

    seq: int
    at_ms: int

    def is_before(self, mark: BackfillMark) -> bool:
        """Return whether the run already waited when the bundle of ``mark`` started."""
        return self.seq <= mark.seq and self.at_ms <= mark.at_ms


def overtaken_since(view: UpstreamView, record: RunRecord) -> WaitStart | None:
    """Return when a run began to wait; backfill that started later may be stopped for the run.

    Backfill is stopped only if it overstays. A follower waits in the queue from the instant at
    which no upstream blocks it. A task that its array's limit blocks waits from the instant of its
    release. The result is None while an upstream or the limit of an array blocks the start. It is
    also None if the run was itself stopped because it overstayed: otherwise two runs that take
    longer than declared, and lose their work when they stop, could stop each other for ever.
    """
    if record.has_overstayed:
        return None
    if record.spec.follow is None and record.spec.array is None:
        return WaitStart(record.waiting_seq, 0)
    since_ms = eligible_since_ms(view, record)
    return None if since_ms is None else WaitStart(record.waiting_seq, since_ms)


def failing_of(view: UpstreamView, record: RunRecord) -> Failing | None:
    """Return when a follower fails because of a failed upstream; None if it will not fail.

    The follower's grace begins when the first upstream fails. If this was before the submission of
    the follower, the grace begins at the submission.
    """
    follow = record.spec.follow
    if follow is None or follow.on_upstream_failure is not UpstreamFailure.FAIL:
        return None
    first = min(_failed(view, record.spec), default=None)
    if first is None:
        return None
    failed_ms, upstream = first
    return Failing(max(failed_ms, record.submitted_ms) + follow.grace_ms, upstream)


def _failed(view: UpstreamView, run: Run) -> Iterator[tuple[int, str]]:
    """Yield the instant and the name of each upstream that had to complete, but failed."""
    for upstream in upstreams_of(run):
        failed_ms = None if upstream.any_end else ended(view, upstream.name).failed_ms
        if failed_ms is not None:
            yield failed_ms, upstream.name
