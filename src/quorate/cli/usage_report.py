"""Usage as rows, documents and spreadsheets. The names of fields are those of the tenant API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Final

import click

from quorate.answers.csv_text import Cell, to_csv
from quorate.answers.exits import CommandError, Exit
from quorate.answers.kind import Tree, document
from quorate.answers.numbers import fraction_number, hours_number
from quorate.answers.table import Column, right, table, wide
from quorate.answers.words import hours, names, percent
from quorate.cli.accounting import Accounts, accounts
from quorate.cli.csv_option import CSV
from quorate.cli.printing import print_tree
from quorate.cli.settings import ACTOR_CHARS_MAX, Settings, one_line
from quorate.core.usage import BudgetUse, Usage, UsageBooks, UserUsage, budget_uses
from quorate.documents import API_VERSION
from quorate.documents.times import time_text
from quorate.model.amounts import DAY_MS
from quorate.model.specs import Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class _Period:
    days: int
    from_ms: int
    until_ms: int

    def tree(self) -> Tree:
        return {
            "period_start": time_text(self.from_ms),
            "period_end": time_text(self.until_ms),
            "period_days": self.days,
        }


def show_tenant(settings: Settings, tenant: str, days: int | None) -> None:
    """Print what an owner's runs used, against its soft budgets."""
    with accounts(settings) as opened:
        books, period = _books(opened, days)
    owner = opened.view.owners.get(tenant)
    users = books.users(owner=tenant, from_ms=period.from_ms, until_ms=period.until_ms)
    if owner is None and not users:
        near = get_close_matches(tenant, opened.view.owners, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "list them: quorate get owners"
        raise CommandError(Exit.REFUSED, f"there is no owner {tenant!r}; {hint}")
    report = _Tenant(
        name=tenant,
        period=period,
        own=books.owner(tenant, from_ms=period.from_ms, until_ms=period.until_ms),
        family=books.family(tenant, from_ms=period.from_ms, until_ms=period.until_ms),
        users=users,
        quota=Quota() if owner is None else owner.quota,
    )
    tree = report.tree()
    if settings.is_table:
        click.echo(table(_TENANT_COLUMNS, [report.row()], show_wide=settings.wide))
    elif settings.output == CSV:
        flat = {"tenant": tenant, **{k: v for k, v in tree.items() if not _is_nested(v)}}
        click.echo(to_csv(list(flat), [list(flat.values())]), nl=False)
    else:
        print_tree(settings, document("TenantUsage", tenant, status=tree))


def show_user(settings: Settings, user: str | None, days: int | None) -> None:
    """Print what the runs of ``user``, or of whoever asks, used: one row for each owner."""
    name = settings.actor() if user is None else one_line(user, "--user", ACTOR_CHARS_MAX)
    with accounts(settings) as opened:
        books, period = _books(opened, days)
    found = books.users(user=name, from_ms=period.from_ms, until_ms=period.until_ms)
    trees = [{"tenant": each.owner, **_user_tree(each, period)} for each in found]
    if settings.output == CSV:
        rows: list[list[Cell]] = [[tree[column] for column in _USER_CSV] for tree in trees]
        click.echo(to_csv(_USER_CSV, rows), nl=False)
    elif not settings.is_table:
        items = [document("UserUsage", name, status=tree) for tree in trees]
        print_tree(settings, {"apiVersion": API_VERSION, "kind": "List", "items": items})
    elif found:
        rows_shown = [_user_row(each, period) for each in found]
        click.echo(table(_USER_COLUMNS, rows_shown, show_wide=settings.wide))
    else:
        click.echo(f"{name} has used nothing since {time_text(period.from_ms)}", err=True)


def _books(opened: Accounts, days: int | None) -> tuple[UsageBooks, _Period]:
    """Return the books of the whole ledger, and the days back from now that are asked for."""
    asked = opened.view.system.budget_period_days if days is None else days
    books = UsageBooks(window_ms=asked * DAY_MS)
    books.fold_all(opened.events)
    until_ms = opened.end_ms
    from_ms = max(0, until_ms - asked * DAY_MS)
    return books, _Period(days=asked, from_ms=from_ms, until_ms=until_ms)


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
class _Tenant:
    """What there is to say about one owner."""

    name: str
    period: _Period
    own: Usage
    family: Usage
    users: Sequence[UserUsage]
    quota: Quota

    def tree(self) -> Tree:
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
            "gpu_ms_used": self.own.gpu_ms,
            "node_ms_used": self.own.node_ms,
            "gpu_ms_by_flavor": dict(self.own.flavors),
            "with_descendants": _amounts(self.family),
            "users": [_user_tree(each, None) for each in self.users],
        }

    def row(self) -> tuple[str, ...]:
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


def _user_tree(found: UserUsage, period: _Period | None) -> Tree:
    return {
        "user": found.user,
        **({} if period is None else period.tree()),
        **_amounts(found.usage),
        "gpu_ms_by_flavor": dict(found.usage.flavors),
    }


def _user_row(found: UserUsage, period: _Period) -> tuple[str, ...]:
    return (
        found.owner,
        found.user or "-",
        hours(found.usage.gpu_ms),
        hours(found.usage.node_ms),
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


def _period_cells(period: _Period) -> tuple[str, str, str]:
    return time_text(period.from_ms), time_text(period.until_ms), str(period.days)


def _flavors(usage: Usage) -> str:
    return names(f"{flavor}={hours(gpu_ms)}" for flavor, gpu_ms in usage.flavors)


def _against(use: BudgetUse | None) -> tuple[str, str]:
    """Return a budget in hours, and how much of it is used; of nothing, anything is too much."""
    if use is None:
        return "-", "-"
    if not use.budget_ms:
        return hours(0), "over" if use.used_ms else "0.0 %"
    return hours(use.budget_ms), percent(use.used_ms, use.budget_ms)


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list)


def _fraction(use: BudgetUse | None) -> int | Decimal | None:
    """Return the part that is used, to a millionth; None without a budget or beyond any part."""
    if use is None or use.fraction is None:
        return None
    return fraction_number(use.fraction)
