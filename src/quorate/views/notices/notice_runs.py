"""Notices of runs and of their owners' usage: starts, stops, losses, limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.documents.times import time_text
from quorate.model.amounts import PPM
from quorate.model.events import (
    ConflictResolved,
    EndReason,
    Event,
    LeaseEnding,
    LeaseStarted,
    LoanRecalled,
    NodeMarked,
    NodeStatus,
    Outcome,
    RecallWithdrawn,
    ReservationMoved,
    Role,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunStopping,
    Slots,
    StartReason,
    ThresholdCrossed,
    lease_gpus,
)
from quorate.model.notice_kinds import NoticeKind
from quorate.model.refusal import RefusalCode, sentence
from quorate.views.notices.notice import Known, NoticeContent
from quorate.views.redaction.redaction import unnamed
from quorate.views.runs.reason_words import bundle_words, ended
from quorate.views.word_forms import gpus, percent, slots

NODES_NAMED_MAX: Final = 4
"""How many nodes a text names, at most."""
_MONEY: Final = (EndReason.BUDGET_EXHAUSTED, EndReason.WINDOW_CLOSED)
_LOST: Final = (EndReason.FAIL, EndReason.DRAINED)
_STEPS: Final = {
    EndReason.OVERSTAYED: "Backfill",
    EndReason.RECLAIMED_BY_SPARE: "Reclaimed",
    EndReason.RECALLED: "Recalled",
    EndReason.START_REFUSED: "StartRefused",
}

Numbered = tuple[int, Event]


@dataclass(slots=True)
class _RunChanges:
    """The changes to one run by the events of a block."""

    started: list[tuple[int, LeaseStarted]] = field(default_factory=list)
    swapped: list[tuple[int, LeaseStarted]] = field(default_factory=list)
    stops: dict[EndReason, list[tuple[int, LeaseEnding]]] = field(default_factory=dict)
    waits_again: bool = False


def run_notices(numbered: Sequence[Numbered], known: Known) -> Iterator[NoticeContent]:
    """Yield the notices of runs and owners, without the notices of conflicts."""
    for seq, event in numbered:
        match event:
            case ThresholdCrossed():
                yield _threshold(seq, event)
            case ReservationMoved():
                yield _moved(seq, event, known)
            case LoanRecalled():
                yield _recalled(seq, event, known)
                yield _returning(seq, event, known)
            case RecallWithdrawn():
                yield _recall_withdrawn(seq, event, known)
            case RunRefused() if event.refusal.code is RefusalCode.WAITING_FOR_QUOTA:
                yield _parked(seq, event, known)
            case RunEnded(outcome=Outcome.COMPLETED):
                yield _completed(seq, event, known)
            case RunEnded(outcome=Outcome.FAILED):
                yield _failed(seq, event, known)
            case _:
                pass
    nodes = {e.node: e.status for _, e in numbered if isinstance(e, NodeMarked)}
    for run, changes in _changes_by_run(numbered).items():
        yield from _notices_of_run(run, changes, nodes, known)


def _notices_of_run(
    run: str, changes: _RunChanges, nodes: Mapping[str, NodeStatus], known: Known
) -> Iterator[NoticeContent]:
    # The lease of a returning spare starts like any lease, but its run was running all the time.
    if any(lease.role is not Role.SPARE for _, lease in changes.started):
        yield _started(run, changes, known)
    for reason in changes.stops:
        if reason in _MONEY:
            yield _stopped(NoticeKind.MONEY_ENDED, run, changes, reason, known)
        elif reason in _STEPS:
            yield _stopped(NoticeKind.RUN_CUT, run, changes, reason, known)
    if changes.swapped or any(reason in changes.stops for reason in _LOST):
        yield _lost(run, changes, nodes, known)


def _changes_by_run(numbered: Iterable[Numbered]) -> dict[str, _RunChanges]:
    """Return the changes to each run, without cuts, which the notices of conflicts report."""
    by_run: dict[str, _RunChanges] = {}
    cut: set[str] = set()
    for seq, event in numbered:
        match event:
            case ConflictResolved():
                cut |= {lease for each in event.cuts for lease in each.leases}
            case LeaseStarted(reason=StartReason.START):
                by_run.setdefault(event.run, _RunChanges()).started.append((seq, event))
            case LeaseStarted(reason=StartReason.SWAP) if event.role is not Role.SPARE:
                by_run.setdefault(event.run, _RunChanges()).swapped.append((seq, event))
            case LeaseEnding() if event.lease not in cut:
                changes = by_run.setdefault(event.lease.partition("/")[0], _RunChanges())
                changes.stops.setdefault(event.reason, []).append((seq, event))
            case RunRequeued():
                by_run.setdefault(event.run, _RunChanges()).waits_again = True
            case RunStopping(outcome=None):
                by_run.setdefault(event.run, _RunChanges()).waits_again = True
            case _:
                pass
    return by_run


def _about(run: str, known: Known) -> dict[str, str]:
    spec = known.run(run)
    return {"owner": spec.owner, "user": spec.user, "run": run}


def _started(run: str, changes: _RunChanges, known: Known) -> NoticeContent:
    seq, first = changes.started[0]
    held, spare, paid = 0, 0, dict[str, int]()
    for _, lease in changes.started:
        count = lease_gpus(lease.slots)
        held += count
        spare += count if lease.role is Role.SPARE else 0
        paid[lease.payer] = paid.get(lease.payer, 0) + count
    places = _joined(lease.slots for _, lease in changes.started)
    payers = ", ".join(f"{payer} ({count})" for payer, count in paid.items())
    kept = f", {spare} of them spare" if spare else ""
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.RUN_STARTED,
        **_about(run, known),
        text=(
            f"run/{run} started at {time_text(first.start_ms)} with {gpus(held)}{kept}, on "
            f"{slots(places, most=NODES_NAMED_MAX)}, paid from {payers}. Follow it: quorate watch "
            f"{run}"
        ),
        facts={
            "start": time_text(first.start_ms),
            "gpus": held,
            "gpusSpare": spare,
            "nodes": [node for node, _ in places],
            "payers": paid,
        },
    )


def _moved(seq: int, event: ReservationMoved, known: Known) -> NoticeContent:
    run = event.reservation.rpartition("@")[0]
    start_ms, cause = event.planned_start_ms, unnamed(event.cause)
    if start_ms is None:
        what = f"run/{run} has no planned start any more"
        look = f"What would start it: quorate explain {run}"
    else:
        what = f"the firm start of run/{run} is now {time_text(start_ms)}"
        look = f"The conditions of that start: quorate plan {run}"
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.START_MOVED,
        **_about(run, known),
        text=(
            f"{what} ({event.status}), for {gpus(event.slice.gpus)} of {event.slice.flavor}: "
            f"{cause}. {look}"
        ),
        facts={
            "reservation": event.reservation,
            "status": event.status.value,
            "plannedStart": None if start_ms is None else time_text(start_ms),
            "gpus": event.slice.gpus,
            "cause": cause,
        },
    )


def _recalled(seq: int, event: LoanRecalled, known: Known) -> NoticeContent:
    """Return the notice for the borrower; it does not name the lender's run."""
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.LOAN_RECALLED,
        **_about(event.run, known),
        text=(
            f"{event.payer} has recalled its loan to run/{event.run}: "
            f"{bundle_words(event.bundle)} continues until {time_text(event.due_ms)} at the "
            f"latest, and after that only if others pay for it. Save its work before then. Its "
            f"state: quorate plan {event.run}"
        ),
        facts={
            "payer": event.payer,
            "bundle": event.bundle,
            "due": time_text(event.due_ms),
        },
    )


