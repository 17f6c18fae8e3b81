"""The effect of a command, or of a dry run: its decision as lines for people or as a tree. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from quorate.core.commands import Change, Decision
from quorate.core.lifecycle.loan_terms import loans_of
from quorate.documents.times import time_text
from quorate.ledger.chain import Head
from quorate.ledger.codec import event_to_json
from quorate.model.closed_words import counted
from quorate.model.events import (
    BudgetFellBack,
    BudgetReported,
    EndReason,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeMarked,
    NodesClaimed,
    NodeStatus,
    NodeWiped,
    ReservationMade,
    Role,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunStopping,
    StartReason,
    ThresholdCrossed,
    lease_gpus,
)
from quorate.model.state.records import TERMINAL, Lease, Phase
from quorate.model.state.state_view import StateView
from quorate.views.kinds.kinds_work import LEASE_COLUMNS, lease_cells
from quorate.views.runs.array_outcome import without_arrays
from quorate.views.runs.event_text import format_event
from quorate.views.runs.instant import Moment, run_width
from quorate.views.runs.loan_words import loan_lines
from quorate.views.runs.plan_words import plan_of, start_words
from quorate.views.runs.promise_view import barred_lines, plan_lines
from quorate.views.runs.reason_words import ended, lease_stopping, run_stopping
from quorate.views.runs.run_history import continuing_lines, handover_lines, touched
from quorate.views.runs.tried_words import said
from quorate.views.runs.wait_reasons import reason_now
from quorate.views.table import indented, table
from quorate.views.word_forms import gpus, hours, names, refusal_lines

NODES_SHOWN_MAX = 4
_PLANS_MAX: Final = 20
"""For how many submitted runs, at most, the planned start is shown."""

_GOING_ON: Final = (StartReason.SWAP, StartReason.HANDOVER)
_MARKED: Final = {
    NodeStatus.READY: "is ready",
    NodeStatus.CORDONED: "is cordoned",
    NodeStatus.FAILED: "has failed",
}
_SLOTS: Final = {
    NodeStatus.READY: "free",
    NodeStatus.CORDONED: "withheld",
    NodeStatus.FAILED: "lost",
}


def outcome_lines(
    decision: Decision, moment: Moment, before: Mapping[str, Lease], *, dry_run: bool
) -> list[str]:
    """Return what ``decision`` changes, one change a line.

    ``moment`` is the state after the decision's events; ``before`` has the leases that were open
    before these events.
    """
    runs = {name: lease.fact.run for name, lease in before.items()}
    mine = {name for _, name, change in decision.changes if change is Change.SUBMITTED}
    decision, summed = without_arrays(decision, moment.view, runs, dry_run=dry_run)
    events = decision.events
    mark = " (dry run)" if dry_run else ""
    lines = [
        f"{kind.lower()}/{name} {change}{_over(moment, kind, name, change)}{mark}"
        for kind, name, change in decision.changes
    ]
    # A run that a dry run submits does not exist afterwards, so no command can show it.
    unreal = {
        name for _, name, change in decision.changes if dry_run and change is Change.SUBMITTED
    }
    # Due changes are decided first, so they are shown first.
    lines += handover_lines(events, before)
    lines += summed
    shown, others = _own_events(events, mine)
    lines += _event_lines(shown, moment, before, unreal, dry_run=dry_run)
    lines += _plan_lines(decision, moment, unreal)
    lines += others
    lines += continuing_lines(events, before, _held(events, moment.view))
    for reason in (StartReason.START, StartReason.GROW):
        starts: dict[str, list[LeaseStarted]] = {}
        for event in events:
            if isinstance(event, LeaseStarted) and event.reason is reason:
                starts.setdefault(event.run, []).append(event)
        for run, facts in starts.items():
            lines += _started(moment, run, facts, dry_run=dry_run)
    return lines


def _own_events(
    events: Sequence[Event], mine: Collection[str]
) -> tuple[Sequence[Event], list[str]]:
    """Return the events that get lines of their own, and a line that counts all further events.

    A user who submitted the runs ``mine`` need not read why other runs still wait.
    """
    is_others = [
        bool(mine) and isinstance(event, RunRefused) and event.run not in mine for event in events
    ]
    shown = [event for event, other in zip(events, is_others, strict=True) if not other]
    count = sum(is_others)
    if not count:
        return shown, []
    what = "other run waits" if count == 1 else "other runs wait"
    return shown, [f"{count} {what} for another reason now; see: quorate queue"]


def _plan_lines(decision: Decision, moment: Moment, unreal: Collection[str]) -> list[str]:
    """Return the planned starts of submitted runs that wait without a firm start.

    In a pool that shares in rounds, no start is planned; the line says when the next round begins.
    """
    lines: list[str] = []
    for kind, name, change in decision.changes:
        record = moment.view.runs.get(name) if kind == "Run" else None
        if change is not Change.SUBMITTED or record is None or len(lines) >= _PLANS_MAX:
            continue
        if record.phase is not Phase.PENDING or record.reservation is not None:
            continue
        if record.spec.sensitive:
            continue
        if name in moment.view.in_rounds:
            lines.append(f"run/{name} waits: {reason_now(moment, record).text()}")
            continue
        state, start_ms = plan_of(moment, record)
        told = start_words(state, start_ms, moment.now_ms)
        ask = f"conditions: quorate plan {name}"
        if start_ms is None:
            ask = f"what would help: quorate explain {name}"
        lines.append(f"run/{name} {told}" if name in unreal else f"run/{name} {told}; {ask}")
    return lines


def _event_lines(  # noqa: C901, PLR0912 - one line per event
    events: Sequence[Event],
    moment: Moment,
    before: Mapping[str, Lease],
    unreal: Collection[str],
    *,
    dry_run: bool,
) -> list[str]:
    """Return the lines of each event, in their order.

    ``unreal`` has the runs that only this dry run created; no later command can show them.
    """
    facts = {name: lease.fact for name, lease in before.items()}
    facts |= {event.lease: event for event in events if isinstance(event, LeaseStarted)}
    gone = {event.lease for event in events if isinstance(event, LeaseEnded)}
    again = _runs_started(events)
    passed_on = _passed_on(events, facts)
    lines: list[str] = []
    firm: list[str] = []  # The reason for waiting comes before the planned start.
    for event in events:
        match event:
            case NodeMarked():
                lines.append(_marked(event, moment, before, dry_run=dry_run))
            case NodesClaimed() | NodeWiped():
                lines.append(_claim_line(event))
            case ThresholdCrossed() | BudgetReported() | BudgetFellBack():
                lines.append(format_event(event))
            case RunRefused():
                lines += _waits(event, ask=event.run not in unreal, dry_run=dry_run)
            case HoldExtended():
                verb = said("holds", dry_run=dry_run)
                lines.append(f"lease/{event.lease} {verb} {hours(event.gpu_ms)} GPU-hours more")
            case LeaseEnding() if event.lease not in gone:
                lines.append(f"lease/{event.lease} {lease_stopping(event, dry_run=dry_run)}")
            case LeaseEnded() if event.lease not in passed_on:
                lines.append(_ended(event, facts[event.lease], moment, dry_run=dry_run))
            case RunStopping():
                lines.append(run_stopping(event, dry_run=dry_run))
            case RunRequeued():
                what = said("starts over" if event.run in again else "waits again", dry_run=dry_run)
                lines.append(_requeued(event, what, _lost_nodes(event.run, events, facts)))
            case RunEnded():
                note = f": {event.note}" if event.note else ""
                verb = said(event.outcome.lower(), dry_run=dry_run)
                lines.append(f"run/{event.run} {verb}{note}")
                lines += barred_lines(event, moment)
            case ReservationMade():
                firm += plan_lines(event, moment, ask=event.run not in unreal, dry_run=dry_run)
            case _:
                lines += plan_lines(event, moment)
    return [*lines, *firm]


def _lost_nodes(run: str, events: Sequence[Event], facts: Mapping[str, LeaseStarted]) -> list[str]:
    """Return the nodes whose failure hit ``run``."""
    failed = {
        event.node
        for event in events
        if isinstance(event, NodeMarked) and event.status is NodeStatus.FAILED
    }
    leases = (facts[event.lease] for event in events if isinstance(event, LeaseEnded))
    return sorted(
        {node for lease in leases if lease.run == run for node, _ in lease.slots} & failed
    )


def _requeued(event: RunRequeued, what: str, lost: Sequence[str]) -> str:
    if event.reason is EndReason.FAIL and lost:
        nodes = "node" if len(lost) == 1 else "nodes"
        return f"run/{event.run} lost {nodes} {', '.join(lost)} and {what}"
    return f"run/{event.run} {what}: {ended(event.reason)}"


def _held(events: Sequence[Event], view: StateView) -> dict[str, Lease]:
    """Return the open leases of the runs whose leases changed."""
    records = [view.runs[run] for run in touched(events)]
    return {name: view.leases[name] for record in records for name in record.leases}


def _over(moment: Moment, kind: str, name: str, change: Change) -> str:
    """Return a note for a run that is unchanged because it is over, so it will not run again."""
    if kind != "Run" or change is not Change.UNCHANGED:
        return ""
    phase = moment.view.runs[name].phase
    return f" (it is {phase}; choose another name to run it again)" if phase in TERMINAL else ""


def _runs_started(events: Iterable[Event]) -> set[str]:
    """Return the runs that were admitted."""
    return {
        event.run
        for event in events
        if isinstance(event, LeaseStarted) and event.reason is StartReason.START
    }


def _passed_on(events: Sequence[Event], facts: Mapping[str, LeaseStarted]) -> set[str]:
    """Return the ended leases whose slots stayed with their run; ``run_history`` reports them."""
    kept: dict[tuple[str, str], int] = {}
    found: set[str] = set()
    for event in reversed(events):
        if isinstance(event, LeaseStarted) and event.reason in _GOING_ON:
            for node, mask in event.slots:
                kept[event.run, node] = kept.get((event.run, node), 0) | mask
        elif isinstance(event, LeaseEnded):
            fact = facts[event.lease]
            if any(kept.get((fact.run, node), 0) & mask for node, mask in fact.slots):
                found.add(event.lease)
    return found


def _marked(
    event: NodeMarked, moment: Moment, before: Mapping[str, Lease], *, dry_run: bool
) -> str:
    note = f": {event.note}" if event.note else ""
    line = f"node/{event.node} {said(_MARKED[event.status], dry_run=dry_run)}{note}"
    if event.status is NodeStatus.READY:
        return line
    if not any(_is_on(lease, event.node) for lease in before.values()):
        return f"{line}; no work was on it"
    names_on = moment.view.node_leases.get(event.node, ())
    staying = dict.fromkeys(moment.view.leases[name].fact.run for name in names_on)
    return f"{line}; still on it: {names(staying)}" if staying else line


def _claim_line(event: NodesClaimed | NodeWiped) -> str:
    if isinstance(event, NodesClaimed):
        end = time_text(event.end_ms)
        return f"claim/{event.claim} of {event.user}: {names(event.nodes)} until {end}"
    note = f": {event.note}" if event.note else ""
    line = f"node/{event.node} was wiped after claim {event.claim}"
    if not event.is_clean:
        line = f"node/{event.node} could not be wiped after claim {event.claim} and is quarantined"
    return f"{line}{note}"


def _is_on(lease: Lease, node: str) -> bool:
    return any(place == node for place, _ in lease.fact.slots)


def _waits(event: RunRefused, *, ask: bool, dry_run: bool) -> list[str]:
    first, *rest = refusal_lines(event.refusal)
    why = [f"  why: quorate explain {event.run}"] if ask else []
    return [f"run/{event.run} {said('waits', dry_run=dry_run)}: {first}", *rest, *why]


def _ended(event: LeaseEnded, fact: LeaseStarted, moment: Moment, *, dry_run: bool) -> str:
    used = lease_gpus(fact.slots) * (event.end_ms - fact.start_ms)
    return (
        f"lease/{event.lease} {said('ended', dry_run=dry_run)}: {event.reason}, "
        f"{_released(fact, moment)}, "
        f"{hours(used)} GPU-hours paid from {fact.payer}"
    )


def _released(fact: LeaseStarted, moment: Moment) -> str:
    """Return what happens to the slots of an ended lease; they become free only on ready nodes."""
    if fact.role is Role.CLAIM:
        return f"{gpus(lease_gpus(fact.slots))} to be wiped"
    counts: dict[NodeStatus, int] = {}
    for node, mask in fact.slots:
        status = moment.view.node_status.get(node, NodeStatus.READY)
        counts[status] = counts.get(status, 0) + mask.bit_count()
    return ", ".join(
        f"{gpus(counts[each])} {_SLOTS[each]}" for each in NodeStatus if each in counts
    )


def _started(
    moment: Moment, run: str, facts: Sequence[LeaseStarted], *, dry_run: bool
) -> list[str]:
    total = sum(lease_gpus(fact.slots) for fact in facts)
    flavor = moment.view.nodes[facts[0].slots[0][0]].spec.flavor
    rows = [lease_cells(moment, fact, most=NODES_SHOWN_MAX) for fact in facts]
    verb = said("started", dry_run=dry_run)
    head = f"run/{run} {verb} on {counted(total, f'{flavor} GPU')}"
    if facts[0].reason is StartReason.GROW:
        grown = sum(lease_gpus(fact.slots) for fact in facts if fact.role is not Role.SPARE)
        width = run_width(moment, moment.view.runs[run])
        verb = said("grows", dry_run=dry_run)
        head = f"run/{run} {verb}: from {width - grown} to {counted(width, f'{flavor} GPU')}"
    loans = loan_lines(loans_of(moment.view, moment.view.runs[run]), moment.now_ms)
    return [
        head,
        *indented(table(LEASE_COLUMNS, rows)).splitlines(),
        *(f"  {line}" for line in loans),
    ]


def recorded_line(head: Head, count: int, blocks: int = 1) -> str:
    """Return where the last ``count`` events, in the last ``blocks`` blocks, are recorded."""
    return recorded_at(head, head.seq - count + 1, count, blocks)


def recorded_at(head: Head, first: int, count: int, blocks: int = 1) -> str:
    """Return where ``count`` events are recorded; ``first`` is the first sequence number.

    The last of these events is in the block that ends at ``head``; more events may follow it there.
    """
    if count == 0:
        return "nothing to record"
    where = f"sequence {first}" if count == 1 else f"sequence {first}-{first + count - 1}"
    block = f"block {head.height}"
    if blocks > 1:
        block = f"blocks {head.height - blocks + 1}-{head.height}"
    return f"recorded {where} in {block}, hash {head.hash.hex()}"


def receipt_line(head: Head) -> str:
    """Return the receipt for ``head``.

    A user who keeps the receipt elsewhere can prove that the ledger once had this head.
    """
    return f"receipt {head.height}:{head.hash.hex()}"


def outcome_tree(
    decision: Decision, head: Head | None, events: Iterable[tuple[int, Event]]
) -> dict[str, Any]:
    """Return ``decision`` for programs; ``head`` is None for a dry run.

    ``events`` are pairs of a sequence number and an event.
    """
    return {
        "dryRun": head is None,
        "changes": [
            {"kind": kind, "name": name, "change": change.value}
            for kind, name, change in decision.changes
        ],
        "warnings": list(decision.warnings),
        "events": [event_to_json(number, event) for number, event in events],
        "head": None
        if head is None
        else {
            "height": head.height,
            "sequence": head.seq,
            "hash": head.hash.hex(),
            "receipt": f"{head.height}:{head.hash.hex()}",
        },
    }
