"""Follow: runs that wait for other runs to complete, and what happens when an upstream fails.

A run that waits in this way is a follower, and the runs and arrays that it waits for are its
upstreams. An array completes with the last of its tasks, and fails with the first task that does
not complete. Until all its upstreams have completed, a follower gets no reservation, and this time
does not improve its position in the queue.

If an upstream fails or is cancelled, the field ``onUpstreamFailure`` of the follower decides. By
default the follower waits until a user withdraws it. With ``fail``, the follower fails after its
grace period. With ``start``, the follower treats the upstream as completed. Cycles cannot arise: a
run follows only runs that exist already, and ``declare`` refuses a cycle among the runs of one
command.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.stops import finish
from quorate.model.events import EndReason, Outcome
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.records import Phase
from quorate.model.state.state_view import StateView
from quorate.model.state.upstreams import ended, is_released
from quorate.model.task_arrays import task_name, upstreams_of


def is_upstream(view: StateView, name: str) -> bool:
    """Return whether there is a run or an array ``name`` that other runs can follow."""
    return name in view.runs or name in view.arrays


def waits_for_upstream(view: StateView, run: Run) -> Refusal | None:
    """Return a refusal with the upstream that ``run`` waits for; None if it waits for none.

    If an array limits how many of its tasks run at once, a task may also wait for earlier tasks.
    """
    waits: Refusal | None = None
    if not is_released(view, run):
        assert run.array is not None, run
        subject = f"an earlier task of array {run.array.name}"
        waits = Refusal(code=RefusalCode.WAITING_FOR_UPSTREAM, subject=subject)
    for upstream in upstreams_of(run):
        found = ended(view, upstream.name)
        if not upstream.any_end and found.failed_ms is not None:
            return Refusal(code=RefusalCode.UPSTREAM_FAILED, subject=_subject(view, upstream.name))
        if found.over_ms is None and waits is None:
            subject = _subject(view, upstream.name)
            waits = Refusal(code=RefusalCode.WAITING_FOR_UPSTREAM, subject=subject)
    return waits


def _subject(view: StateView, name: str) -> str:
    return f"{'array' if name in view.arrays else 'run'} {name}"


def unready_upstreams(view: StateView, run: Run) -> list[str]:
    """Return the upstreams that ``run`` still waits for, or that have failed."""
    found = ((each, ended(view, each.name)) for each in upstreams_of(run))
    return [
        each.name
        for each, end in found
        if end.over_ms is None or (not each.any_end and end.failed_ms is not None)
    ]


def names_of(run: Run) -> tuple[str, ...]:
    """Return the names under which other runs follow ``run``: its own, and that of its array."""
    return (run.name,) if run.array is None else (run.name, run.array.name)


def woken_by(view: StateView, name: str, now_ms: int) -> Iterator[str]:
    """Yield the waiting runs whose reason to wait may change, because ``name`` ended or failed now.

    ``name`` is a run or an array. The yielded runs are the followers of ``name``. The end of a task
    matters to the followers of its array only if the task is the first to fail or the last to end.
    If an array limits how many of its tasks run at once, the tasks that may start now are yielded,
    too.
    """
    found = ended(view, name)
    if now_ms in (found.failed_ms, found.over_ms):
        yield from view.follower_index.after.get(name, ())
    array = view.arrays.get(name)
    if array is not None:
        for index, at_ms in array.released.items():
            if at_ms == now_ms:
                yield task_name(name, index)


def follow_due_ms(view: StateView) -> int | None:
    """Return the first instant at which a waiting follower fails; None if no follower will fail."""
    return min(view.follower_index.dues, default=None)


def fail_followers(log: DecisionLog) -> None:
    """Write the failure of each follower whose upstream failed at least a grace period ago.

    When a follower has failed, its own followers may be due at once; then they fail, too.
    """
    if not (log.any_run_waits or log.shares_in_rounds):
        return
    known = log.view.follower_index
    names = {name for at_ms in known.dues if at_ms <= log.now_ms for name in known.dues[at_ms]}
    while names:
        due = sorted((known.failing[name].at_ms, name) for name in names)
        upstreams = {name: known.failing[name].upstream for name in names}
        for _, name in due:
            phase = ended(log.view, upstreams[name]).phase
            note = f"{_subject(log.view, upstreams[name])}, which it follows, {_FAILED[phase]}"
            finish(log, name, EndReason.FAIL, Outcome.FAILED, note)
        # Only followers of the runs that have just failed can be due now.
        known = log.view.follower_index
        names = {
            follower
            for _, name in due
            for upstream in names_of(log.view.runs[name].spec)
            for follower in known.after.get(upstream, ())
            if follower in known.failing and known.failing[follower].at_ms <= log.now_ms
        }


_FAILED = {Phase.FAILED: "failed", Phase.CANCELLED: "was cancelled"}
