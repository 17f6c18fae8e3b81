"""What is asked of the reports that simulations have written, and what is given."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from quorate.operations.caller import OVERSEERS
from quorate.operations.common_requests import Asked, Nothing
from quorate.operations.common_responses import Given
from quorate.operations.operation import Area, Operation


class ShowReport(Asked, kw_only=True, frozen=True):
    """The name of a report, as it is listed."""

    report: Annotated[str, Meta(min_length=1, max_length=200)]


class ReportListed(Given, kw_only=True, frozen=True):
    """A report: the name of its file, how large it is, and when it was written."""

    name: str
    size_bytes: int
    written: str


class ReportsListed(Given, kw_only=True, frozen=True):
    """The reports that are kept, the newest first; ``isKept`` false: no folder is configured."""

    is_kept: bool
    items: tuple[ReportListed, ...]


class ReportShown(Given, kw_only=True, frozen=True):
    """A report as it was written: a page of HTML, without scripts, that loads nothing."""

    name: str
    written: str
    html: str


OPERATIONS: Final = (
    Operation(
        name="list-reports",
        area=Area.SERVICE,
        summary="List the reports of simulations that are kept for people to read.",
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
