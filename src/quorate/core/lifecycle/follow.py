"""Follow: runs that wait for other runs to complete, and the effects when an upstream fails.

An upstream is a run or an array. An array completes with the last of its tasks, and fails with the
first task that does not complete. A follower gains no waiting time in the queue, and gets no
reservation, before all its upstreams have completed. If an upstream fails or is cancelled,
``onUpstreamFailure`` decides. By default the follower waits until a caller withdraws it. With
``fail`` the follower fails once its grace has passed. With ``start`` the follower treats the
upstream as completed. Cycles cannot arise: a run follows only runs that exist already, and
``declare`` refuses a cycle among runs of one command.
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
    """Return whether a run or an array ``name`` exists that a run can follow."""
    return name in view.runs or name in view.arrays


def waits_for_upstream(view: StateView, run: Run) -> Refusal | None:
    """Return a refusal with the upstream that ``run`` waits for; None if it waits for none.

    A task of an array with a limit also waits for earlier tasks of the array.
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
    """Yield the runs whose cause of waiting may change because ``name`` ended now.

    ``name`` is a run or an array. The yielded runs are the followers of ``name``. If ``name`` is an
    array with a limit, they are also the tasks that are released now. The end of a task concerns
    the followers of its array only if this task is the first to fail or the last to end.
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
    """Return the first instant at which a waiting follower fails; None if none has to fail."""
    return min(view.follower_index.dues, default=None)


def fail_followers(log: DecisionLog) -> None:
    """Fail the followers that are due: their upstream failed a grace period ago or earlier.

    The end of a follower may make its own followers due; these fail, too.
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
        # Only followers of the runs that have just failed can have become due since.
        known = log.view.follower_index
        names = {
            follower
            for _, name in due
            for upstream in names_of(log.view.runs[name].spec)
            for follower in known.after.get(upstream, ())
            if follower in known.failing and known.failing[follower].at_ms <= log.now_ms
        }


_FAILED = {Phase.FAILED: "failed", Phase.CANCELLED: "was cancelled"}
