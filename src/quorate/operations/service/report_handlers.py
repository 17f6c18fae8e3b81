"""Reports of simulations, read from the service's folder of reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from quorate.documents.times import time_text
from quorate.operations.answer_types import Answer
from quorate.operations.common_requests import Nothing
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.service.report_operations import ShowReport
from quorate.ports.report_port import ReportFile
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.table import Column, right, table

NONE_KEPT = "this service has no folder of reports; set reports.folder, and write reports into it"
_COLUMNS = (Column("NAME"), right("BYTES"), Column("WRITTEN"))
T = TypeVar("T")


def list_reports(context: RequestContext, asked: Nothing, operation: Operation) -> Answer:
    """Return the kept reports, newest first."""
    del asked, operation
    reports = context.reports
    found = [] if reports is None else _read(reports.listed)
    rows = [(each.name, str(each.size_bytes), time_text(each.written_ms)) for each in found]
    return Answer(
        tree=lambda: {
            "isKept": reports is not None,
            "items": [_tree(each) | {"sizeBytes": each.size_bytes} for each in found],
        },
        lines=lambda _: [table(_COLUMNS, rows)] if rows else [],
        notes=(NONE_KEPT,) if reports is None else () if rows else ("there are no reports",),
    )


def show_report(context: RequestContext, asked: ShowReport, operation: Operation) -> Answer:
    """Return a report as it was written."""
    del operation
    reports = context.reports
    found = None if reports is None else _read(lambda: reports.read(asked.report))
    if found is None:
        raise CommandError(
            Exit.REFUSED,
            f"there is no report {asked.report!r}; list them: GET /api/v1/reports",
            fault=UNKNOWN_NAME,
        )
    told, html = found
    return Answer(tree=lambda: _tree(told) | {"html": html}, lines=lambda _: html.splitlines())


def _tree(found: ReportFile) -> dict[str, object]:
    return {"name": found.name, "written": time_text(found.written_ms)}


def _read(read: Callable[[], T]) -> T:
    """Return the result of ``read``; raises ``CommandError`` if the folder cannot be read."""
    try:
        return read()
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE,
            f"reports.folder: cannot be read: {error.strerror}; make the folder readable for the "
            "service, or set another folder",
        ) from None