def _returning(seq: int, event: LoanRecalled, known: Known) -> NoticeContent:
    """Return the notice for the lender; it does not name the run that borrows."""
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.LOAN_RETURNING,
        **_about(event.waiting_run, known),
        text=(
            f"{event.payer} has recalled a loan for run/{event.waiting_run}: its GPUs are free at "
            f"{time_text(event.due_ms)}. When the run starts: quorate plan {event.waiting_run}"
        ),
        facts={"payer": event.payer, "due": time_text(event.due_ms)},
    )


def _recall_withdrawn(seq: int, event: RecallWithdrawn, known: Known) -> NoticeContent:
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.RECALL_WITHDRAWN,
        **_about(event.run, known),
        text=(
            f"run/{event.run} was recalled and continues, {bundle_words(event.bundle)}: it has "
            f"payers, and no firm start needs its GPUs. Who pays: quorate describe run {event.run}"
        ),
        facts={"bundle": event.bundle},
    )


def _threshold(seq: int, event: ThresholdCrossed) -> NoticeContent:
    used = percent(event.used_ppm, PPM)
    where = (
        f"has used {used} of a soft budget of its quota, and has reached {event.percent} %"
        if event.is_above
        else (
            f"has used {used} of a soft budget of its quota, and is clearly below "
            f"{event.percent} % again"
        )
    )
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.THRESHOLD_CROSSED,
        owner=event.owner,
        user="",
        run="",
        text=(
            f"owner/{event.owner} {where}. From 80 % on its runs fall back in the queue, from "
            f"100 % on they come last; none is stopped. Who used it: quorate usage --tenant "
            f"{event.owner}"
        ),
        facts={
            "percent": event.percent,
            "direction": "above" if event.is_above else "below",
            "usedPercent": used.removesuffix(" %"),
        },
    )


