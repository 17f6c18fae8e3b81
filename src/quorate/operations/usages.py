"""What the runs of a tenant, or of a user, used in the last days, for those who may know."""

from __future__ import annotations

from quorate.answers.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.answers.hints import nearest_name
from quorate.answers.usage_forms import Period, TenantReport, UserReport
from quorate.core.usage import UsageBooks, UserUsage
from quorate.documents.times import time_text
from quorate.model.amounts import DAY_MS
from quorate.model.specs import Quota
from quorate.operations import asked_money as ask
from quorate.operations.accounting import Accounts, accounts
from quorate.operations.answer import Answer
from quorate.operations.caller import Role
from quorate.operations.desk import Desk
from quorate.operations.notes import checked_line
from quorate.operations.operation import Operation
from quorate.operations.visibility import sees_owner, tenants_of


def tenant_usage(desk: Desk, asked: ask.TenantUsage, operation: Operation) -> Answer:
    """Return what an owner's runs used, against its soft budgets."""
    del operation
    name = asked.id
    if not sees_owner(desk.recorded, desk.caller, name):
        raise _no_owner(desk, name)
    opened = accounts(desk)
    books, period = _books(opened, asked.days)
    from_ms, until_ms = period.from_ms, period.until_ms
    owner = opened.view.owners.get(name)
    users = books.users(owner=name, from_ms=from_ms, until_ms=until_ms)
    # An owner that was removed is still told of, by what it used.
    if owner is None and not users:
        raise _no_owner(desk, name)
    report = TenantReport(
        name=name,
        period=period,
        own=books.owner(name, from_ms=from_ms, until_ms=until_ms),
        family=books.family(name, from_ms=from_ms, until_ms=until_ms),
        users=users,
        quota=Quota() if owner is None else owner.quota,
        report=opened.view.reports.get(name),
    )
    return Answer(tree=report.tree, lines=report.lines, csv=report.csv, notes=tuple(desk.notes))


def user_usage(desk: Desk, asked: ask.UserUsage, operation: Operation) -> Answer:
    """Return what the runs of a user, or of whoever asks, used: a row for each owner."""
    del operation
    caller = desk.caller
    name = caller.user if asked.user is None else checked_line(asked.user, "user")
    if name != caller.user and not caller.oversees and caller.role is not Role.TENANT_ADMIN:
        raise CommandError(
            Exit.REFUSED,
            f"there is no user {name!r} whose usage you may see; leave it out for your own",
            fault=UNKNOWN_NAME,
        )
    books, period = _books(accounts(desk), asked.days)
    found = books.users(user=name, from_ms=period.from_ms, until_ms=period.until_ms)
    report = UserReport(name=name, period=period, found=_visible(desk, found))
    nothing = (f"{name} has used nothing since {time_text(period.from_ms)}",)
    return Answer(
        tree=report.tree,
        lines=report.lines,
        csv=report.csv,
        notes=(*desk.notes, *(() if report.found else nothing)),
    )


def _visible(desk: Desk, found: tuple[UserUsage, ...]) -> tuple[UserUsage, ...]:
    """Return what may be told: what was used of one's own tenants, by whoever is called so.

    The name alone proves nothing: each tenant names its own users.
    """
    if desk.caller.oversees:
        return found
    mine = tenants_of(desk.recorded, desk.caller)
    return tuple(each for each in found if each.owner in mine)


def _books(opened: Accounts, days: int | None) -> tuple[UsageBooks, Period]:
    """Return the books of the whole ledger, and the days back from now that are asked for."""
    asked = opened.view.system.budget_period_days if days is None else days
    books = UsageBooks(window_ms=asked * DAY_MS)
    books.fold_all(opened.events)
    until_ms = opened.end_ms
    from_ms = max(0, until_ms - asked * DAY_MS)
    return books, Period(days=asked, from_ms=from_ms, until_ms=until_ms)


def _no_owner(desk: Desk, name: str) -> CommandError:
    view, caller = desk.recorded, desk.caller
    known = sorted(view.owners if caller.oversees else tenants_of(view, caller))
    near = nearest_name(name, known)
    hint = f"did you mean {near!r}?" if near is not None else "list them: quorate get owners"
    return CommandError(Exit.REFUSED, f"there is no owner {name!r}; {hint}", fault=UNKNOWN_NAME)
