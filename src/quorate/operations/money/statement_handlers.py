"""The statement of a month: its budgets, its prices, and the caller's permission."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Final

from quorate.core.accounting.period_statement import Asked, make_statement
from quorate.documents.times import time_text
from quorate.model.state.state_view import StateView
from quorate.operations.answer_types import Answer
from quorate.operations.money.accounting_period import accounts
from quorate.operations.money.money_operations import GetStatement
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.visibility import tenants_of
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.hints import nearest_name
from quorate.views.kinds.kind import document
from quorate.views.money.statement_forms import statement_csv, statement_tree
from quorate.views.money.statement_text import statement_text
from quorate.views.month import Month, month_named, month_of
from quorate.views.numbers import MICROS

_PRICE: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def prices_named(texts: Sequence[str], field: str) -> dict[str, int]:
    """Return the price of a GPU-hour of each flavor, in millionths. Errors name ``field``."""
    found: dict[str, int] = {}
    for text in texts:
        flavor, _, price = text.rpartition("=")
        if not flavor or not _PRICE.fullmatch(price):
            raise CommandError(
                Exit.USAGE,
                f"{field}: must be a flavor and its price of a GPU-hour, with at most 6 "
                f"decimals, like H100=2.40, got {text!r}",
            )
        if flavor in found:
            raise CommandError(Exit.USAGE, f"{field}: {flavor} has two prices; give it only one")
        found[flavor] = int(Decimal(price) * MICROS)
    return found


def get_statement(context: RequestContext, asked: GetStatement, operation: Operation) -> Answer:
    """Return the statement of a month: of one budget, of one owner, or of all visible owners."""
    del operation
    prices = prices_named(asked.prices, "prices")
    named = None if asked.month is None else month_named(asked.month, "month")
    opened = accounts(context, end_ms=_end_ms(named, context.now_ms))
    # The present permission to read an owner's amounts decides, even for an earlier month.
    mine = None if context.caller.oversees else tenants_of(context.recorded, context.caller)
    _check(opened.view, asked, prices, mine)
    month = month_of(opened.end_ms) if named is None else named
    period = Asked(
        from_ms=month.from_ms,
        until_ms=opened.end_ms,
        budget=asked.budget,
        owner=asked.tenant,
        owners=mine,
        prices=prices,
    )
    found = make_statement(opened.events, opened.view, period)
    notes = list(context.notes)
    if found.unpriced:
        flavors = ", ".join(found.unpriced)
        notes.append(f"note: no price was given for {flavors}; add --price FLAVOR=PRICE")
    return Answer(
        tree=lambda: document("Statement", month.name, status=statement_tree(month, found)),
        lines=lambda wide: [statement_text(month, found, show_wide=wide)],
        csv=lambda: statement_csv(found),
        notes=tuple(notes),
    )


def _end_ms(named: Month | None, now_ms: int) -> int | None:
    """Return the end of the month ``named``; raise an error for a future month."""
    if named is None:
        return None
    if named.from_ms > now_ms:
        raise CommandError(
            Exit.REFUSED,
            f"{named.name} has not begun: it is {time_text(now_ms)} now; choose a month that has "
            "begun",
            fault="invalid",
        )
    return named.until_ms


def _check(
    view: StateView,
    asked: GetStatement,
    prices: Mapping[str, int],
    mine: frozenset[str] | None,
) -> None:
    """Raise ``CommandError`` for an unknown name; otherwise its statement would just be empty.

    Owners that are not in ``mine``, and their budgets, are unknown to the caller. If ``mine`` is
    None, the caller knows all names.
    """
    flavors = {account.spec.flavor for account in view.envelopes.values()}
    flavors |= {record.spec.flavor for record in view.nodes.values()}
    wanted: list[tuple[str, str, Collection[str], str]] = []
    if asked.budget is not None:
        budgets = [
            name for name, budget in view.budgets.items() if mine is None or budget.owner in mine
        ]
        wanted.append(("budget", asked.budget, budgets, "get budgets"))
    if asked.tenant is not None:
        owners = [name for name in view.owners if mine is None or name in mine]
        wanted.append(("owner", asked.tenant, owners, "get owners"))
    wanted += [("flavor", flavor, flavors, "get envelopes") for flavor in prices]
    missing = [each for each in wanted if each[1] not in each[2]]
    if missing:
        told = [
            _missing(kind, name, known if position == 0 else (), listing)
            for position, (kind, name, known, listing) in enumerate(missing)
        ]
        raise CommandError(Exit.REFUSED, *told, fault=UNKNOWN_NAME)


def _missing(kind: str, name: str, known: Collection[str], listing: str) -> str:
    """Return the error for a name that does not exist; it suggests the nearest of ``known``."""
    near = nearest_name(name, known)
    hint = f"did you mean {near!r}?" if near is not None else f"list them: quorate {listing}"
    return f"there is no {kind} {name!r}; {hint}"
