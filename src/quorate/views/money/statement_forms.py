"""A statement for programs: a document, or CSV rows, with exact amounts. Pure."""

from __future__ import annotations

from typing import Final

from quorate.core.accounting.period_statement import Line, Statement, Sums
from quorate.documents.times import time_text
from quorate.views.csv_text import Cell, to_csv
from quorate.views.kinds.kind import Tree
from quorate.views.month import Month
from quorate.views.numbers import micros_number


def statement_tree(month: Month, found: Statement) -> Tree:
    """Return the statement with named fields."""
    return {
        "from": time_text(found.from_ms),
        "until": time_text(found.until_ms),
        "isOver": found.until_ms == month.until_ms,
        "envelopes": [_line_tree(line) for line in found.lines],
        "borrowed": [
            {
                "borrower": each.borrower,
                "lender": each.lender,
                "envelope": each.envelope,
                "spentGPUMs": each.gpu_ms,
                **_cost_tree(each.cost_micros),
            }
            for each in found.borrowings
        ],
        "budgets": [_sums_tree(each) for each in found.budgets],
        "owners": [_sums_tree(each) for each in found.owners],
        "total": _sums_tree(found.total),
        "unpricedFlavors": list(found.unpriced),
    }


def _line_tree(line: Line) -> Tree:
    return {
        "name": line.envelope,
        "budget": line.budget,
        "owner": line.owner,
        "flavor": line.flavor,
        "retired": line.retired,
        "grantedGPUMs": line.granted_gpu_ms,
        "spentGPUMs": line.spent_gpu_ms,
        "heldGPUMs": line.held_gpu_ms,
        "freeGPUMs": line.free_gpu_ms,
        "broughtForwardGPUMs": line.brought_gpu_ms,
        "spentInMonthGPUMs": line.period_gpu_ms,
        "lentGPUMs": line.lent_gpu_ms,
        **_cost_tree(line.cost_micros),
        "lentTo": [{"owner": owner, "spentGPUMs": gpu_ms} for owner, gpu_ms in line.lent],
        "usedBy": [
            {
                "owner": used.owner,
                "user": used.user,
                "tier": used.tier.value,
                "flavor": used.flavor,
                "spentGPUMs": used.gpu_ms,
                **_cost_tree(used.cost_micros),
            }
            for used in line.used
        ],
    }


def _sums_tree(sums: Sums) -> Tree:
    return {
        "name": sums.name,
        "grantedGPUMs": sums.granted_gpu_ms,
        "spentGPUMs": sums.spent_gpu_ms,
        "heldGPUMs": sums.held_gpu_ms,
        "freeGPUMs": sums.free_gpu_ms,
        "spentInMonthGPUMs": sums.period_gpu_ms,
        "lentGPUMs": sums.lent_gpu_ms,
        "borrowedGPUMs": sums.borrowed_gpu_ms,
        **_cost_tree(sums.cost_micros),
    }


def _cost_tree(micros: int | None) -> Tree:
    return {} if micros is None else {"cost": micros_number(micros)}


_CSV: Final = (
    "period_start",
    "period_end",
    "record",
    "budget",
    "envelope",
    "owner",
    "user",
    "tier",
    "flavor",
    "granted_gpu_ms",
    "spent_gpu_ms",
    "held_gpu_ms",
    "free_gpu_ms",
    "month_gpu_ms",
    "lent_gpu_ms",
    "borrowed_gpu_ms",
    "cost",
)


def statement_csv(found: Statement) -> str:
    """Return the statement as comma-separated values."""
    period = (time_text(found.from_ms), time_text(found.until_ms))
    return to_csv(_CSV, [(*period, *row) for row in _csv_rows(found)])


def _csv_rows(found: Statement) -> list[tuple[Cell, ...]]:
    """Return a row for each envelope, use, loan and sum.

    The column ``record`` says which of these the row is.
    """
    rows: list[tuple[Cell, ...]] = []
    for line in found.lines:
        amounts = (
            line.granted_gpu_ms,
            line.spent_gpu_ms,
            line.held_gpu_ms,
            line.free_gpu_ms,
            line.period_gpu_ms,
            line.lent_gpu_ms,
        )
        head = (line.budget, line.envelope, line.owner, None, None, line.flavor)
        rows.append(("envelope", *head, *amounts, None, _cost_cell(line.cost_micros)))
        for used in line.used:
            user = (used.owner, used.user, used.tier.value, used.flavor)
            cost = _cost_cell(used.cost_micros)
            part = (None, None, None, None, used.gpu_ms, None, None, cost)
            rows.append(("use", line.budget, line.envelope, *user, *part))
    for each in found.borrowings:
        budget = each.envelope.partition("/")[0]
        whose = (budget, each.envelope, each.borrower)
        nothing = (None,) * 9
        rows.append(("borrowing", *whose, *nothing, each.gpu_ms, _cost_cell(each.cost_micros)))
    for record, sums in (("budget", found.budgets), ("owner", found.owners)):
        rows += [_csv_sums(record, each) for each in sums]
    return [*rows, _csv_sums("total", found.total)]


def _csv_sums(record: str, sums: Sums) -> tuple[Cell, ...]:
    budget = sums.name if record == "budget" else None
    owner = sums.name if record == "owner" else None
    return (
        *(record, budget, None, owner, None, None, None),
        sums.granted_gpu_ms,
        sums.spent_gpu_ms,
        sums.held_gpu_ms,
        sums.free_gpu_ms,
        sums.period_gpu_ms,
        sums.lent_gpu_ms,
        sums.borrowed_gpu_ms,
        _cost_cell(sums.cost_micros),
    )


def _cost_cell(micros: int | None) -> Cell:
    return None if micros is None else micros_number(micros)
