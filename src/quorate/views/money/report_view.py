"""Shows whose figure counts for an owner's budget of hours: the ledger's or a report's. Pure."""

from __future__ import annotations

from quorate.documents.times import time_text
from quorate.model.events import Allowance
from quorate.model.state.records import ReportRecord
from quorate.views.kinds.kind import Tree
from quorate.views.numbers import hours_number
from quorate.views.word_forms import since, told_text

LEDGER = "ledger"
"""The name of the source if the ledger's own figure is used."""


def source_of(report: ReportRecord | None) -> str:
    """Return the name of the source whose figure is used."""
    return report.source if report is not None and report.answers else LEDGER


def report_tree(report: ReportRecord | None) -> Tree | None:
    """Return ``report`` for programs; None if the owner has no linked accounting system."""
    if report is None:
        return None
    return {
        "linkedTo": report.source,
        "source": source_of(report),
        "since": time_text(report.since_ms),
        "lastChange": None if report.told_ms is None else time_text(report.told_ms),
        "gpuHours": _allowance(report.gpu),
        "nodeHours": _allowance(report.node),
        "note": report.note,
    }


def _allowance(told: Allowance | None) -> Tree | None:
    if told is None:
        return None
    return {
        "granted": hours_number(told.granted_ms),
        "remaining": hours_number(told.left_ms),
    }


def report_lines(report: ReportRecord | None, now_ms: int) -> list[str]:
    """Return lines for people: the source whose figure is used, and since when it is used.

    The result is empty if the owner has no linked accounting system.
    """
    if report is None:
        return []
    when = since(report.since_ms, now_ms)
    if report.answers:
        told = told_text(report.gpu, report.node)
        return [f"{report.source} reports {told}; its figure is used since {when}"]
    note = f": {report.note}" if report.note else ""
    return [
        (
            f"{report.source} does not report the remaining hours; the ledger's own figure is "
            f"used since {when}{note}"
        )
    ]
