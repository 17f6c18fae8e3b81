"""Requests and responses of operations on reports of simulations."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from quorate.operations.caller import OVERSEERS
from quorate.operations.common_requests import Asked, Nothing
from quorate.operations.common_responses import Given
from quorate.operations.operation import Area, Operation


class ShowReport(Asked, kw_only=True, frozen=True):
    """The name of a report, as in the list."""

    report: Annotated[str, Meta(min_length=1, max_length=200)]


class ReportListed(Given, kw_only=True, frozen=True):
    """A report: the name of its file, its size, and when it was written."""

    name: str
    size_bytes: int
    written: str


class ReportsListed(Given, kw_only=True, frozen=True):
    """The kept reports, newest first. ``isKept`` is false if no folder is configured."""

    is_kept: bool
    items: tuple[ReportListed, ...]


class ReportShown(Given, kw_only=True, frozen=True):
    """A report as it was written: an HTML page without scripts that loads nothing."""

    name: str
    written: str
    html: str


OPERATIONS: Final = (
    Operation(
        name="list-reports",
        area=Area.SERVICE,
        summary="List the reports of simulations that the service keeps.",
        takes=Nothing,
        gives=ReportsListed,
        roles=OVERSEERS,
        method="GET",
        path="/reports",
        handler="quorate.operations.service.report_handlers:list_reports",
        cli=("simulate",),
    ),
    Operation(
        name="show-report",
        area=Area.SERVICE,
        summary="Show a report of a simulation.",
        takes=ShowReport,
        gives=ReportShown,
        roles=OVERSEERS,
        method="GET",
        path="/reports/{report}",
        handler="quorate.operations.service.report_handlers:show_report",
        refusals=("unknown-name",),
        cli=("simulate",),
    ),
)
