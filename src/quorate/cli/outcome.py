"""What a command did, or would do: its decision as lines for people, or as a tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quorate.cli.kinds_work import LEASE_COLUMNS, lease_cells
from quorate.cli.moment import Moment
from quorate.cli.table import indented, table
from quorate.cli.words import gpus, hours, refusal_lines
from quorate.core.commands import Change, Decision
from quorate.ledger.chain import Head
from quorate.ledger.codec import event_to_json
from quorate.model.events import (
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    RunEnded,
    RunRefused,
    RunRequeued,
    lease_gpus,
)
from quorate.model.records import TERMINAL, Lease
from quorate.model.words import counted

NODES_SHOWN_MAX = 4


def outcome_lines(
    decision: Decision, moment: Moment, ended: Mapping[str, Lease], *, dry_run: bool
) -> list[str]:
    """Return what ``decision`` changes, one thing a line.

    ``moment`` is the state with its events in it; ``ended`` has the leases that were open before.
    """
    mark = " (dry run)" if dry_run else ""
    lines = [
        f"{kind.lower()}/{name} {change}{_over(moment, kind, name, change)}{mark}"
        for kind, name, change in decision.changes
    ]
    # A run of a dry run is not there to be asked about.
    unreal = {
        name for _, name, change in decision.changes if dry_run and change is Change.SUBMITTED
    }
    starts: dict[str, list[LeaseStarted]] = {}
    for event in decision.events:
        match event:
            case LeaseStarted():
                starts.setdefault(event.run, []).append(event)
            case RunRefused():
                lines += _waits(event, ask=event.run not in unreal)
            case HoldExtended():
                lines.append(f"lease/{event.lease} holds {hours(event.gpu_ms)} GPU-hours more")
            case LeaseEnded():
                lines.append(_ended(event, ended[event.lease]))
            case RunRequeued():
                lines.append(f"run/{event.run} waits again: {event.reason}")
            case RunEnded():
                lines.append(f"run/{event.run} {event.outcome.lower()}")
            case _:
                pass
    for run, facts in starts.items():
        lines += _started(moment, run, facts)
    return lines


def _over(moment: Moment, kind: str, name: str, change: Change) -> str:
    """Return a mark for a run that is unchanged because it is over: it does not run again."""
    if kind != "Run" or change is not Change.UNCHANGED:
        return ""
    phase = moment.view.runs[name].phase
    return f" (it is {phase}; choose another name to run it again)" if phase in TERMINAL else ""


def _waits(event: RunRefused, *, ask: bool) -> list[str]:
    first, *rest = refusal_lines(event.refusal)
    why = [f"  why: quorate explain {event.run}"] if ask else []
    return [f"run/{event.run} waits: {first}", *rest, *why]


def _ended(event: LeaseEnded, lease: Lease) -> str:
    used = lease.gpus * (event.end_ms - lease.fact.start_ms)
    return (
        f"lease/{event.lease} ended: {event.reason}, {gpus(lease.gpus)} free, "
        f"{hours(used)} GPU-hours paid from {lease.fact.payer}"
    )


def _started(moment: Moment, run: str, facts: Sequence[LeaseStarted]) -> list[str]:
    total = sum(lease_gpus(fact.slots) for fact in facts)
    flavor = moment.view.nodes[facts[0].slots[0][0]].spec.flavor
    rows = [lease_cells(moment, fact, most=NODES_SHOWN_MAX) for fact in facts]
    head = f"run/{run} started on {counted(total, f'{flavor} GPU')}"
    return [head, *indented(table(LEASE_COLUMNS, rows)).splitlines()]


def recorded_line(head: Head, count: int) -> str:
    """Return where ``count`` events that end at ``head`` are recorded."""
    if count == 0:
        return "nothing to record"
    first = head.seq - count + 1
    where = f"sequence {first}" if count == 1 else f"sequence {first}-{head.seq}"
    return f"recorded {where} in block {head.height}, hash {head.hash.hex()}"


def receipt_line(head: Head) -> str:
    """Return what proves, kept elsewhere, that the ledger reached ``head``."""
    return f"receipt {head.height}:{head.hash.hex()}"


def outcome_tree(decision: Decision, head: Head | None, seq: int) -> dict[str, Any]:
    """Return ``decision`` for programs; ``head`` None is a dry run, ``seq`` the last one before."""
    return {
        "dryRun": head is None,
        "changes": [
            {"kind": kind, "name": name, "change": change.value}
            for kind, name, change in decision.changes
        ],
        "warnings": list(decision.warnings),
        "events": [
            event_to_json(number, event)
            for number, event in enumerate(decision.events, start=seq + 1)
        ],
        "head": None
        if head is None
        else {
            "height": head.height,
            "sequence": head.seq,
            "hash": head.hash.hex(),
            "receipt": f"{head.height}:{head.hash.hex()}",
        },
    }
