"""Usage and statements, for permitted callers and in every format."""

from __future__ import annotations

import csv
import io
import json

import pytest
from msgspec import Struct

from quorate.core.commands import RemoveOwner
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.operations.caller import Caller
from quorate.operations.money.money_operations import (
    GetStatement,
    TenantUsageRequest,
    UserUsageRequest,
)
from quorate.operations.resources.resource_operations import ListRuns
from quorate.operations.resources.run_operations import EndRun
from quorate.views.exits import Exit
from tests.unit.operations.ledger_thread import (
    ADA,
    ADMIN,
    AUDITOR,
    BEN,
    LAB_ADMIN,
    STRANGER,
    LedgerThread,
)

EVERYBODY = (ADMIN, AUDITOR, LAB_ADMIN, ADA, BEN, STRANGER)
DAYS = 30


@pytest.fixture
def ledger_thread() -> LedgerThread:
    return LedgerThread()


def _owners(ledger_thread: LedgerThread, caller: Caller, user: str | None) -> list[str]:
    items = ledger_thread.tree(caller, "user-usage", UserUsageRequest(user=user))["items"]
    return [each["status"]["tenant"] for each in items]


# --- of a tenant ---


@pytest.mark.parametrize("caller", [ADMIN, AUDITOR, LAB_ADMIN, ADA], ids=lambda each: each.actor)
def test_a_tenants_usage_is_told_to_it_and_those_above_it(
    ledger_thread: LedgerThread, caller: Caller
) -> None:
    told = ledger_thread.tree(caller, "tenant-usage", TenantUsageRequest(id="vision", days=DAYS))
    status = told["status"]
    assert (told["kind"], told["metadata"]["name"]) == ("TenantUsage", "vision")
    assert (status["gpu_hours_used"], status["period_days"]) == (160, DAYS)
    assert [each["user"] for each in status["users"]] == ["ada", "ben"]


@pytest.mark.parametrize("caller", [ADA, BEN, STRANGER], ids=lambda each: each.actor)
def test_a_tenant_that_may_not_be_seen_is_not_there(
    ledger_thread: LedgerThread, caller: Caller
) -> None:
    hidden = "speech" if caller is ADA else "vision"
    found = ledger_thread.refused(caller, "tenant-usage", TenantUsageRequest(id=hidden))
    absent = ledger_thread.refused(caller, "tenant-usage", TenantUsageRequest(id="a-b-c-d"))
    assert found.fault == absent.fault == "unknown-name"
    assert found.lines[0].replace(hidden, "a-b-c-d") == absent.lines[0]
    # No suggestion is made for a name that is similar to a hidden one.
    near = ledger_thread.refused(caller, "tenant-usage", TenantUsageRequest(id=f"{hidden}s"))
    assert "did you mean" not in near.lines[0]


def test_a_tenant_does_not_see_above_itself(ledger_thread: LedgerThread) -> None:
    assert (
        ledger_thread.refused(ADA, "tenant-usage", TenantUsageRequest(id="lab")).fault
        == "unknown-name"
    )
    told = ledger_thread.tree(LAB_ADMIN, "tenant-usage", TenantUsageRequest(id="lab"))["status"]
    assert (told["gpu_hours_used"], told["with_descendants"]["gpu_hours_used"]) == (0, 160)


def test_what_a_removed_tenant_used_is_told_to_those_who_oversee(
    ledger_thread: LedgerThread,
) -> None:
    for name in ("hear", "see", "help"):
        ledger_thread.ask(ADMIN, "cancel-run", EndRun(run=name))
    removed = ledger_thread.engine.execute(RemoveOwner("speech"), actor="test").decision
    assert not removed.refusals
    told = ledger_thread.tree(AUDITOR, "tenant-usage", TenantUsageRequest(id="speech"))["status"]
    assert told["gpu_hours_used"] == 80
    assert (
        ledger_thread.refused(BEN, "tenant-usage", TenantUsageRequest(id="speech")).fault
        == "unknown-name"
    )


# --- of a user ---


@pytest.mark.parametrize(
    ("caller", "user", "owners"),
    [
        (ADA, None, ["vision"]),
        # A user called ben of another tenant may be another person.
        (BEN, None, ["speech"]),
        (BEN, "ben", ["speech"]),
        (ADMIN, "ben", ["speech", "vision"]),
        (AUDITOR, "ada", ["vision"]),
        (LAB_ADMIN, "ben", ["vision"]),
        (LAB_ADMIN, "ada", ["vision"]),
        (LAB_ADMIN, "nobody", []),
        (LAB_ADMIN, None, []),
        (STRANGER, None, []),
    ],
)
def test_a_users_usage_is_told_to_them_and_by_tenant_to_its_admin(
    ledger_thread: LedgerThread, caller: Caller, user: str | None, owners: list[str]
) -> None:
    assert _owners(ledger_thread, caller, user) == owners


def test_other_users_are_not_there_for_a_user(ledger_thread: LedgerThread) -> None:
    found = ledger_thread.refused(ADA, "user-usage", UserUsageRequest(user="ben"))
    absent = ledger_thread.refused(ADA, "user-usage", UserUsageRequest(user="nobody"))
    assert found.fault == absent.fault == "unknown-name"
    assert found.lines[0].replace("ben", "nobody") == absent.lines[0]


def test_a_name_hides_nothing(ledger_thread: LedgerThread) -> None:
    error = ledger_thread.refused(ADMIN, "user-usage", UserUsageRequest(user="a\x1b[2J"))
    assert (error.code, error.lines) == (Exit.INVALID, ("user: must be one printable line",))


