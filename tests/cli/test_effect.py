"""A dry run prints the effect of a change, and the change then has this effect."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.model.amounts import HOUR_MS
from tests.cli.shell import Shell

pytestmark = pytest.mark.slow  # Each effect is checked twice, before and after the change.

FLEET = "".join(
    f"""apiVersion: quorate.dev/v1
kind: Node
metadata: {{name: n{n}, labels: {{region: r, cluster: c, fabric.domain: A}}}}
spec: {{flavor: H100, gpus: 8}}
---
"""
    for n in range(4)
)
# Otherwise the changes below would cause lotteries for starts by conflict.
QUIET_POOL = """apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: default}
spec: {disruptionRate: 0}
---
"""
OWNER = """apiVersion: quorate.dev/v1
kind: Owner
metadata: {{name: {name}}}
spec: {{quota: {quota}}}
---
"""
BUDGET = """apiVersion: quorate.dev/v1
kind: Budget
metadata: {{name: {name}}}
spec:
  owner: {name}
  envelopes:
    - {{name: all, flavor: H100, selector: {{region: r}}, concurrency: {gpus},
       start: 2020-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z, maxGPUHours: 100000}}
---
"""
RUN = """apiVersion: quorate.dev/v1
kind: Run
metadata: {{name: {name}}}
spec:
  owner: {owner}
  resources: {{gpuType: H100, totalGPUs: {gpus}}}
  runtime: {{expectedDuration: {hours}h}}
  {more}
"""
SHRINKS = "malleable: {minTotalGPUs: 8, maxTotalGPUs: 24, stepGPUs: 8}"


@pytest.fixture
def busy(bare: Shell) -> Shell:
    """Return a full fleet: ada's run can shrink, and runs of ben and cy wait."""
    bare.ok("init")
    text = (
        QUIET_POOL
        + FLEET
        + "".join(
            OWNER.format(name=name, quota="{}") + BUDGET.format(name=name, gpus=64)
            for name in ("ada", "ben", "cy")
        )
    )
    bare.ok("apply", "-f", bare.file("all.yaml", text))
    for name, owner, gpus, hours, more in (
        ("wide", "ada", 24, 100, SHRINKS),
        ("rest", "cy", 8, 10, ""),
        ("b1", "ben", 16, 5, ""),
        ("c1", "cy", 16, 5, ""),
        ("b2", "ben", 8, 5, ""),
    ):
        run = RUN.format(name=name, owner=owner, gpus=gpus, hours=hours, more=more)
        bare.ok("submit", "-f", bare.file(f"{name}.yaml", run))
    bare.clock.at_ms += 2 * HOUR_MS
    return bare


CHANGES = {
    "a lower target moves an owner back": OWNER.format(name="ben", quota="{fairShareTarget: 0.01}"),
    "a budget that is used up comes last": OWNER.format(name="ben", quota="{gpuHoursBudget: 0}"),
    "a tightened envelope shrinks a run": BUDGET.format(name="ada", gpus=16),
    "a limit parks nobody that is promised": OWNER.format(name="ben", quota="{maxNodes: 1}"),
    "a weight moves nobody": """apiVersion: quorate.dev/v1
kind: System
metadata: {name: system}
spec: {halfLife: 1h}
""",
}


def effect(shell: Shell, text: str, *words: str) -> Any:
    answer = shell("apply", "-f", shell.file("change.yaml", text), "-o", "json", *words)
    assert answer.code == 0, answer
    return answer.json["effect"]


@pytest.mark.parametrize("change", CHANGES)
def test_the_effect_of_a_dry_run_is_what_then_happens(busy: Shell, change: str) -> None:
    before = busy.ledger_bytes()
    told = effect(busy, CHANGES[change], "--dry-run")
    assert busy.ledger_bytes() == before
    assert effect(busy, CHANGES[change]) == told


def test_a_tightened_envelope_says_which_runs_shrink(busy: Shell) -> None:
    change = busy.file("change.yaml", CHANGES["a tightened envelope shrinks a run"])
    said = busy.ok("apply", "-f", change, "--dry-run")
    (line,) = [line for line in said.splitlines() if line.startswith("effect:")]
    assert "shrinks 1 run" in line
    assert "  wide works on 24 -> 16 GPUs" in said


def test_a_change_without_effect_says_nothing_of_it(busy: Shell) -> None:
    change = busy.file("change.yaml", CHANGES["a weight moves nobody"])
    assert "effect:" not in busy.ok("apply", "-f", change, "--dry-run")
    told = effect(busy, CHANGES["a weight moves nobody"])
    assert set(map(len, told.values())) == {0}


def test_a_quota_that_is_raised_says_whom_it_starts(busy: Shell) -> None:
    busy.ok("admin", "tenant", "update", "ada", "--max-concurrent-allocations", "1")
    run = RUN.format(name="more", owner="ada", gpus=1, hours=1, more="onQuota: wait")
    busy.ok("complete", "rest")
    busy.ok("submit", "-f", busy.file("more.yaml", run))
    said = busy.ok("admin", "tenant", "update", "ada", "--unset", "max-nodes", "--dry-run")
    assert "effect:" not in said
    words = ("admin", "tenant", "update", "ada", "--max-concurrent-allocations", "2")
    told = busy(*words, "--dry-run", "-o", "json").json["effect"]
    assert told == busy(*words, "-o", "json").json["effect"]


