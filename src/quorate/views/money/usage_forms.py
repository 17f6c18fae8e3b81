"""Usage as rows, documents and CSV, with the field names of the tenant API. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from quorate.core.accounting.usage_books import BudgetUse, Usage, UserUsage, budget_uses
from quorate.documents import API_VERSION
from quorate.documents.times import time_text
from quorate.model.specs import Quota
from quorate.model.state.records import ReportRecord
from quorate.views.csv_text import Cell, to_csv
from quorate.views.kinds.kind import Tree, document
from quorate.views.money.report_view import report_lines, source_of
from quorate.views.numbers import fraction_number, hours_number
from quorate.views.table import Column, right, table, wide
from quorate.views.word_forms import hours, hours_that_add_up, names, percent

_PERIOD_COLUMNS: Final = (Column("PERIOD-START"), Column("PERIOD-END"), right("DAYS"))
_TENANT_COLUMNS: Final = (
    Column("TENANT"),
    right("GPU-HOURS"),
    right("GPU-BUDGET"),
    right("USED"),
    right("NODE-HOURS"),
    right("NODE-BUDGET"),
    right("USED"),
    *_PERIOD_COLUMNS,
    right("FAMILY-GPU-HOURS", wide=True),
    right("FAMILY-NODE-HOURS", wide=True),
    wide("FLAVORS"),
)
_USER_COLUMNS: Final = (
    Column("TENANT"),
    Column("USER"),
    right("GPU-HOURS"),
    right("NODE-HOURS"),
    *_PERIOD_COLUMNS,
    wide("FLAVORS"),
)
_TOTAL: Final = "TOTAL"
_USER_CSV: Final = (
    "tenant",
    "user",
    "period_start",
    "period_end",
    "period_days",
    "gpu_hours_used",
    "node_hours_used",
    "gpu_ms_used",
    "node_ms_used",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The period of a report: its number of days, its begin and its end."""

    days: int
    from_ms: int
    until_ms: int

    def tree(self) -> Tree:
        """Return the period for programs."""
        return {
            "period_start": time_text(self.from_ms),
            "period_end": time_text(self.until_ms),
            "period_days": self.days,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReport:
    """The usage report of one owner."""

    name: str
    period: Period
    own: Usage
    family: Usage
    users: Sequence[UserUsage]
    quota: Quota
    report: ReportRecord | None = None

    def tree(self) -> Tree:
        """Return the report as a document."""
        return document("TenantUsage", self.name, status=self._status())

    def csv(self) -> str:
        """Return the report as one CSV row, without the fields that are lists or mappings."""
        flat = {k: v for k, v in self._status().items() if not isinstance(v, dict | list)}
        return to_csv(("tenant", *flat), [(self.name, *flat.values())])

    def lines(self, show_wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        """Return the report as a table."""
        told = report_lines(self.report, self.period.until_ms)
        return [table(_TENANT_COLUMNS, [self._row()], show_wide=show_wide), *told]

    def _status(self) -> Tree:
        uses = budget_uses(self.quota, self.own)
        gpu, node = (None, None) if uses is None else (uses.gpu, uses.node)
        worse = None if uses is None else uses.worse
        return {
            **self.period.tree(),
            "gpu_hours_used": hours_number(self.own.gpu_ms),
            "gpu_hours_budget": None if gpu is None else hours_number(gpu.budget_ms),
            "gpu_fraction": _fraction(gpu),
            "node_hours_used": hours_number(self.own.node_ms),
            "node_hours_budget": None if node is None else hours_number(node.budget_ms),
            "node_fraction": _fraction(node),
            "fraction": _fraction(worse),
            "over_budget": worse is not None and worse.reaches(100),
            **self._remaining(gpu, node),
            "gpu_ms_used": self.own.gpu_ms,
            "node_ms_used": self.own.node_ms,
            "gpu_ms_by_flavor": dict(self.own.flavors),
            "with_descendants": _amounts(self.family),
            "users": [_user_tree(each, None) for each in self.users],
        }

    def _remaining(self, gpu: BudgetUse | None, node: BudgetUse | None) -> Tree:
        """Return the remaining hours of each budget, and the source of these numbers.

        The source is an accounting system or the ledger; the tree also says since when.
        """
        report = self.report
        told = (None, None) if report is None else (report.gpu, report.node)
        left = [
            mine.budget_ms - mine.used_ms if mine is not None and theirs is None else None
            for mine, theirs in zip((gpu, node), told, strict=True)
        ]
        left = [mine if t is None else t.left_ms for mine, t in zip(left, told, strict=True)]
        gpu_left, node_left = (None if ms is None else hours_number(ms) for ms in left)
        return {
            "gpu_hours_remaining": gpu_left,
            "node_hours_remaining": node_left,
            "budget_source": source_of(report),
            "budget_source_since": None if report is None else time_text(report.since_ms),
        }

    def _row(self) -> tuple[str, ...]:
        uses = budget_uses(self.quota, self.own)
        return (
            self.name,
            hours(self.own.gpu_ms),
            *_against(None if uses is None else uses.gpu),
            hours(self.own.node_ms),
            *_against(None if uses is None else uses.node),
            *_period_cells(self.period),
            hours(self.family.gpu_ms),
            hours(self.family.node_ms),
            _flavors(self.own),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserReport:
    """The usage of one user's runs, for each owner."""

    name: str
    period: Period
    found: Sequence[UserUsage]

    def tree(self) -> Tree:
        """Return the report as a list of documents."""
        items = [document("UserUsage", self.name, status=status) for status in self._statuses()]
        total = _user_tree(self._total(), self.period)
        return {"apiVersion": API_VERSION, "kind": "List", "items": items, "total": total}

    def csv(self) -> str:
        """Return a CSV row for each owner."""
        rows: list[list[Cell]] = [
            [status[column] for column in _USER_CSV] for status in self._statuses()
        ]
        return to_csv(_USER_CSV, rows)

    def lines(self, show_wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        """Return the report as a table with a total; empty if the user has used nothing."""
        if not self.found:
            return []
        usages = [each.usage for each in self.found]
        gpu = hours_that_add_up([each.gpu_ms for each in usages])
        node = hours_that_add_up([each.node_ms for each in usages])
        rows = [
            _user_row(each, self.period, gpu_cell, node_cell)
            for each, gpu_cell, node_cell in zip(self.found, gpu, node, strict=True)
        ]
        if len(rows) > 1:
            total = self._total()
            gpu_cell, node_cell = hours(total.usage.gpu_ms), hours(total.usage.node_ms)
            rows.append(_user_row(total, self.period, gpu_cell, node_cell))
        return [table(_USER_COLUMNS, rows, show_wide=show_wide)]

    def _total(self) -> UserUsage:
        """Return the usage of the user's runs, summed over all owners."""
        usages = [each.usage for each in self.found]
        flavors: dict[str, int] = {}
        for usage in usages:
            for flavor, gpu_ms in usage.flavors:
                flavors[flavor] = flavors.get(flavor, 0) + gpu_ms
        usage = Usage(
            gpu_ms=sum(each.gpu_ms for each in usages),
            node_ms=sum(each.node_ms for each in usages),
            flavors=tuple(sorted(flavors.items())),
        )
        return UserUsage(owner=_TOTAL, user=self.name, usage=usage)

    def _statuses(self) -> list[Tree]:
        return [{"tenant": each.owner, **_user_tree(each, self.period)} for each in self.found]


def _user_tree(found: UserUsage, period: Period | None) -> Tree:
    return {
        "user": found.user,
        **({} if period is None else period.tree()),
        **_amounts(found.usage),
        "gpu_ms_by_flavor": dict(found.usage.flavors),
    }


def _user_row(found: UserUsage, period: Period, gpu: str, node: str) -> tuple[str, ...]:
    return (
        found.owner,
        found.user or "-",
        gpu,
        node,
        *_period_cells(period),
        _flavors(found.usage),
    )


def _amounts(usage: Usage) -> Tree:
    return {
        "gpu_hours_used": hours_number(usage.gpu_ms),
        "node_hours_used": hours_number(usage.node_ms),
        "gpu_ms_used": usage.gpu_ms,
        "node_ms_used": usage.node_ms,
    }


def _period_cells(period: Period) -> tuple[str, str, str]:
    return time_text(period.from_ms), time_text(period.until_ms), str(period.days)


def _flavors(usage: Usage) -> str:
    return names(f"{flavor}={hours(gpu_ms)}" for flavor, gpu_ms in usage.flavors)


def _against(use: BudgetUse | None) -> tuple[str, str]:
    """Return a budget in hours, and the used part; a budget of 0 is exceeded by any use."""
    if use is None:
        return "-", "-"
    if not use.budget_ms:
        return hours(0), "over" if use.used_ms else "0.0 %"
    return hours(use.budget_ms), percent(use.used_ms, use.budget_ms)


def _fraction(use: BudgetUse | None) -> int | Decimal | None:
    """Return the used part, to a millionth; None if there is no budget, or a budget of 0."""
    if use is None or use.fraction is None:
        return None
    return fraction_number(use.fraction)
