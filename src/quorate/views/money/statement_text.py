"""A statement for people: tables under their titles, in GPU-hours. Pure.

Amounts are rounded once, to hundredths (``rounded`` in ``period_statement.py``), and every printed
sum is the sum of the printed amounts. JSON and CSV have exact amounts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.core.accounting.period_statement import Line, Statement, Sums, rounded
from quorate.documents.times import time_text
from quorate.model.amounts import HOUR_MS
from quorate.views.kinds.kind import Row
from quorate.views.month import Month
from quorate.views.numbers import MICROS
from quorate.views.table import Column, right, table, wide
from quorate.views.word_forms import hours, names

_LINE_COLUMNS: Final = (
    Column("ENVELOPE"),
    Column("OWNER"),
    Column("FLAVOR"),
    right("GRANTED"),
    right("SPENT"),
    right("HELD"),
    right("FREE"),
    right("IN-MONTH"),
    right("LENT"),
    right("BROUGHT", wide=True),
    wide("LENT-TO"),
)
_SUM_COLUMNS: Final = (
    Column("NAME"),
    right("GRANTED"),
    right("SPENT"),
    right("HELD"),
    right("FREE"),
    right("IN-MONTH"),
    right("LENT"),
    right("BORROWED"),
)
_USED_COLUMNS: Final = (
    Column("ENVELOPE"),
    Column("OWNER"),
    Column("USER"),
    Column("TIER"),
    Column("FLAVOR"),
    right("GPU-HOURS"),
)
_BORROWED_COLUMNS: Final = (
    Column("BORROWER"),
    Column("LENDER"),
    Column("ENVELOPE"),
    right("GPU-HOURS"),
)
_COST: Final = right("COST")


def statement_text(month: Month, found: Statement, *, show_wide: bool) -> str:
    """Return the statement as tables with titles, and with costs if any envelope has a price."""
    found = rounded(found, gpu_ms=HOUR_MS // 100, micros=MICROS // 100)
    state = "" if found.until_ms == month.until_ms else " so far"
    period = f"{time_text(found.from_ms)} to {time_text(found.until_ms)}"
    has_costs = found.total.cost_micros is not None
    parts = [f"Statement of {month.name}{state}: {period}"]

    def add(title: str, columns: Sequence[Column], rows: list[tuple[Row, int | None]]) -> None:
        if rows:
            shown = [(*row, _money(cost)) if has_costs else row for row, cost in rows]
            heads = (*columns, _COST) if has_costs else columns
            text = table(heads, shown, show_wide=show_wide)
            parts.append(f"{title}:\n{text}" if title else text)

    lines = [(_line_row(line), line.cost_micros) for line in found.lines]
    total = ("TOTAL", "", "", *_sum_cells(found.total)[:-1], _brought(found), "")
    add("", _LINE_COLUMNS, [*lines, (total, found.total.cost_micros)])
    for title, sums in (("Budgets", found.budgets), ("Owners", found.owners)):
        rows = [((each.name, *_sum_cells(each)), each.cost_micros) for each in sums]
        add(title, _SUM_COLUMNS, rows if len(sums) > 1 else [])
    add("Used in the month", _USED_COLUMNS, _used_rows(found))
    rows_borrowed: list[tuple[Row, int | None]] = [
        ((each.borrower, each.lender, each.envelope, hours(each.gpu_ms)), each.cost_micros)
        for each in found.borrowings
    ]
    add("Borrowed in the month", _BORROWED_COLUMNS, rows_borrowed)
    return "\n\n".join(parts)


def _money(micros: int | None) -> str:
    """Return a cost with two decimals; a cost is always a whole number of hundredths."""
    if micros is None:
        return "-"
    cents = micros // (MICROS // 100)
    return f"{cents // 100}.{cents % 100:02d}"


def _line_row(line: Line) -> Row:
    return (
        line.envelope,
        line.owner,
        line.flavor,
        hours(line.granted_gpu_ms),
        hours(line.spent_gpu_ms),
        hours(line.held_gpu_ms),
        hours(line.free_gpu_ms),
        hours(line.period_gpu_ms),
        hours(line.lent_gpu_ms),
        hours(line.brought_gpu_ms),
        names(f"{owner}={hours(gpu_ms)}" for owner, gpu_ms in line.lent),
    )


def _sum_cells(sums: Sums) -> Row:
    return (
        hours(sums.granted_gpu_ms),
        hours(sums.spent_gpu_ms),
        hours(sums.held_gpu_ms),
        hours(sums.free_gpu_ms),
        hours(sums.period_gpu_ms),
        hours(sums.lent_gpu_ms),
        hours(sums.borrowed_gpu_ms),
    )


def _brought(found: Statement) -> str:
    return hours(sum(line.brought_gpu_ms for line in found.lines))


def _used_rows(found: Statement) -> list[tuple[Row, int | None]]:
    return [
        (
            (
                line.envelope,
                used.owner,
                used.user or "-",
                used.tier.value,
                used.flavor,
                hours(used.gpu_ms),
            ),
            used.cost_micros,
        )
        for line in found.lines
        for used in line.used
    ]
