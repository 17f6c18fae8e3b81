"""The effect of a decision on arrays, summed up: a thousand tasks take a few lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import Change, Decision
from quorate.model.closed_words import counted
from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    ReservationMade,
    RunEnded,
    RunRefused,
    RunStopping,
    RunSubmitted,
    StartReason,
)
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import indexes_text
from quorate.views.runs.tried_words import said

_SUMMED: Final = (
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    ReservationMade,
    RunEnded,
    RunRefused,
    RunStopping,
    RunSubmitted,
)
"""Events of tasks. If several tasks of an array change, these events are counted, not listed."""


def without_arrays(
    decision: Decision, view: StateView, leases: Mapping[str, str], *, dry_run: bool
) -> tuple[Decision, list[str]]:
    """Return ``decision`` without the tasks of arrays, and the lines that sum these up.

    ``leases`` maps each lease that was open before the decision to its run. If only one task of an
    array changes, its events stay in the decision.
    """
    arrays = _changed_arrays(decision, view)
    if not arrays:
        return decision, []
    runs = {name for names in arrays.values() for name in names}
    leases = {**leases, **_started_leases(decision.events)}
    events: list[Event] = []
    summed: dict[str, list[Event]] = {}
    for event in decision.events:
        run = _run_of(event, leases)
        if run in runs and isinstance(event, _SUMMED):
            summed.setdefault(run, []).append(event)
        else:
            events.append(event)
    others = tuple(each for each in decision.changes if each[1] not in runs)
    changes = {name: change for _, name, change in decision.changes}
    lines: list[str] = []
    mark = " (dry run)" if dry_run else ""
    for array, names in arrays.items():
        lines += _lines(view, array, names, changes, summed, mark=mark, dry_run=dry_run)
    return replace(decision, events=tuple(events), changes=others), lines


def _changed_arrays(decision: Decision, view: StateView) -> dict[str, list[str]]:
    """Return the arrays of which ``decision`` changes several tasks, with those tasks."""
    named = [name for kind, name, _ in decision.changes if kind == "Run"]
    named += [each.run for each in decision.events if isinstance(each, RunEnded | RunStopping)]
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(named):
        record = view.runs.get(name)
        if record is not None and record.spec.array is not None:
            found.setdefault(record.spec.array.name, []).append(name)
    return {array: names for array, names in found.items() if len(names) > 1}


def _started_leases(events: Iterable[Event]) -> dict[str, str]:
    return {event.lease: event.run for event in events if isinstance(event, LeaseStarted)}


def _run_of(event: Event, leases: Mapping[str, str]) -> str:
    if isinstance(event, RunSubmitted):
        return event.run.name
    if isinstance(event, LeaseEnded | LeaseEnding):
        return leases[event.lease]
    run = getattr(event, "run", "")
    return run if isinstance(run, str) else ""


def _lines(  # noqa: PLR0913 - one array, and what is said of it
    view: StateView,
    array: str,
    names: list[str],
    changes: Mapping[str, Change],
    summed: Mapping[str, list[Event]],
    *,
    mark: str,
    dry_run: bool,
) -> list[str]:
    """Return what happens to the tasks ``names`` of ``array``, a line for each kind of change."""
    by_change: dict[Change, list[str]] = {}
    by_verb: dict[str, list[str]] = {}
    for name in names:
        if name in changes:
            by_change.setdefault(changes[name], []).append(name)
        for verb in dict.fromkeys(map(_verb, summed.get(name, ()))):
            if verb:
                by_verb.setdefault(verb, []).append(name)
    lines = [
        f"run/{array} {change}: {_tasks(view, array, tasks)}{mark}"
        for change, tasks in by_change.items()
    ]
    lines += [
        f"run/{array} {said(verb, dry_run=dry_run)}: {_tasks(view, array, tasks)}"
        for verb, tasks in by_verb.items()
    ]
    waiting = by_verb.get("waits")
    if waiting and not dry_run:
        lines.append(f"  why: quorate explain {waiting[0]}")
    return lines


def _verb(event: Event) -> str:
    """Return the verb for the effect of ``event`` on a task; empty if another event shows it."""
    match event:
        case LeaseStarted(reason=StartReason.START):
            return "started"
        case RunRefused():
            return "waits"
        case RunEnded():
            return str(event.outcome.lower())
        case RunStopping():
            return "stopping"
        case _:
            return ""


def _tasks(view: StateView, array: str, names: list[str]) -> str:
    tasks = (view.runs[name].spec.task for name in names)
    indexes = sorted(each for each in tasks if each is not None)
    return f"{counted(len(names), 'task')}, {array}[{indexes_text(indexes)}]"
