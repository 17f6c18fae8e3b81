"""The status of links to an accounting system: whose figure is used, and reports that wait."""

from __future__ import annotations

from typing import Any, Final

from quorate.documents.times import time_text
from quorate.model.events import Allowance
from quorate.model.state.records import ReportRecord
from quorate.operations import common_requests as ask
from quorate.operations.answer_types import Answer
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.views.money.report_view import source_of
from quorate.views.numbers import hours_number
from quorate.views.table import Column, right, table, wide
from quorate.views.word_forms import hours, since

_COLUMNS: Final = (
    Column("OWNER"),
    Column("LINKED-TO"),
    Column("COUNTS"),
    Column("SINCE"),
    right("GPU-HOURS-LEFT"),
    right("NODE-HOURS-LEFT"),
    Column("LAST-ANSWER"),
    wide("TROUBLE"),
)


def accounting_status(context: RequestContext, asked: ask.Nothing, operation: Operation) -> Answer:
    """Return the status of each linked owner and, if the service is linked, the waiting reports."""
    del asked, operation
    return Answer(
        tree=lambda: _tree(context),
        lines=lambda is_wide: _lines(context, is_wide=is_wide),
        notes=()
        if context.accounting is not None
        else ("note: this service is not linked to an accounting system",),
    )


def _answered_ms(context: RequestContext, owner: str) -> int | None:
    return None if context.accounting is None else context.accounting.answered_ms.get(owner)


def _trouble(context: RequestContext, owner: str, record: ReportRecord) -> str:
    told = "" if context.accounting is None else context.accounting.troubles.get(owner, "")
    return told or record.note


def _tree(context: RequestContext) -> dict[str, Any]:
    status = context.accounting
    waiting = None if status is None else status.waiting
    since_ms = None if waiting is None else waiting.since_ms
    return {
        "items": [
            _item(context, owner, context.recorded.reports[owner]) for owner in _owners(context)
        ],
        "waiting": None if waiting is None else waiting.parcels,
        "waitingSince": None if since_ms is None else time_text(since_ms),
        "trouble": _told_trouble(context),
    }


def _owners(context: RequestContext) -> list[str]:
    return sorted(context.recorded.reports)


def _item(context: RequestContext, owner: str, record: ReportRecord) -> dict[str, Any]:
    answered_ms = _answered_ms(context, owner)
    return {
        "owner": owner,
        "linkedTo": record.source,
        "source": source_of(record),
        "since": time_text(record.since_ms),
        "lastAnswer": None if answered_ms is None else time_text(answered_ms),
        "gpuHoursRemaining": None if record.gpu is None else hours_number(record.gpu.left_ms),
        "nodeHoursRemaining": None if record.node is None else hours_number(record.node.left_ms),
        "trouble": _trouble(context, owner, record),
    }


def _lines(context: RequestContext, *, is_wide: bool) -> list[str]:
    now_ms, status = context.now_ms, context.accounting
    rows = []
    for owner in _owners(context):
        record, answered_ms = context.recorded.reports[owner], _answered_ms(context, owner)
        rows.append(
            (
                owner,
                record.source,
                source_of(record),
                time_text(record.since_ms),
                _left(record.gpu),
                _left(record.node),
                "-" if answered_ms is None else since(answered_ms, now_ms),
                _trouble(context, owner, record) or "-",
            )
        )
    lines = [table(_COLUMNS, rows, show_wide=is_wide) if rows else "no owner is linked"]
    if status is not None and status.waiting is not None:
        waiting = status.waiting
        told = f"{waiting.parcels} amounts wait to be sent"
        if waiting.since_ms is not None:
            told += f", the oldest since {since(waiting.since_ms, now_ms)}"
        lines.append(f"{told}: {waiting.trouble}" if waiting.trouble else told)
    if status is not None and status.trouble:
        lines.append(f"nothing is sent: {status.trouble}")
    return lines


def _told_trouble(context: RequestContext) -> str:
    """Return why nothing is sent, or why the last amount was refused."""
    status = context.accounting
    if status is None:
        return ""
    return status.trouble or ("" if status.waiting is None else status.waiting.trouble)


def _left(told: Allowance | None) -> str:
    return "-" if told is None else hours(told.left_ms)
