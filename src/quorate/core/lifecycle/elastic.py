"""Elasticity: a malleable run shrinks step by step, and grows if no waiting run needs the GPUs.

Each step is a bundle, and is started or stopped as a whole. A run that shrinks releases its highest
steps first. A run that grows gets its lowest missing steps first. So the width of a run is always
its minimum plus a number of steps.
"""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.admission.admit import Admitted, admit_bundles
from quorate.core.admission.layout import step_bundles
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.held_back import growth_held_until_ms
from quorate.core.lifecycle.starts import write_start
from quorate.core.lifecycle.stops import stop_bundle
from quorate.core.profile.firm_places import place_of
from quorate.core.profile.lease_ends import declared_end_ms, run_end_ms
from quorate.core.profile.plan_entry import shares_of, slice_of
from quorate.core.profile.profile import Profile
from quorate.core.profile.room_left import room_beside
from quorate.model.events import EndReason, RunResized, StartReason
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.durations import grace_ms
from quorate.model.state.records import Phase, RunRecord
from quorate.model.state.state_view import StateView


def steps_held(view: StateView, record: RunRecord) -> set[int]:
    """Return the numbers of the steps that a run has, without the steps that are stopping."""
    leases = (view.leases[name] for name in record.leases)
    return {lease.fact.bundle for lease in leases if lease.ending is None and lease.fact.bundle}


def desired_width(record: RunRecord) -> int:
    """Return the width to which a malleable run grows.

    If the run was shrunk by a command, this is the width of the last such command. Otherwise it is
    the desired width in the run's document, which is by default the run's maximum.
    """
    elastic = record.spec.malleable
    assert elastic is not None, record.spec
    return elastic.gpus_desired if record.gpus_desired is None else record.gpus_desired


def shrink_run(log: DecisionLog, record: RunRecord, gpus: int) -> Refusal | None:
    """Stop the highest steps of a run until it works on ``gpus`` GPUs, or return a refusal.

    Afterwards the run does not grow beyond ``gpus`` by itself.
    """
    name, elastic = record.spec.name, record.spec.malleable
    if elastic is None or record.phase is not Phase.RUNNING:
        what = "is not malleable" if elastic is None else f"is {record.phase}"
        return Refusal(
            code=RefusalCode.NOT_RUNNING if elastic else RefusalCode.INVALID,
            subject=f"run {name!r} {what} and cannot shrink",
            remedy=f"to end it: quorate cancel {name}",
        )
    held = sorted(steps_held(log.view, record))
    width = elastic.gpus_min + len(held) * elastic.gpus_step
    grid = range(elastic.gpus_min, width + 1, elastic.gpus_step)
    if gpus not in grid:
        return Refusal(
            code=RefusalCode.INVALID,
            subject=f"run {name!r} works on {width} GPUs and cannot shrink to {gpus}",
            wanted=gpus,
            remedy=f"choose one of {', '.join(map(str, grid))}",
        )
    if gpus != desired_width(record):
        log.write(RunResized(at_ms=log.now_ms, actor=log.actor, run=name, gpus=gpus))
    keep = (gpus - elastic.gpus_min) // elastic.gpus_step
    for bundle in reversed(held[keep:]):
        stop_bundle(log, name, bundle, EndReason.SHRINK)
    return None


def grow_running(log: DecisionLog, profile: Profile, *, backfill: bool) -> None:
    """Start missing steps of running malleable runs, oldest run first, where the plan leaves room.

    The caller has already started the waiting runs that could start. ``profile`` has the planned
    GPUs of the other waiting runs. So a run whose steps were cut for a waiting run does not get
    them back before that run starts. A run whose steps were cut by hand grows again after one
    notice period. ``backfill`` is true if a run with a planned start waits. In this case a run past
    its declared end does not grow, because the planned start may need the GPUs of the new steps.
    """
    view = log.view
    for name in sorted(view.growable, key=lambda found: view.runs[found].seq):
        record = log.view.runs[name]
        held_ms = growth_held_until_ms(view, record)
        is_held = held_ms is not None and held_ms > log.now_ms
        overstays = backfill and declared_end_ms(view, record) <= log.now_ms
        if record.stopping is None and not (is_held or overstays):
            _grow(log, profile, record, backfill=backfill)


def _grow(log: DecisionLog, profile: Profile, record: RunRecord, *, backfill: bool) -> None:
    """Start missing steps one after the other, until a step cannot be placed or paid for."""
    run, elastic = record.spec, record.spec.malleable
    assert elastic is not None, run
    wanted = (desired_width(record) - elastic.gpus_min) // elastic.gpus_step
    while True:
        view = log.view
        now = view.runs[run.name]
        busy = {view.leases[lease].fact.bundle for lease in now.leases}
        missing = [step for step in range(1, wanted + 1) if step not in busy]
        if not missing or any(view.leases[lease].ending for lease in now.leases):
            return
        # A step ends together with its run, however late the step starts.
        end_ms = run_end_ms(view, now, log.now_ms)
        admitted = _step_beside(log, profile, now, missing[0], end_ms)
        if admitted is None:
            return
        taken = place_of(
            profile.view, run, log.now_ms, slice_of(admitted), shares_of(admitted.legs)
        )
        profile.put(replace(taken, end_ms=end_ms))
        profile.headroom.hold_nodes(run.owner, admitted.plan.nodes, log.now_ms, end_ms)
        grow, ever = StartReason.GROW, now.leases_ever
        write_start(log, run, admitted, leases_ever=ever, reason=grow, backfill=backfill)


def _step_beside(
    log: DecisionLog, profile: Profile, record: RunRecord, step: int, end_ms: int
) -> Admitted | None:
    """Return how a run gets one more step, which ends at ``end_ms``, or None.

    The result is None if the step cannot be placed or paid for now, or if the GPUs are planned for
    other runs.
    """
    view, run = log.view, record.spec
    bundles = step_bundles(run, step)
    admitted = admit_bundles(view, record, bundles, log.now_ms, has_executor=log.has_executor)
    if admitted is None:
        return None
    until_ms = end_ms + grace_ms(run, view.pools[run.pool])
    room = room_beside(view, profile, run, log.now_ms, until_ms)
    if room is view:
        return admitted
    return admit_bundles(room, record, bundles, log.now_ms, has_executor=log.has_executor)
