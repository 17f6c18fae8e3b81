"""The reports of a run: steps, and figures such as the loss."""

from __future__ import annotations

from quorate.model.state.records import RunRecord
from quorate.operations.answer_types import Answer
from quorate.operations.fleet.observe_operations import RunReports
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.unknown_names import check_run
from quorate.views.runs.progress_view import (
    Progress,
    progress_lines,
    progress_of,
    progress_tree,
    reports_table,
)


def progress_in(context: RequestContext, record: RunRecord) -> Progress | None:
    """Return the progress of a run; None if no report of the run is kept."""
    if context.logs is None:
        return None
    rounds = record.spec.rounds
    total = None if rounds is None else rounds.total_steps
    return progress_of(context.logs.reports(record.spec.name), total)


def run_reports(context: RequestContext, asked: RunReports, operation: Operation) -> Answer:
    """Return the last reports of a run."""
    del operation
    name = asked.run.removeprefix("run/")
    check_run(context, name)
    found = progress_in(context, context.recorded.runs[name])
    now_ms = context.moment.now_ms
    notes = () if found is not None else (f"run {name!r} has reported no step",)

    def lines() -> list[str]:
        if found is None:
            return []
        return [*progress_lines(found, now_ms), reports_table(found, now_ms)]

    return Answer(tree=lambda: progress_tree(name, found), lines=lambda _: lines(), notes=notes)
