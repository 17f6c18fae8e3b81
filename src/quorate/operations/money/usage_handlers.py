"""The usage of the runs of a tenant or a user in the last days, for permitted callers."""

from __future__ import annotations

from quorate.core.accounting.usage_books import UsageBooks, UserUsage
from quorate.core.tenancy.share_history import share_history
from quorate.documents.times import time_text
from quorate.model.amounts import DAY_MS
from quorate.model.specs import Quota
from quorate.operations.answer_types import Answer
from quorate.operations.caller import Role
from quorate.operations.money import money_operations
from quorate.operations.money.accounting_period import Accounts, accounts
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.short_notes import checked_line
from quorate.operations.unknown_names import unknown
from quorate.operations.visibility import sees_owner, tenants_of
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.money.share_forms import shares_lines, shares_tree
from quorate.views.money.usage_forms import Period, TenantReport, UserReport


def tenant_usage(
    context: RequestContext, asked: money_operations.TenantUsageRequest, operation: Operation
) -> Answer:
    """Return the usage of an owner's runs, and its soft budgets."""
    del operation
    name = asked.id
    if not sees_owner(context.recorded, context.caller, name):
        raise _no_owner(context, name)
    opened = accounts(context)
    books, period = _books(opened, asked.days)
    from_ms, until_ms = period.from_ms, period.until_ms
    owner = opened.view.owners.get(name)
    users = books.users(owner=name, from_ms=from_ms, until_ms=until_ms)
    # An owner that was removed is still listed, with its earlier usage.
    if owner is None and not users:
        raise _no_owner(context, name)
    report = TenantReport(
        name=name,
        period=period,
        own=books.owner(name, from_ms=from_ms, until_ms=until_ms),
        family=books.family(name, from_ms=from_ms, until_ms=until_ms),
        users=users,
        quota=Quota() if owner is None else owner.quota,
        report=opened.view.reports.get(name),
    )
    return Answer(tree=report.tree, lines=report.lines, csv=report.csv, notes=tuple(context.notes))


def owner_shares(
    context: RequestContext, asked: money_operations.OwnerSharesRequest, operation: Operation
) -> Answer:
    """Return an owner's share of each flavor over time."""
    del operation
    moment, name = context.moment, asked.name
    if name not in moment.view.owners or not sees_owner(moment.view, context.caller, name):
        raise unknown(context.recorded, context.caller, "owner", name)
    span_ms = asked.days * DAY_MS
    found = share_history(moment.view, name, span_ms=span_ms, now_ms=moment.now_ms)
    return Answer(
        tree=lambda: shares_tree(name, found),
        lines=lambda _: shares_lines(found),
        notes=tuple(context.notes),
    )


def user_usage(
    context: RequestContext, asked: money_operations.UserUsageRequest, operation: Operation
) -> Answer:
    """Return the usage of a user's runs, a row for each owner; without a user, the caller's."""
    del operation
    caller = context.caller
    name = caller.user if asked.user is None else checked_line(asked.user, "user")
    if name != caller.user and not caller.oversees and caller.role is not Role.TENANT_ADMIN:
        raise CommandError(
            Exit.REFUSED,
            f"there is no user {name!r} whose usage you may see; leave the name out for your own "
            "usage",
            fault=UNKNOWN_NAME,
        )
    books, period = _books(accounts(context), asked.days)
    found = books.users(user=name, from_ms=period.from_ms, until_ms=period.until_ms)
    report = UserReport(name=name, period=period, found=_visible(context, found))
    nothing = (f"{name} has used nothing since {time_text(period.from_ms)}",)
    return Answer(
        tree=report.tree,
        lines=report.lines,
        csv=report.csv,
        notes=(*context.notes, *(() if report.found else nothing)),
    )


def _visible(context: RequestContext, found: tuple[UserUsage, ...]) -> tuple[UserUsage, ...]:
    """Return the rows that the caller may see: those of the tenants that the caller sees.

    Each tenant names its own users, so a user of the same name in another tenant may be another
    person.
    """
    if context.caller.oversees:
        return found
    mine = tenants_of(context.recorded, context.caller)
    return tuple(each for each in found if each.owner in mine)


def _books(opened: Accounts, days: int | None) -> tuple[UsageBooks, Period]:
    """Return the usage computed from the whole ledger, and the requested period."""
    asked = opened.view.system.budget_period_days if days is None else days
    books = UsageBooks(window_ms=asked * DAY_MS)
    books.fold_all(opened.events)
    until_ms = opened.end_ms
    from_ms = max(0, until_ms - asked * DAY_MS)
    return books, Period(days=asked, from_ms=from_ms, until_ms=until_ms)


def _no_owner(context: RequestContext, name: str) -> CommandError:
    return unknown(context.recorded, context.caller, "owner", name)
