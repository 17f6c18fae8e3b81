"""The life of a run: started, refused, ended, put back. Each function writes events to a scribe."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.admit import Admitted, admit
from quorate.core.bind import LeaseDraft, bind
from quorate.core.scribe import Scribe
from quorate.core.stops import end_lease, finish
from quorate.model.events import (
    EndReason,
    LeaseStarted,
    Outcome,
    RunRefused,
    StartReason,
    lease_gpus,
)
from quorate.model.records import Phase, RunRecord
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.view import StateView


def try_start(scribe: Scribe, run: Run, *, leases_ever: int, known: Refusal | None) -> None:
    """Write the start of ``run``, or why it waits if that is news."""
    view = scribe.view
    answer = waits_for_upstream(view, run) or admit(
        view, run, scribe.now_ms, has_executor=scribe.has_executor
    )
    if isinstance(answer, Admitted):
        write_start(scribe, run, answer, leases_ever=leases_ever)
    elif known is None or known.code is not answer.code:
        scribe.write(
            RunRefused(at_ms=scribe.now_ms, actor=scribe.actor, run=run.name, refusal=answer)
        )


def write_start(
    scribe: Scribe,
    run: Run,
    admitted: Admitted,
    *,
    leases_ever: int,
    reason: StartReason = StartReason.START,
) -> None:
    """Write one lease per group and payer: Bind-Now, all of it or none."""
    drafts = bind(admitted.plan, admitted.demands, admitted.legs)
    write_leases(scribe, run.name, drafts, leases_ever, reason, start_ms=scribe.now_ms)


def write_leases(  # noqa: PLR0913 - the parts of one event
    scribe: Scribe,
    run: str,
    drafts: Iterable[LeaseDraft],
    leases_ever: int,
    reason: StartReason,
    *,
    start_ms: int,
) -> None:
    """Write a lease for each of ``drafts``, numbered on from ``leases_ever``."""
    for number, draft in enumerate(drafts, start=leases_ever):
        scribe.write(
            LeaseStarted(
                at_ms=scribe.now_ms,
                actor=scribe.actor,
                lease=f"{run}/{number}",
                run=run,
                partner=None,
                comp_path=draft.comp_path,
                bundle=draft.bundle,
                role=draft.role,
                slots=draft.slots,
                payer=draft.payer,
                tier=draft.tier,
                hold_gpu_ms=lease_gpus(draft.slots) * draft.hold_ms,
                start_ms=start_ms,
                reason=reason,
            )
        )


def waits_for_upstream(view: StateView, run: Run) -> Refusal | None:
    """Return why ``run`` may not be tried yet because of the runs it follows."""
    if run.follow is None:
        return None
    phases = [(name, view.runs[name].phase) for name in run.follow.after]
    for name, phase in phases:
        if phase in (Phase.FAILED, Phase.CANCELLED):
            return Refusal(code=RefusalCode.UPSTREAM_FAILED, subject=f"run {name}")
    for name, phase in phases:
        if phase is not Phase.COMPLETED:
            return Refusal(code=RefusalCode.WAITING_FOR_UPSTREAM, subject=f"run {name}")
    return None


def complete_run(scribe: Scribe, record: RunRecord, outcome: Outcome, note: str = "") -> None:
    """Write that the run's work has ended by itself, and that its leases end with it."""
    reason = EndReason.END if outcome is Outcome.COMPLETED else EndReason.FAIL
    for name in tuple(record.leases):
        lease = scribe.view.leases[name]
        end_ms = max(lease.fact.start_ms, min(scribe.now_ms, lease.hold_ends_ms))
        end_lease(scribe, name, reason, end_ms=end_ms)
    finish(scribe, record.spec.name, reason, outcome, note)


def try_waiting(scribe: Scribe) -> None:
    """Try every waiting run, in the order of submission."""
    if not scribe.somebody_waits:
        return
    for name, _ in sorted(scribe.view.pending.items(), key=lambda entry: entry[1]):
        record = scribe.view.runs[name]
        try_start(scribe, record.spec, leases_ever=record.leases_ever, known=record.refusal)
