"""Arrays as people and programs see them: their tasks counted by phase. Pure.

An array is shown as one run: its document, and a status that sums up the statuses of its tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.documents import render, to_yaml
from quorate.documents.times import time_text
from quorate.model.closed_words import counted
from quorate.model.state.records import Phase, RunRecord
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import document_of, indexes_text, task_names, tasks_text
from quorate.views.runs.funding_tree import funding_tree, joined_charges
from quorate.views.runs.instant import Moment, charges_of, domains_of, leases_of, run_width
from quorate.views.table import Column, right, table
from quorate.views.word_forms import age, hours, names, one_line, since

Tree = dict[str, Any]

_ORDER: Final = (Phase.RUNNING, Phase.PENDING, Phase.FAILED, Phase.CANCELLED, Phase.COMPLETED)
"""The phase of an array is the first of these phases that any of its tasks has."""
_TASK_COLUMNS: Final = (Column("PHASE"), right("TASKS"), Column("WHICH"), Column("NOTE"))
_NOTES_MAX: Final = 3


def tasks_of(view: StateView, array: str) -> Iterator[RunRecord]:
    """Yield the tasks of ``array`` by their index."""
    spec = view.runs[view.arrays[array].first].spec
    assert spec.array is not None, spec
    return (view.runs[name] for name in task_names(spec.array))


def count_phases(records: Iterable[RunRecord]) -> dict[Phase, int]:
    """Return the number of ``records`` in each phase, without phases that have none."""
    found = Counter(record.phase for record in records)
    return {phase: found[phase] for phase in Phase if found[phase]}


def phase_of(counts: Mapping[Phase, int]) -> Phase:
    """Return the phase of an array, given how many tasks it has in each phase."""
    return next(phase for phase in _ORDER if phase in counts)


def counts_text(counts: Mapping[Phase, int]) -> str:
    """Return ``counts`` in words: ``10 tasks: 4 Running, 6 Pending``."""
    parts = ", ".join(f"{counts[phase]} {phase}" for phase in _ORDER if phase in counts)
    return f"{counted(sum(counts.values()), 'task')}: {parts}"


def array_row(moment: Moment, array: str) -> tuple[str, ...]:
    """Return the cells of an array in a list of runs."""
    records = list(tasks_of(moment.view, array))
    spec, counts = records[0].spec, count_phases(records)
    leases = [lease for each in records for lease in leases_of(moment, each.leases)]
    started = [each.started_ms for each in records if each.started_ms is not None]
    charges = [charge for each in records for charge in charges_of(moment, each)]
    return (
        array,
        spec.owner,
        phase_of(counts).value,
        str(sum(lease.gpus for lease in leases) or spec.gpus),
        names(spec.flavors),
        names(domains_of(moment, (lease.fact for lease in leases)), most=2),
        age(moment.now_ms - records[0].submitted_ms),
        counts_text(counts),
        "-",
        "-",
        spec.user or "-",
        time_text(records[0].submitted_ms),
        time_text(min(started)) if started else "-",
        names(dict.fromkeys(charge.payer for charge in charges)),
        hours(sum(charge.gpu_ms for charge in charges)),
    )


def array_tree(moment: Moment, array: str) -> Tree:
    """Return the document of an array, with the status of its tasks."""
    records = list(tasks_of(moment.view, array))
    counts = count_phases(records)
    leases = [lease for each in records for lease in leases_of(moment, each.leases)]
    started = [each.started_ms for each in records if each.started_ms is not None]
    charges = (each for record in records for each in charges_of(moment, record))
    known = moment.view.arrays[array]
    status: Tree = {
        "phase": phase_of(counts).value,
        "tasks": {phase.value: count for phase, count in counts.items()},
        "sequence": records[0].seq,
        "submitted": time_text(records[0].submitted_ms),
        "started": time_text(min(started)) if started else None,
        "ended": None if known.open_tasks or known.ended_ms is None else time_text(known.ended_ms),
        "gpus": sum(lease.gpus for lease in leases),
        "width": sum(run_width(moment, each) for each in records if each.leases),
        "domains": domains_of(moment, (lease.fact for lease in leases)),
        "leases": [lease.fact.lease for lease in leases],
        "funding": funding_tree(moment, joined_charges(charges)),
    }
    return {
        **render(document_of(records[0].spec)),
        "status": {key: value for key, value in status.items() if value is not None},
    }


def array_sections(moment: Moment, array: str) -> list[str]:
    """Return everything about an array, for people: its tasks by phase, and its document."""
    records = list(tasks_of(moment.view, array))
    spec, counts = records[0].spec, count_phases(records)
    assert spec.array is not None, spec
    charges = [charge for each in records for charge in charges_of(moment, each)]
    limit = spec.array.at_once_max
    facts = [
        ("Name", array),
        ("Owner", spec.owner),
        ("User", spec.user or "-"),
        ("Phase", f"{phase_of(counts)}; {counts_text(counts)}"),
        ("Tasks", tasks_text(spec.array) + (f": {limit} at once" if limit is not None else "")),
        ("Each wants", f"{spec.gpus} x {names(spec.flavors)} in pool {spec.pool}"),
        ("Submitted", since(records[0].submitted_ms, moment.now_ms)),
        ("Paid", f"{hours(sum(charge.gpu_ms for charge in charges))} GPU-hours"),
    ]
    width = max(len(name) for name, _ in facts) + 2
    head = "\n".join(f"{name + ':':<{width}}{value}" for name, value in facts)
    rows = [_phase_row(moment.view, phase, records) for phase in _ORDER if phase in counts]
    task = records[0].spec.name
    hint = f"one of them: quorate describe run {task}; stop some: quorate cancel '{array}[1-3]'"
    return [
        head,
        f"Tasks\n{table(_TASK_COLUMNS, rows)}\n{hint}",
        f"Spec\n{to_yaml(render(document_of(spec))['spec']).rstrip()}",
    ]


def _phase_row(view: StateView, phase: Phase, records: Sequence[RunRecord]) -> tuple[str, ...]:
    here = [each for each in records if each.phase is phase]
    indexes = [each.spec.task for each in here if each.spec.task is not None]
    if phase is Phase.PENDING:
        behind = sum(waits_for_upstream(view, each.spec) is not None for each in here)
        notes = [f"{behind} wait for runs that they follow"] if behind else []
    else:
        notes = list(dict.fromkeys(one_line(each.note) for each in here if each.note))
    more = [f"and {len(notes) - _NOTES_MAX} more"] if len(notes) > _NOTES_MAX else []
    note = "; ".join([*notes[:_NOTES_MAX], *more])
    return phase.value, str(len(here)), indexes_text(indexes), note or "-"
