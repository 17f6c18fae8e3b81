"""What a change would do is told before it is made, and is what it then does."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.model.amounts import HOUR_MS
from tests.cli.shell import Shell

pytestmark = pytest.mark.slow  # Each is told twice, before and after it is done.

FLEET = "".join(
    f"""apiVersion: quorate.dev/v1
kind: Node
metadata: {{name: n{n}, labels: {{region: r, cluster: c, fabric.domain: A}}}}
spec: {{flavor: H100, gpus: 8}}
---
"""
    for n in range(4)
)
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
    text = FLEET + "".join(
        OWNER.format(name=name, quota="{}") + BUDGET.format(name=name, gpus=64)
        for name in ("ada", "ben", "cy")
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
