"""Follow: runs that wait for others to complete, and what happens when those fail.

What is followed is a run, or an array: that completes with the last of its tasks, and fails with
the first of them that does not complete. A follower neither ages nor reserves before the last of
its upstreams has completed. When one fails or is cancelled, a follower waits to be withdrawn, or
(``onUpstreamFailure: fail``) fails itself once its grace has passed, or (``start``) treats that
upstream as one that completed. Cycles cannot arise: a run follows runs that exist already, and
``declare`` refuses a cycle among runs of one command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.stops import finish
from quorate.model.events import EndReason, Outcome
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run, UpstreamFailure
from quorate.model.state.records import Phase, RunRecord
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import upstreams_of

_UNCOMPLETED = (Phase.FAILED, Phase.CANCELLED)


class _Ended(NamedTuple):
    """What became of a run or an array.

    ``failed_ms`` is when it, or the first of its tasks, failed or was cancelled; ``over_ms`` is
    when it, or the last of its tasks, ended. None: not yet.
    """

    failed_ms: int | None
    over_ms: int | None
    phase: Phase


def _ended(view: StateView, name: str) -> _Ended:
    array = view.arrays.get(name)
    if array is not None:
        over_ms = None if array.open_tasks else array.ended_ms
        return _Ended(array.failed_ms, over_ms, Phase.FAILED)
    record = view.runs[name]
    has_failed = record.phase in _UNCOMPLETED
    return _Ended(record.ended_ms if has_failed else None, record.ended_ms, record.phase)


def is_upstream(view: StateView, name: str) -> bool:
    """Return whether there is a run or an array ``name`` to follow."""
    return name in view.runs or name in view.arrays


def waits_for_upstream(view: StateView, run: Run) -> Refusal | None:
    """Return which upstream keeps ``run`` from being tried, if any does.

    A task of an array that has a limit waits for the tasks before it, too.
    """
    waits: Refusal | None = None
    if not _is_released(view, run):
        assert run.array is not None, run
        subject = f"an earlier task of array {run.array.name}"
        waits = Refusal(code=RefusalCode.WAITING_FOR_UPSTREAM, subject=subject)
    for upstream in upstreams_of(run):
        found = _ended(view, upstream.name)
        if not upstream.any_end and found.failed_ms is not None:
            return Refusal(code=RefusalCode.UPSTREAM_FAILED, subject=_subject(view, upstream.name))
        if found.over_ms is None and waits is None:
            subject = _subject(view, upstream.name)
            waits = Refusal(code=RefusalCode.WAITING_FOR_UPSTREAM, subject=subject)
    return waits


def _is_released(view: StateView, run: Run) -> bool:
    """Return whether the limit of its array, if any, lets ``run`` start."""
    if run.array is None or run.array.at_once_max is None:
        return True
    return run.task in view.arrays[run.array.name].released


def _subject(view: StateView, name: str) -> str:
    return f"{'array' if name in view.arrays else 'run'} {name}"


def unready_upstreams(view: StateView, run: Run) -> list[str]:
    """Return the upstreams that ``run`` still waits for, or that have failed."""
    found = ((each, _ended(view, each.name)) for each in upstreams_of(run))
    return [
        each.name
        for each, ended in found
        if ended.over_ms is None or (not each.any_end and ended.failed_ms is not None)
    ]


def eligible_since_ms(view: StateView, record: RunRecord) -> int | None:
    """Return since when no upstream keeps a run from starting; None while one does.

    That is when it was submitted or, for a follower, when the last of its upstreams completed or,
    where any end is enough, ended in any way.
    """
    run, since_ms = record.spec, record.submitted_ms
    if not _is_released(view, run):
        return None
    if run.array is not None and run.task is not None:
        since_ms = max(since_ms, view.arrays[run.array.name].released.get(run.task, 0))
    for upstream in upstreams_of(run):
        found = _ended(view, upstream.name)
        if found.over_ms is None or (not upstream.any_end and found.failed_ms is not None):
            return None
        since_ms = max(since_ms, found.over_ms)
    return since_ms


def follow_due_ms(view: StateView) -> int | None:
    """Return the first instant at which a waiting follower fails; None while none has to.

    Examines waiting runs only.
    """
    return min((at_ms for at_ms, _, _ in _failing(view)), default=None)


def fail_followers(log: DecisionLog) -> None:
    """End the followers whose upstream failed one grace ago, and those that follow them in turn."""
    if not (log.any_run_waits or log.shares_in_rounds):
        return
    while True:
        due = sorted(entry for entry in _failing(log.view) if entry[0] <= log.now_ms)
        if not due:
            return
        for _, name, upstream in due:
            phase = _ended(log.view, upstream).phase
            note = f"{_subject(log.view, upstream)}, which it follows, {_FAILED[phase]}"
            finish(log, name, EndReason.FAIL, Outcome.FAILED, note)


_FAILED = {Phase.FAILED: "failed", Phase.CANCELLED: "was cancelled"}


def _failing(view: StateView) -> Iterator[tuple[int, str, str]]:
    """Yield (instant, run, upstream) of the followers that fail because an upstream did.

    Their grace begins when the first upstream fails, or when they are submitted after that.
    """
    for name in view.followers:
        record = view.runs[name]
        follow = record.spec.follow
        if follow is None or follow.on_upstream_failure is not UpstreamFailure.FAIL:
            continue
        ended = [
            (failed_ms, upstream.name)
            for upstream in upstreams_of(record.spec)
            if not upstream.any_end
            and (failed_ms := _ended(view, upstream.name).failed_ms) is not None
        ]
        if ended:
            first_ms, upstream_name = min(ended)
            yield max(first_ms, record.submitted_ms) + follow.grace_ms, name, upstream_name