LENT = """apiVersion: quorate.dev/v1
kind: Budget
metadata: {{name: ada}}
spec:
  owner: ada
  envelopes:
    - {{name: all, flavor: H100, selector: {{region: r}}, concurrency: {gpus}, sharing: none,
       start: 2020-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z,
       lending: {{allow: true, recall: {{notice: 20m}}}}}}
---
"""
TWO_LINES = """apiVersion: quorate.dev/v1
kind: Budget
metadata: {{name: ben}}
spec:
  owner: ben
  envelopes:
    - {{name: all, flavor: H100, selector: {{region: r}}, concurrency: {first},
       start: 2020-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}}
    - {{name: more, flavor: H100, selector: {{region: r}}, concurrency: {second},
       start: 2020-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}}
---
"""


@pytest.fixture
def quiet(bare: Shell) -> Shell:
    """Return a fleet of 32 GPUs on which one run of ben and one of cy work."""
    bare.ok("init")
    owners = "".join(OWNER.format(name=name, quota="{}") for name in ("ada", "ben", "cy"))
    text = QUIET_POOL + FLEET + owners
    text += TWO_LINES.format(first=16, second=16) + BUDGET.format(name="cy", gpus=16)
    bare.ok("apply", "-f", bare.file("all.yaml", text))
    for name, owner, gpus in (("b1", "ben", 16), ("c1", "cy", 16)):
        run = RUN.format(name=name, owner=owner, gpus=gpus, hours=100, more="")
        bare.ok("submit", "-f", bare.file(f"{name}.yaml", run))
    bare.clock.at_ms += 2 * HOUR_MS
    return bare


def test_a_dry_run_names_what_is_handed_over_and_to_whom(quiet: Shell) -> None:
    change = TWO_LINES.format(first=8, second=16)
    told = effect(quiet, change, "--dry-run")
    assert told["handedOver"] == [
        {
            "run": "b1",
            "bundle": 0,
            "before": [{"envelope": "ben/all", "gpus": 16}],
            "after": [
                {"envelope": "ben/all", "gpus": 8},
                {"envelope": "ben/more", "gpus": 8},
            ],
        }
    ]
    said = quiet.ok("apply", "-f", quiet.file("change.yaml", change), "--dry-run")
    assert "hands over 1 bundle" in said
    assert "  b1: all of it is paid by ben/all:16 -> ben/all:8, ben/more:8" in said
    assert effect(quiet, change) == told


def test_a_dry_run_names_who_may_be_stopped_and_when(quiet: Shell) -> None:
    change = BUDGET.format(name="cy", gpus=8)
    told = effect(quiet, change, "--dry-run")
    assert [(each["run"], each["conflict"]) for each in told["mayStop"]] == [("c1", "1")]
    said = quiet.ok("apply", "-f", quiet.file("change.yaml", change), "--dry-run")
    assert "may stop by lot 1 run" in said
    assert f"  c1 may be stopped at {told['mayStop'][0]['at']}, by lot: conflict 1" in said
    assert effect(quiet, change) == told


def test_a_dry_run_says_why_a_firm_start_moves(quiet: Shell) -> None:
    quiet.clock.at_ms += 97 * HOUR_MS + HOUR_MS // 2
    run = RUN.format(name="b2", owner="ben", gpus=16, hours=1, more="")
    assert "has a firm start" in quiet.ok("submit", "-f", quiet.file("b2.yaml", run))
    change = TWO_LINES.format(first=8, second=4)
    told = effect(quiet, change, "--dry-run")
    (moved,) = [each for each in told["starts"] if each["run"] == "b2"]
    assert (moved["before"] is None, moved["after"]) == (False, None)
    assert moved["cause"]["code"] == "BudgetChanged"
    said = quiet.ok("apply", "-f", quiet.file("change.yaml", change), "--dry-run")
    assert "envelope ben/" in next(line for line in said.splitlines() if "b2 starts" in line)


def test_a_recall_is_shown_to_borrower_and_lender(quiet: Shell) -> None:
    quiet.ok("complete", "b1")
    quiet.ok("apply", "-f", quiet.file("lent.yaml", LENT.format(gpus=16)))
    may_borrow = "funding: {allowBorrow: true}"
    loan = RUN.format(name="loan", owner="cy", gpus=8, hours=9, more=may_borrow)
    file = quiet.file("loan.yaml", loan)
    terms = "borrowed from ada/all: 8 GPUs, can be recalled with 20m notice"
    assert terms in quiet.ok("plan", "-f", file, "--dry-run")
    assert terms in quiet.ok("submit", "-f", file)
    assert terms in quiet.ok("explain", "loan")
    mine = RUN.format(name="mine", owner="ada", gpus=12, hours=1, more="")
    said = quiet.ok("submit", "-f", quiet.file("mine.yaml", mine))
    assert "run/loan: all of it is recalled by ada/all for run/mine" in said
    assert "has a firm start" in said
    assert "recalled; the lender pays until" in quiet.ok("explain", "loan")
    assert "ada/all has recalled its loan" in quiet.ok("plan", "mine")
    (told,) = quiet("plan", "loan", "-o", "json").json["loans"]
    assert (told["envelope"], told["recallNotice"]) == ("ada/all", "20m")
    kinds = {each["kind"] for each in quiet("notices", "-o", "json").json["items"]}
    assert {"loan-recalled", "loan-returning"} <= kinds
    quiet.clock.at_ms += HOUR_MS // 3
    said = quiet.ok("tick")
    assert "Recalled" in said
    assert "run/mine started" in said