# --- statements ---


@pytest.mark.parametrize(
    ("caller", "budgets"),
    [
        (ADMIN, ["lab", "speech", "vision"]),
        (AUDITOR, ["lab", "speech", "vision"]),
        (LAB_ADMIN, ["lab", "vision"]),
        (ADA, ["vision"]),
        (BEN, ["speech"]),
        (STRANGER, []),
    ],
)
def test_a_statement_is_of_the_budgets_that_may_be_seen(
    ledger_thread: LedgerThread, caller: Caller, budgets: list[str]
) -> None:
    found = ledger_thread.ask(caller, "statement", GetStatement())
    status = ledger_thread.tree(caller, "statement", GetStatement())["status"]
    assert [each["name"] for each in status["budgets"]] == budgets
    assert {each["budget"] for each in status["envelopes"]} == set(budgets)
    assert status["total"]["grantedGPUMs"] == sum(
        each["grantedGPUMs"] for each in status["envelopes"]
    )
    assert found.csv is not None
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert {row["budget"] for row in rows if row["budget"]} == set(budgets)
    hidden = {"lab", "speech", "vision"} - set(budgets)
    text = "\n".join(ledger_thread.lines(caller, "statement", GetStatement()))
    assert not [name for name in hidden if f"{name}/all" in text]


def test_what_was_borrowed_is_stated_to_both_sides_and_nobody_else(
    ledger_thread: LedgerThread,
) -> None:
    ledger_thread.borrow()
    lent = {
        caller.actor: ledger_thread.tree(caller, "statement", GetStatement())["status"]
        for caller in EVERYBODY
    }
    amount = 8 * 10 * HOUR_MS
    assert [each["lender"] for each in lent["ada"]["borrowed"]] == ["speech"]
    assert lent["ada"]["total"]["borrowedGPUMs"] == amount
    assert lent["ben"]["borrowed"] == []
    assert lent["ben"]["total"]["lentGPUMs"] == amount
    assert lent["sid"]["borrowed"] == []
    assert lent["eve"]["total"]["lentGPUMs"] == amount
    assert "speech" not in json.dumps(lent["sid"])


@pytest.mark.parametrize(
    ("caller", "asked", "missing"),
    [
        (ADA, GetStatement(budget="speech"), "there is no budget 'speech'; list them"),
        (ADA, GetStatement(tenant="lab"), "there is no owner 'lab'; list them"),
        (ADA, GetStatement(budget="speechs"), "there is no budget 'speechs'; list them"),
        (ADA, GetStatement(budget="visio"), "there is no budget 'visio'; did you mean 'vision'?"),
        (ADMIN, GetStatement(budget="speechs"), "did you mean 'speech'?"),
    ],
)
def test_a_budget_that_may_not_be_seen_is_not_there(
    ledger_thread: LedgerThread, caller: Caller, asked: GetStatement, missing: str
) -> None:
    error = ledger_thread.refused(caller, "statement", asked)
    assert error.fault == "unknown-name"
    assert missing in error.lines[0]


def test_an_earlier_month_has_the_same_walls(ledger_thread: LedgerThread) -> None:
    month = ledger_thread.tree(ADMIN, "statement", GetStatement())["metadata"]["name"]
    ledger_thread.clock.ms += 40 * DAY_MS
    asked = GetStatement(month=month)
    told = ledger_thread.tree(ADA, "statement", asked)["status"]
    assert told["isOver"] is True
    assert {each["budget"] for each in told["envelopes"]} == {"vision"}
    assert ledger_thread.refused(
        ADA, "statement", GetStatement(month=month, budget="speech")
    ).fault == ("unknown-name")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (GetStatement(month="2027-13"), "month: must be a month like 2026-11"),
        (GetStatement(prices=("H100",)), "prices: must be a flavor"),
        (GetStatement(prices=("H100=1", "H100=2")), "prices: H100 has two prices"),
        (GetStatement(month="2199-01"), "2199-01 has not begun"),
        (GetStatement(month="2001-01"), "the ledger had not begun before 2001-02-01"),
        (GetStatement(prices=("H10=1",)), "there is no flavor 'H10'; did you mean 'H100'?"),
    ],
)
def test_what_is_wrong_is_called_by_its_field(
    ledger_thread: LedgerThread, asked: GetStatement, text: str
) -> None:
    assert text in ledger_thread.refused(ADMIN, "statement", asked).lines[0]


def test_prices_make_costs_and_what_has_none_is_noted(ledger_thread: LedgerThread) -> None:
    asked = GetStatement(prices=("H100=2.5",), tenant="vision")
    found = ledger_thread.tree(ADA, "statement", asked)["status"]
    assert found["total"]["cost"] == 400
    assert found["unpricedFlavors"] == []


@pytest.mark.parametrize(
    ("name", "asked", "first"),
    [
        ("tenant-usage", TenantUsageRequest(id="vision"), "tenant,period_start"),
        ("user-usage", UserUsageRequest(), "tenant,user"),
        ("statement", GetStatement(), "period_start,period_end"),
    ],
)
def test_every_account_fits_a_spreadsheet(
    ledger_thread: LedgerThread, name: str, asked: Struct, first: str
) -> None:
    found = ledger_thread.ask(ADA, name, asked)
    assert found.csv is not None
    assert found.csv().startswith(first)
    listed = ledger_thread.ask(ADA, "list-runs", ListRuns()).csv
    assert listed is not None
    assert listed().startswith("NAME,")
