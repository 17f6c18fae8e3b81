"""A printed statement adds up: rows, columns and tables agree whatever was rounded."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.accounting.period_statement import Borrowing, Line, Statement, Used, add_up
from quorate.core.accounting.usage_books import Usage, UserUsage
from quorate.model.amounts import HOUR_MS
from quorate.model.events import Tier
from quorate.model.specs import EnvelopeId
from quorate.views.money.statement_text import statement_text
from quorate.views.money.usage_forms import Period, UserReport
from quorate.views.month import Month

OWNERS = ("core", "nlp", "rai")
amounts = st.one_of(
    st.just(0),
    st.integers(1, 60_000),
    st.integers(0, 10**10),
    st.integers(1, 99).map(lambda count: count * HOUR_MS),
)


@st.composite
def lines(draw: st.DrawFn) -> tuple[Line, ...]:
    """Draw envelopes of three owners, each of which may use and borrow from all of them."""
    priced = draw(st.booleans())
    found = []
    for number in range(draw(st.integers(1, 6))):
        owner = draw(st.sampled_from(OWNERS))
        users = draw(st.sets(st.tuples(st.sampled_from(OWNERS), st.sampled_from("xyz"))))
        used = tuple(
            Used(
                owner=whose,
                user=user,
                tier=Tier.OWNED if whose == owner else Tier.BORROWED,
                flavor="f",
                gpu_ms=draw(amounts),
                cost_micros=draw(st.integers(0, 10**9)) if priced else None,
            )
            for whose, user in sorted(users)
        )
        brought, held, free = draw(amounts), draw(amounts), draw(amounts)
        found.append(
            Line(
                envelope=EnvelopeId(f"b-{owner}/e{number}"),
                budget=f"b-{owner}",
                owner=owner,
                flavor="f",
                retired=False,
                granted_gpu_ms=brought + held + free + sum(each.gpu_ms for each in used),
                brought_gpu_ms=brought,
                held_gpu_ms=held,
                used=used,
            )
        )
    return tuple(found)


def stated(drawn: tuple[Line, ...]) -> Statement:
    """Return the statement of ``drawn``, in which every lent amount is borrowed."""
    borrowed: dict[tuple[str, str, EnvelopeId], list[Used]] = {}
    for line in drawn:
        for used in line.used:
            if used.tier is Tier.BORROWED:
                borrowed.setdefault((used.owner, line.owner, line.envelope), []).append(used)
    borrowings = tuple(
        Borrowing(
            borrower=key[0],
            lender=key[1],
            envelope=key[2],
            gpu_ms=sum(used.gpu_ms for used in parts),
            cost_micros=sum(used.cost_micros or 0 for used in parts)
            if parts[0].cost_micros is not None
            else None,
        )
        for key, parts in sorted(borrowed.items())
    )
    return add_up(drawn, borrowings, from_ms=0, until_ms=1)


def tables(text: str) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each printed table by their columns; the first table has no title."""
    found = {}
    for part in text.split("\n\n")[1:]:
        title, _, rest = part.partition(":\n")
        title, body = (title, rest) if rest else ("", part)
        head, *rows = body.splitlines()
        columns = head.split()
        found[title] = [dict(zip(columns, row.split(), strict=False)) for row in rows]
    return found


def added(rows: list[dict[str, str]], column: str) -> Decimal:
    return sum((Decimal(row[column]) for row in rows if row.get(column, "-") != "-"), Decimal(0))


@pytest.mark.heavy
@given(drawn=lines())
def test_printed_rows_sum_to_the_printed_totals(drawn: tuple[Line, ...]) -> None:
    found = tables(statement_text(Month(2026, 11), stated(drawn), show_wide=False))
    *envelopes, last = found[""]
    # The total has neither owner nor flavor, so its amounts directly follow its name.
    numbers = [column for column in envelopes[0] if column not in ("ENVELOPE", "OWNER", "FLAVOR")]
    total = dict(zip(("ENVELOPE", *numbers), last.values(), strict=False))
    for column in numbers:
        assert added(envelopes, column) == Decimal(total[column].replace("-", "0")), column
    for row in (*envelopes, total, *found.get("Budgets", ()), *found.get("Owners", ())):
        parts = [Decimal(row[column]) for column in ("SPENT", "HELD", "FREE")]
        assert sum(parts) == Decimal(row["GRANTED"]), row
        assert min(parts) >= 0, row
    for title in ("Budgets", "Owners"):
        for column in numbers if title in found else ():
            assert added(found[title], column) == added([total], column), (title, column)
    used = found.get("Used in the month", [])
    assert added(used, "GPU-HOURS") == added([total], "IN-MONTH")
    for row in envelopes:
        own = [each for each in used if each["ENVELOPE"] == row["ENVELOPE"]]
        assert added(own, "GPU-HOURS") == Decimal(row["IN-MONTH"])
    borrowed = found.get("Borrowed in the month", [])
    assert added(borrowed, "GPU-HOURS") == Decimal(total["LENT"])


@pytest.mark.heavy
@given(drawn=lines())
def test_what_is_printed_is_within_a_hundredth_of_what_is_so(drawn: tuple[Line, ...]) -> None:
    found = tables(statement_text(Month(2026, 11), stated(drawn), show_wide=False))
    for line, row in zip(drawn, found[""], strict=False):
        for column, gpu_ms in (
            ("GRANTED", line.granted_gpu_ms),
            ("HELD", line.held_gpu_ms),
            ("FREE", line.free_gpu_ms),
        ):
            assert abs(Decimal(row[column]) * HOUR_MS - gpu_ms) < HOUR_MS // 100, (column, row)


@given(parts=st.lists(st.tuples(amounts, amounts), min_size=2, max_size=6))
def test_the_printed_usage_of_a_user_sums_to_its_total(parts: list[tuple[int, int]]) -> None:
    report = UserReport(
        name="ada",
        period=Period(days=1, from_ms=0, until_ms=1),
        found=[
            UserUsage(
                owner=f"o{number}",
                user="ada",
                usage=Usage(gpu_ms=gpu, node_ms=node, flavors=(("f", gpu),) if gpu else ()),
            )
            for number, (gpu, node) in enumerate(parts)
        ],
    )
    (text,) = report.lines(False)  # noqa: FBT003 - as every answer is asked
    head, *rows, last = text.splitlines()
    assert last.split()[:2] == ["TOTAL", "ada"]
    for column in ("GPU-HOURS", "NODE-HOURS"):
        at = head.split().index(column)
        assert sum(Decimal(row.split()[at]) for row in rows) == Decimal(last.split()[at])
    assert report.tree()["total"]["gpu_ms_used"] == sum(gpu for gpu, _ in parts)
