"""How links to an accounting system stand: whose figure counts, who answers, and what waits."""

from __future__ import annotations

from typing import Any, Final

from quorate.answers.numbers import hours_number
from quorate.answers.reports import source_of
from quorate.answers.table import Column, right, table, wide
from quorate.answers.words import hours, since
from quorate.documents.times import time_text
from quorate.model.events import Allowance
from quorate.model.records import ReportRecord
from quorate.operations import asked as ask
from quorate.operations.answer import Answer
from quorate.operations.desk import Desk
from quorate.operations.operation import Operation

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


def accounting_status(desk: Desk, asked: ask.Nothing, operation: Operation) -> Answer:
    """Return how each linked owner stands and, of a service that asks, what waits to be told."""
    del asked, operation
    return Answer(
        tree=lambda: _tree(desk),
        lines=lambda is_wide: _lines(desk, is_wide=is_wide),
        notes=() if desk.accounting is not None else ("note: no accounting system is asked here",),
    )


def _answered_ms(desk: Desk, owner: str) -> int | None:
    return None if desk.accounting is None else desk.accounting.answered_ms.get(owner)


def _trouble(desk: Desk, owner: str, record: ReportRecord) -> str:
    told = "" if desk.accounting is None else desk.accounting.troubles.get(owner, "")
    return told or record.note


def _tree(desk: Desk) -> dict[str, Any]:
    status = desk.accounting
    waiting = None if status is None else status.waiting
    since_ms = None if waiting is None else waiting.since_ms
    return {
        "items": [_item(desk, owner, desk.recorded.reports[owner]) for owner in _owners(desk)],
        "waiting": None if waiting is None else waiting.parcels,
        "waitingSince": None if since_ms is None else time_text(since_ms),
        "trouble": _told_trouble(desk),
    }


def _owners(desk: Desk) -> list[str]:
    return sorted(desk.recorded.reports)


def _item(desk: Desk, owner: str, record: ReportRecord) -> dict[str, Any]:
    answered_ms = _answered_ms(desk, owner)
    return {
        "owner": owner,
        "linkedTo": record.source,
        "source": source_of(record),
        "since": time_text(record.since_ms),
        "lastAnswer": None if answered_ms is None else time_text(answered_ms),
        "gpuHoursRemaining": None if record.gpu is None else hours_number(record.gpu.left_ms),
        "nodeHoursRemaining": None if record.node is None else hours_number(record.node.left_ms),
        "trouble": _trouble(desk, owner, record),
    }


def _lines(desk: Desk, *, is_wide: bool) -> list[str]:
    now_ms, status = desk.now_ms, desk.accounting
    rows = []
    for owner in _owners(desk):
        record, answered_ms = desk.recorded.reports[owner], _answered_ms(desk, owner)
        rows.append(
            (
                owner,
                record.source,
                source_of(record),
                time_text(record.since_ms),
                _left(record.gpu),
                _left(record.node),
                "-" if answered_ms is None else since(answered_ms, now_ms),
                _trouble(desk, owner, record) or "-",
            )
        )
    lines = [table(_COLUMNS, rows, show_wide=is_wide) if rows else "no owner is linked"]
    if status is not None and status.waiting is not None:
        waiting = status.waiting
        told = f"{waiting.parcels} amounts wait to be told"
        if waiting.since_ms is not None:
            told += f", the oldest since {since(waiting.since_ms, now_ms)}"
        lines.append(f"{told}: {waiting.trouble}" if waiting.trouble else told)
    if status is not None and status.trouble:
        lines.append(f"nothing is told: {status.trouble}")
    return lines


def _told_trouble(desk: Desk) -> str:
    """Return why nothing is told, or why the last amount was not taken."""
    status = desk.accounting
    if status is None:
        return ""
    return status.trouble or ("" if status.waiting is None else status.waiting.trouble)


def _left(told: Allowance | None) -> str:
    return "-" if told is None else hours(told.left_ms)