def _parked(seq: int, event: RunRefused, known: Known) -> NoticeContent:
    refusal = event.refusal
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.QUOTA_PARKED,
        **_about(event.run, known),
        text=(
            f"run/{event.run} is parked, {sentence(refusal)}. It is tried again when there may be "
            f"headroom. What would start it: quorate explain {event.run}"
        ),
        facts={
            "tenant": refusal.subject,
            "current": refusal.current,
            "limit": refusal.limit,
            "wanted": refusal.wanted,
        },
    )


def _completed(seq: int, event: RunEnded, known: Known) -> NoticeContent:
    note = f": {event.note}" if event.note else ""
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.RUN_COMPLETED,
        **_about(event.run, known),
        text=(
            f"run/{event.run} completed{note}. What it wrote: quorate logs {event.run}. Who paid: "
            f"quorate describe run {event.run}"
        ),
        facts={"outcome": event.outcome.value, "note": event.note},
    )


def _failed(seq: int, event: RunEnded, known: Known) -> NoticeContent:
    note = f": {event.note}" if event.note else ""
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.RUN_FAILED,
        **_about(event.run, known),
        text=(
            f"run/{event.run} failed{note}. It is over, and its GPUs are free. What it wrote: "
            f"quorate logs {event.run}. What happened to it: quorate ledger log --run {event.run}"
        ),
        facts={"outcome": event.outcome.value, "note": event.note},
    )


def _stopped(
    kind: NoticeKind, run: str, changes: _RunChanges, reason: EndReason, known: Known
) -> NoticeContent:
    stops = changes.stops[reason]
    until_ms = max(event.deadline_ms for _, event in stops)
    then = (
        f"waits again, in its old place in the queue; what would start it: quorate explain {run}"
        if changes.waits_again
        else f"continues with its other GPUs: quorate describe run {run}"
    )
    return NoticeContent(
        seq=stops[0][0],
        kind=kind,
        **_about(run, known),
        text=(
            f"run/{run} has to stop {_leases(stops)}: {ended(reason)}. It has until "
            f"{time_text(until_ms)} to save its work, and {then}"
        ),
        facts={
            "reason": reason.value,
            "step": _STEPS.get(reason),
            "leases": [event.lease for _, event in stops],
            "deadline": time_text(until_ms),
            "waitsAgain": changes.waits_again,
        },
    )


def _leases(stops: Sequence[tuple[int, LeaseEnding]]) -> str:
    return f"lease/{stops[0][1].lease}" if len(stops) == 1 else f"{len(stops)} leases"


def _lost(
    run: str, changes: _RunChanges, nodes: Mapping[str, NodeStatus], known: Known
) -> NoticeContent:
    """Return the notice for a run whose node failed or was drained."""
    stops = [each for reason in _LOST for each in changes.stops.get(reason, ())]
    seq = min(seq for seq, _ in (*stops, *changes.swapped))
    why = ", ".join(f"node/{node} is {status}" for node, status in nodes.items())
    parts = []
    if changes.swapped:
        count = sum(lease_gpus(lease.slots) for _, lease in changes.swapped)
        places = slots(_joined(lease.slots for _, lease in changes.swapped), most=NODES_NAMED_MAX)
        parts.append(
            f"the lost GPUs are replaced, and its group continues with {gpus(count)} on {places}"
        )
    outcome = "swapped"
    if changes.waits_again:
        outcome = "requeued"
        parts = [
            "it waits again, in its old place in the queue, to start from its last checkpoint: "
            + _when(run)
        ]
    elif stops:
        outcome = "shrunk"
        parts.append(f"{_leases(stops)} stopped, and it continues with fewer GPUs")
    return NoticeContent(
        seq=seq,
        kind=NoticeKind.NODE_LOST,
        **_about(run, known),
        text=(
            f"run/{run} lost part of what it works on{f' ({why})' if why else ''}: "
            f"{'; '.join(parts)}. Its state: quorate describe run {run}"
        ),
        facts={"outcome": outcome, "nodes": _marked(nodes), "waitsAgain": changes.waits_again},
    )


def _when(run: str) -> str:
    return f"quorate plan {run}"


def _marked(nodes: Mapping[str, NodeStatus]) -> list[dict[str, Any]]:
    return [{"node": node, "status": status.value} for node, status in nodes.items()]


def _joined(found: Iterable[Slots]) -> Slots:
    """Return the slots of several leases together, each node once."""
    masks: dict[str, int] = {}
    for each in found:
        for node, mask in each:
            masks[node] = masks.get(node, 0) | mask
    return tuple(masks.items())
