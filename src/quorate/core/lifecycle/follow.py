"""Follow: runs that wait for others to complete, and what happens when those fail.

A follower neither ages nor reserves before the last of its upstreams has completed. When one fails
or is cancelled, a follower waits to be withdrawn, or (``onUpstreamFailure: fail``) fails itself
once its grace has passed, or (``start``) treats that upstream as one that completed. Cycles cannot
arise: a run follows runs that exist already, and ``declare`` refuses a cycle among runs of one
command.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.stops import finish
from quorate.model.events import EndReason, Outcome
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Follow, Run, UpstreamFailure
from quorate.model.state.records import TERMINAL, Phase, RunRecord
from quorate.model.state.state_view import StateView

_UNCOMPLETED = (Phase.FAILED, Phase.CANCELLED)
_COMPLETED = (Phase.COMPLETED,)


def waits_for_upstream(view: StateView, run: Run) -> Refusal | None:
    """Return which upstream keeps ``run`` from being tried, if any does."""
    if run.follow is None:
        return None
    enough = ready_phases(run.follow)
    phases = [(name, view.runs[name].phase) for name in run.follow.after]
    for name, phase in phases:
        if phase in TERMINAL and phase not in enough:
            return Refusal(code=RefusalCode.UPSTREAM_FAILED, subject=f"run {name}")
    for name, phase in phases:
        if phase not in enough:
            return Refusal(code=RefusalCode.WAITING_FOR_UPSTREAM, subject=f"run {name}")
    return None


def eligible_since_ms(view: StateView, record: RunRecord) -> int | None:
    """Return since when no upstream keeps a run from starting; None while one does.

    That is when it was submitted or, for a follower, when the last of its upstreams completed or,
    with ``onUpstreamFailure: start``, ended in any way.
    """
    since_ms, follow = record.submitted_ms, record.spec.follow
    if follow is None:
        return since_ms
    enough = ready_phases(follow)
    for name in follow.after:
        upstream = view.runs[name]
        if upstream.phase not in enough or upstream.ended_ms is None:
            return None
        since_ms = max(since_ms, upstream.ended_ms)
    return since_ms


def ready_phases(follow: Follow) -> Collection[Phase]:
    """Return the phases of an upstream that let its follower start."""
    if follow.on_upstream_failure is UpstreamFailure.START:
        return TERMINAL
    return _COMPLETED


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
            phase = log.view.runs[upstream].phase
            note = f"run {upstream}, which it follows, {_FAILED[phase]}"
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
            (upstream.ended_ms, upstream.spec.name)
            for upstream in map(view.runs.__getitem__, follow.after)
            if upstream.phase in _UNCOMPLETED and upstream.ended_ms is not None
        ]
        if ended:
            first_ms, upstream_name = min(ended)
            yield max(first_ms, record.submitted_ms) + follow.grace_ms, name, upstream_name
