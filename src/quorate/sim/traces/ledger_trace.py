"""Makes a trace from a ledger: the submissions of runs, and how long each run worked.

The working time of a run is the time for which its leases were open, weighted by the GPUs of each
lease, and summed over all starts. Runs that never worked or have not ended are skipped, because
their duration is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from quorate.model.events import Event, LeaseEnded, LeaseStarted, Role, RunEnded, RunSubmitted
from quorate.model.specs import Run
from quorate.sim.traces.trace_job import Skipped, Trace, TraceError, TraceJob, by_arrival

_SECOND_MS: Final = 1_000


@dataclass(slots=True)
class _Worked:
    run: Run
    submitted_ms: int
    seq: int
    gpu_ms: int = 0
    is_over: bool = False


def ledger_trace(events: Iterable[Event]) -> Trace:
    """Return the runs that ended, in the order in which they were submitted."""
    runs: dict[str, _Worked] = {}
    open_leases: dict[str, LeaseStarted] = {}
    for seq, event in enumerate(events, 1):
        match event:
            case RunSubmitted():
                runs[event.run.name] = _Worked(event.run, event.at_ms, seq)
            case LeaseStarted() if event.role is not Role.SPARE:
                open_leases[event.lease] = event
            case LeaseEnded():
                began = open_leases.pop(event.lease, None)
                if began is not None:
                    _count(runs, began, event.end_ms)
            case RunEnded() if event.run in runs:
                runs[event.run].is_over = True
    played = [each for each in runs.values() if each.is_over and each.gpu_ms]
    left = [each for each in runs.values() if not each.is_over or not each.gpu_ms]
    if not played:
        raise TraceError(0, "", "has no run that got GPUs and ended", "choose another ledger")
    origin_ms = min(each.submitted_ms for each in played)
    skipped = tuple(
        Skipped(reason="never got GPUs, or has not ended", count=len(left), first_line=each.seq)
        for each in left[:1]
    )
    jobs = [_job(each, origin_ms) for each in played]
    return Trace(jobs=by_arrival(jobs), origin_ms=origin_ms, skipped=skipped)


def _count(runs: dict[str, _Worked], began: LeaseStarted, end_ms: int) -> None:
    gpus = sum(mask.bit_count() for _, mask in began.slots)
    for name in (began.run, began.partner):
        if name is not None and name in runs:
            runs[name].gpu_ms += gpus * max(0, end_ms - began.start_ms)


def _job(worked: _Worked, origin_ms: int) -> TraceJob:
    run = worked.run
    declared_ms = run.expected_duration_ms
    steps = None if run.rounds is None else run.rounds.total_steps
    return TraceJob(
        name=run.name,
        arrives_s=(worked.submitted_ms - origin_ms) / _SECOND_MS,
        gpus=run.gpus,
        owner=run.owner,
        duration_s=worked.gpu_ms / run.gpus / _SECOND_MS,
        steps=None if steps is None else float(steps),
        job_type=None if run.rounds is None else run.rounds.job_type,
        weight=1.0 if run.rounds is None else run.rounds.weight,
        flavors=run.flavors,
        declared_s=None if declared_ms is None else declared_ms / _SECOND_MS,
        order=worked.seq,
    )
