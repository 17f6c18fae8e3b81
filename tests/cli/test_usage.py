"""``usage`` and ``statement``: on a real ledger, in every format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from quorate.documents.times import time_text
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.views.csv_text import to_csv
from tests.cli.shell import EXAMPLES, NOW_MS, Shell

# NOW_MS is 2027-01-15T08:00:00Z.
FEBRUARY_MS = 1_801_440_000_000  # 2027-02-01T00:00:00Z


@pytest.fixture
def used(shell: Shell) -> Shell:
    """Return a shell beside a ledger in which three runs have worked for ten hours."""
    for name in ("train", "share", "borrow"):
        shell.ok("submit", "-f", EXAMPLES / f"{name}.yaml")
    shell.clock.at_ms += 10 * HOUR_MS
    return shell


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _set_budget(shell: Shell, **quota: int) -> None:
    shell.ok("patch", "owner", "rai", "--set", f"spec.quota={json.dumps(quota)}")


def test_a_tenants_usage_stands_against_its_budgets(used: Shell) -> None:
    _set_budget(used, gpuHoursBudget=2_600, nodeHoursBudget=1_500)
    shown = used("usage", "--tenant", "rai", "-o", "json").json
    assert (shown["kind"], shown["metadata"]["name"]) == ("TenantUsage", "rai")
    status = shown["status"]
    gpus = 96 + 8 + 16
    assert status["gpu_hours_used"] == 10 * gpus
    assert status["gpu_hours_budget"] == 2_600
    assert status["gpu_fraction"] == round(10 * gpus / 2_600, 6)
    assert status["gpu_ms_used"] == 10 * gpus * HOUR_MS
    assert status["gpu_ms_by_flavor"] == {"H100": 10 * gpus * HOUR_MS}
    assert status["node_hours_used"] == 10 * gpus / 8
    assert status["fraction"] == max(status["gpu_fraction"], status["node_fraction"])
    assert status["over_budget"] is False
    now_ms = used.clock.at_ms
    assert status["period_end"] == time_text(now_ms)
    assert status["period_start"] == time_text(now_ms - 90 * DAY_MS)
    assert status["period_days"] == 90
    assert [each["user"] for each in status["users"]] == ["ada"]
    head, row = used.ok("usage", "--tenant", "rai").splitlines()
    assert head.split()[:4] == ["TENANT", "GPU-HOURS", "GPU-BUDGET", "USED"]
    assert row.split()[:4] == ["rai", "1200.00", "2600.00", "46.2"]


@pytest.mark.heavy
def test_days_choose_the_period(used: Shell) -> None:
    used.clock.at_ms += 40 * DAY_MS
    month = used("usage", "--tenant", "rai", "--days", "30", "-o", "json").json["status"]
    assert month["period_days"] == 30
    whole = used("usage", "--tenant", "rai", "-o", "json").json["status"]
    assert whole["gpu_ms_used"] > month["gpu_ms_used"]
    used.file(
        "system.yaml",
        "apiVersion: quorate.dev/v1\nkind: System\nmetadata: {name: system}\n"
        "spec: {budgetPeriodDays: 7}\n",
    )
    used.ok("apply", "-f", "system.yaml")
    assert used("usage", "--tenant", "rai", "-o", "json").json["status"]["period_days"] == 7


def test_a_budget_of_zero_is_over_with_any_use(used: Shell) -> None:
    _set_budget(used, gpuHoursBudget=0)
    status = used("usage", "--tenant", "rai", "-o", "json").json["status"]
    assert (status["gpu_hours_budget"], status["fraction"]) == (0, None)
    assert status["over_budget"] is True
    assert used.ok("usage", "--tenant", "rai").splitlines()[1].split()[2:4] == ["0.00", "over"]
    idle = used("usage", "--tenant", "core", "-o", "json").json["status"]
    assert (idle["gpu_hours_used"], idle["over_budget"]) == (0, False)


def test_a_parent_is_told_what_is_below_it(used: Shell) -> None:
    status = used("usage", "--tenant", "org", "-o", "json").json["status"]
    assert status["gpu_ms_used"] == 0
    assert status["with_descendants"]["gpu_ms_used"] == 1_200 * HOUR_MS
    assert "1200.00" in used.ok("usage", "--tenant", "org", "-o", "wide")


def test_ones_own_usage_has_a_row_for_each_tenant(used: Shell) -> None:
    used.ok("complete", "share")
    used.environ["QUORATE_ACTOR"] = "=cmd(1)"
    used.ok("submit", "--like", "share", "--name", "mine", "--set", "spec.owner=core")
    used.clock.at_ms += HOUR_MS
    assert [line.split()[:2] for line in used.ok("usage", "--user", "ada").splitlines()[1:]] == [
        ["rai", "ada"]
    ]
    (mine,) = _rows(used.ok("usage", "-o", "csv"))
    # A spreadsheet would evaluate a cell that begins with an equals sign.
    assert (mine["tenant"], mine["user"]) == ("core", "'=cmd(1)")
    assert int(mine["gpu_ms_used"]) == 8 * HOUR_MS
    items = used("usage", "-o", "json").json["items"]
    assert [(each["kind"], each["status"]["tenant"]) for each in items] == [("UserUsage", "core")]
    assert items[0]["status"]["user"] == "=cmd(1)"


def test_who_used_nothing_is_told_so(used: Shell) -> None:
    said = used("usage", "--user", "nobody")
    assert (said.code, said.out) == (0, "")
    assert said.err.startswith("nobody has used nothing since 2026-")
    assert used("usage", "--user", "nobody", "-o", "json").json["items"] == []
    assert used.ok("usage", "--user", "nobody", "-o", "csv").startswith("tenant,user,period_start")


def test_a_tenant_as_csv_is_one_row(used: Shell) -> None:
    (row,) = _rows(used.ok("usage", "--tenant", "rai", "-o", "csv"))
    assert (row["tenant"], row["gpu_hours_used"], row["gpu_hours_budget"]) == ("rai", "1200", "")
    assert row["over_budget"] == "false"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("usage", "--tenant", "ria"), 1, "there is no owner 'ria'; did you mean 'rai'?"),
        (("usage", "--tenant", "rai", "--user", "ada"), 2, "give --tenant or --user, not both"),
        (("usage", "--days", "0"), 2, ", got 0; see: quorate usage --help"),
        (("usage", "--user", ""), 2, "--user: must be one printable line"),
        (("statement", "--month", "2027-13"), 2, "--month: must be a month like 2026-11"),
        (("statement", "--month", "2027-02"), 1, "2027-02 has not begun"),
        (("statement", "--month", "2026-12"), 1, "the ledger had not begun before 2027-01-01"),
        (("statement", "--budget", "riy"), 1, "there is no budget 'riy'; did you mean 'rai'?"),
        (("statement", "--tenant", "zz"), 1, "there is no owner 'zz'; list them"),
        (("statement", "--price", "H100"), 2, "--price: must be a flavor"),
        (("statement", "--price", "H100=-1"), 2, "--price: must be a flavor"),
        (("statement", "--price", "H100=NaN"), 2, "--price: must be a flavor"),
        (("statement", "--price", "H100=1.0000001"), 2, "at most 6 decimals"),
        (("statement", "--price", "H10=1"), 1, "there is no flavor 'H10'; did you mean 'H100'?"),
        (("statement", "--price", "H100=1", "--price", "H100=2"), 2, "H100 has two prices"),
    ],
)
def test_what_is_wrong_is_said_with_its_remedy(
    shell: Shell, words: tuple[str, ...], code: int, text: str
) -> None:
    said = shell(*words)
    assert (said.code, said.out) == (code, "")
    assert text in said.err


def _adds_up(sums: dict[str, Any]) -> bool:
    parts = ("spentGPUMs", "heldGPUMs", "freeGPUMs")
    return bool(sums["grantedGPUMs"] == sum(sums[part] for part in parts))


def test_a_statement_adds_up_in_every_form(used: Shell) -> None:
    prices = ("--price", "H100=2.40", "--price", "A100=1.10")
    status = used("statement", "-o", "json", *prices).json["status"]
    assert (status["from"], status["isOver"]) == ("2027-01-01T00:00:00Z", False)
    sums = [*status["envelopes"], *status["budgets"], *status["owners"], status["total"]]
    assert all(_adds_up(each) for each in sums)
    assert status["total"]["spentGPUMs"] == 1_200 * HOUR_MS
    assert status["total"]["cost"] == 2_880
    envelopes = {each["name"]: each for each in status["envelopes"]}
    assert envelopes["partner/west"]["lentTo"] == [{"owner": "rai", "spentGPUMs": 80 * HOUR_MS}]
    assert [(each["borrower"], each["lender"]) for each in status["borrowed"]] == [
        ("rai", "partner")
    ]
    text = used.ok("statement", *prices)
    period = "2027-01-01T00:00:00Z to 2027-01-15T18:00:00Z"
    assert text.startswith(f"Statement of 2027-01 so far: {period}")
    total = next(line.split() for line in text.splitlines() if line.startswith("TOTAL"))
    assert total[1:2] + total[-1:] == ["29000.00", "2880.00"]
    rows = _rows(used.ok("statement", "-o", "csv", *prices))
    (all_of_it,) = (row for row in rows if row["record"] == "total")
    assert int(all_of_it["spent_gpu_ms"]) == 1_200 * HOUR_MS
    uses = [row for row in rows if row["record"] == "use"]
    assert sum(int(row["month_gpu_ms"]) for row in uses) == 1_200 * HOUR_MS
    assert used.ok("statement", "-o", "yaml").startswith("apiVersion: quorate.dev/v1\n")


@pytest.mark.heavy
def test_a_past_month_says_the_same_whenever_it_is_asked_for(used: Shell) -> None:
    used.clock.at_ms = FEBRUARY_MS + 5 * DAY_MS
    first = used("statement", "--month", "2027-01", "-o", "json").json["status"]
    assert (first["until"], first["isOver"]) == ("2027-02-01T00:00:00Z", True)
    assert all(_adds_up(each) for each in first["envelopes"])
    for name in ("train", "share", "borrow"):
        used("cancel", name)
    used.ok("patch", "budget", "rai", "--set", "spec.envelopes[0].maxGPUHours=90000")
    assert used("statement", "--month", "2027-01", "-o", "json").json["status"] == first
    brought = {e["name"]: e["spentGPUMs"] for e in first["envelopes"]}
    later = used("statement", "-o", "json").json["status"]
    assert {e["name"]: e["broughtForwardGPUMs"] for e in later["envelopes"]} == brought


def test_one_budget_or_one_tenant_can_be_stated(used: Shell) -> None:
    status = used("statement", "--budget", "partner", "-o", "json").json["status"]
    assert [each["name"] for each in status["envelopes"]] == ["partner/west"]
    assert status["borrowed"] == []
    status = used("statement", "--tenant", "rai", "-o", "json").json["status"]
    assert {each["budget"] for each in status["envelopes"]} == {"rai"}
    assert [each["lender"] for each in status["borrowed"]] == ["partner"]


def test_a_flavor_without_a_price_is_noted(used: Shell) -> None:
    said = used("statement", "--price", "A100=1")
    assert said.code == 0
    assert said.err == "note: no price was given for H100; add --price FLAVOR=PRICE\n"


@pytest.mark.heavy
def test_reading_writes_nothing(used: Shell) -> None:
    before = used.ledger_bytes()
    used.clock.at_ms = NOW_MS + 4_000 * HOUR_MS
    used.ok("usage", "--tenant", "rai")
    used.ok("statement")
    assert used.ledger_bytes() == before


@pytest.mark.heavy
def test_money_that_has_run_out_is_settled_before_it_is_stated(used: Shell) -> None:
    used.clock.at_ms = NOW_MS + 4_000 * HOUR_MS
    said = used("statement", "-o", "json")
    assert said.code == 0, said
    assert "is exhausted; this is shown, but not yet recorded" in said.err
    for each in said.json["status"]["envelopes"]:
        assert each["freeGPUMs"] >= 0
        assert each["heldGPUMs"] >= 0
    paid = said.json["status"]["total"]["spentGPUMs"]
    wide = used("usage", "--tenant", "rai", "--days", "365", "-o", "json").json["status"]
    assert wide["gpu_ms_used"] == paid


def test_csv_quotes_what_needs_it() -> None:
    rows = [('a "b", c', 1, None, True), ("@x", -2, "\ttab", False)]
    text = to_csv(("w", "x", "y", "z"), rows)
    assert text == 'w,x,y,z\n"a ""b"", c",1,,true\n\'@x,-2,\'\ttab,false\n'
