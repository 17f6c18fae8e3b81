"""Which month and which prices a statement is for, and the statement in the form asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Final

import click

from quorate.answers.exits import CommandError, Exit
from quorate.answers.kind import document
from quorate.answers.month import Month, month_named, month_of
from quorate.answers.numbers import MICROS
from quorate.answers.statement_forms import statement_csv, statement_tree
from quorate.answers.statement_text import statement_text
from quorate.cli.accounting import accounts
from quorate.cli.csv_option import CSV
from quorate.cli.printing import print_tree
from quorate.cli.settings import Settings
from quorate.core.statement import Asked, make_statement
from quorate.documents.times import time_text
from quorate.model.view import StateView

_PRICE: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def prices_named(texts: Sequence[str]) -> dict[str, int]:
    """Return what a GPU-hour costs, in millionths, for each flavor."""
    found: dict[str, int] = {}
    for text in texts:
        flavor, _, price = text.rpartition("=")
        if not flavor or not _PRICE.fullmatch(price):
            raise CommandError(
                Exit.USAGE,
                f"--price: must be a flavor and what a GPU-hour of it costs, with at most 6 "
                f"decimals, like H100=2.40, got {text!r}",
            )
        if flavor in found:
            raise CommandError(Exit.USAGE, f"--price: {flavor} has two prices; give it one")
        found[flavor] = int(Decimal(price) * MICROS)
    return found


def show_statement(
    settings: Settings,
    *,
    month: str | None,
    budget: str | None,
    owner: str | None,
    prices: Sequence[str],
) -> None:
    """Print the statement of a month, of one budget, of one owner, or of all."""
    asked_prices = prices_named(prices)
    named = None if month is None else month_named(month)
    with accounts(settings, end_at=lambda now_ms: _end_ms(named, now_ms)) as opened:
        _check(opened.view, budget=budget, owner=owner, prices=asked_prices)
        which = month_of(opened.end_ms) if named is None else named
        asked = Asked(
            from_ms=which.from_ms,
            until_ms=opened.end_ms,
            budget=budget,
            owner=owner,
            prices=asked_prices,
        )
        found = make_statement(opened.events, opened.view, asked)
    if settings.output == CSV:
        click.echo(statement_csv(found), nl=False)
    elif settings.is_table:
        click.echo(statement_text(which, found, show_wide=settings.wide))
    else:
        print_tree(settings, document("Statement", which.name, status=statement_tree(which, found)))
    if found.unpriced:
        flavors = ", ".join(found.unpriced)
        click.echo(f"note: no price was given for {flavors}; add --price FLAVOR=PRICE", err=True)


def _end_ms(named: Month | None, now_ms: int) -> int | None:
    """Return where the month that was ``named`` ends; a month still to come is refused."""
    if named is None:
        return None
    if named.from_ms > now_ms:
        raise CommandError(
            Exit.REFUSED,
            f"--month: {named.name} is still to come: it is {time_text(now_ms)} now; ask for a "
            "month that has begun",
        )
    return named.until_ms


def _check(
    view: StateView, *, budget: str | None, owner: str | None, prices: Mapping[str, int]
) -> None:
    """Raise ``CommandError`` for names nobody has: a typing error is no empty statement."""
    flavors = {account.spec.flavor for account in view.envelopes.values()}
    flavors |= {record.spec.flavor for record in view.nodes.values()}
    asked: list[tuple[str, str, Collection[str], str]] = []
    if budget is not None:
        asked.append(("budget", budget, view.budgets, "get budgets"))
    if owner is not None:
        asked.append(("owner", owner, view.owners, "get owners"))
    asked += [("flavor", flavor, flavors, "get envelopes") for flavor in prices]
    missing = [
        _missing(kind, name, known, listing)
        for kind, name, known, listing in asked
        if name not in known
    ]
    if missing:
        raise CommandError(Exit.REFUSED, *missing)


def _missing(kind: str, name: str, known: Collection[str], listing: str) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"list them: quorate {listing}"
    return f"there is no {kind} {name!r}; {hint}"
