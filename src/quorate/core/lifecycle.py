"""The life of a run: started, refused, ended, put back. Each function writes events to a scribe."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from quorate.core.admit import Admitted, admit
from quorate.core.bind import bind
from quorate.core.holds import extension_ms, grace_ms
from quorate.core.scribe import Scribe
from quorate.model.events import (
    EndReason,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    Outcome,
    RunEnded,
    RunRefused,
    RunRequeued,
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
    answer = waits_for_upstream(view, run) or admit(view, run, scribe.now_ms)
    if isinstance(answer, Admitted):
        write_start(scribe, run, answer, leases_ever=leases_ever)
    elif known is None or known.code is not answer.code:
        scribe.write(
            RunRefused(at_ms=scribe.now_ms, actor=scribe.actor, run=run.name, refusal=answer)
        )


def write_start(scribe: Scribe, run: Run, admitted: Admitted, *, leases_ever: int) -> None:
    """Write one lease per group and payer: Bind-Now, all of it or none."""
    now_ms = scribe.now_ms
    drafts = bind(admitted.plan, admitted.demands, admitted.legs)
    for number, draft in enumerate(drafts, start=leases_ever):
        scribe.write(
            LeaseStarted(
                at_ms=now_ms,
                actor=scribe.actor,
                lease=f"{run.name}/{number}",
                run=run.name,
                partner=None,
                comp_path=draft.comp_path,
                bundle=draft.bundle,
                role=draft.role,
                slots=draft.slots,
                payer=draft.payer,
                tier=draft.tier,
                hold_gpu_ms=lease_gpus(draft.slots) * draft.hold_ms,
                start_ms=now_ms,
                reason=StartReason.START,
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


def end_run(scribe: Scribe, record: RunRecord, outcome: Outcome, note: str = "") -> None:
    """Write the end of every lease of the run, then of the run.

    Work that finished has stopped by itself; work that is cancelled is told to stop first. With no
    executor attached nothing is left to confirm, so both facts are written together.
    """
    reason = EndReason.END if outcome is Outcome.COMPLETED else EndReason.CANCELLED
    for lease in tuple(record.leases):
        end_lease(scribe, record, lease, reason, end_ms=scribe.now_ms)
    scribe.write(
        RunEnded(
            at_ms=scribe.now_ms,
            actor=scribe.actor,
            run=record.spec.name,
            outcome=outcome,
            note=note,
        )
    )


def end_lease(
    scribe: Scribe, record: RunRecord, lease: str, reason: EndReason, *, end_ms: int
) -> None:
    """Write the facts that end ``lease``, charged up to ``end_ms``."""
    now_ms, actor = scribe.now_ms, scribe.actor
    if reason is not EndReason.END:
        grace = grace_ms(record.spec, scribe.view.pools[record.spec.pool])
        deadline_ms = end_ms + grace
        scribe.write(
            LeaseEnding(
                at_ms=now_ms, actor=actor, lease=lease, reason=reason, deadline_ms=deadline_ms
            )
        )
    scribe.write(LeaseEnded(at_ms=now_ms, actor=actor, lease=lease, reason=reason, end_ms=end_ms))


def settle_holds(scribe: Scribe) -> None:
    """Extend every hold that has run out, or stop its bundle at the instant the money ended."""
    due = due_holds(scribe.view.holds_due(), scribe.now_ms)
    while due:
        ends_ms, name = heappop(due)
        view = scribe.view
        lease = view.leases.get(name)
        if lease is None or lease.hold_ends_ms != ends_ms:
            continue
        more_ms = extension_ms(view, lease, scribe.now_ms)
        if more_ms > 0:
            scribe.write(
                HoldExtended(
                    at_ms=scribe.now_ms,
                    actor=scribe.actor,
                    lease=name,
                    gpu_ms=more_ms * lease.gpus,
                )
            )
            if ends_ms + more_ms <= scribe.now_ms:
                heappush(due, (ends_ms + more_ms, name))
        else:
            window_end = view.envelopes[lease.fact.payer].spec.end_ms
            closed = ends_ms >= window_end
            reason = EndReason.WINDOW_CLOSED if closed else EndReason.BUDGET_EXHAUSTED
            stop_bundle(scribe, lease.fact.run, lease.fact.bundle, reason, end_ms=ends_ms)


def due_holds(heap: Sequence[tuple[int, str]], now_ms: int) -> list[tuple[int, str]]:
    """Return the entries of ``heap`` up to ``now_ms``, as a heap; it stays as it is."""
    found: list[tuple[int, str]] = []
    places = [0]
    while places:
        place = places.pop()
        if place < len(heap) and heap[place][0] <= now_ms:
            found.append(heap[place])
            places += (2 * place + 1, 2 * place + 2)
    heapify(found)
    return found


def stop_bundle(scribe: Scribe, run: str, bundle: int, reason: EndReason, *, end_ms: int) -> None:
    """Write the end of one bundle; without its first bundle the run goes back to the queue."""
    view = scribe.view
    record = view.runs[run]
    for name in list(record.leases):
        lease = view.leases[name]
        if bundle in (0, lease.fact.bundle):
            ended = max(end_ms, lease.fact.start_ms)
            end_lease(scribe, record, name, reason, end_ms=ended)
    if bundle == 0:
        scribe.write(RunRequeued(at_ms=scribe.now_ms, actor=scribe.actor, run=run, reason=reason))


def try_waiting(scribe: Scribe) -> None:
    """Try every waiting run, in the order of submission."""
    if not scribe.somebody_waits:
        return
    for name, _ in sorted(scribe.view.pending.items(), key=lambda entry: entry[1]):
        record = scribe.view.runs[name]
        try_start(scribe, record.spec, leases_ever=record.leases_ever, known=record.refusal)
