"""``get queue``: its order, every term of the score, and the reason for each place."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quorate.model.amounts import HOUR_MS, SECOND_MS
from tests.cli.shell import ROOT, Shell

pytestmark = pytest.mark.slow  # Queues of several owners are created, and their runs are played.

NODE = """\
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {{name: n{number}, labels: {{region: r, cluster: c, fabric.domain: A}}}}
spec: {{flavor: H100, gpus: 8}}
"""
TEAM = """\
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {{name: {name}}}
spec: {{quota: {quota}}}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {{name: {name}}}
spec:
  owner: {name}
  envelopes:
    - name: e
      flavor: H100
      selector: {{region: r}}
      start: 2020-01-01T00:00:00Z
      end: 2100-01-01T00:00:00Z
      concurrency: 64
"""
POOL = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: default}
spec: {disruptionRate: 0}
"""
RUN = """\
apiVersion: quorate.dev/v1
kind: Run
metadata: {{name: {name}}}
spec:
  owner: {owner}
  resources: {{gpuType: H100, totalGPUs: {gpus}}}
  runtime: {{expectedDuration: 48h}}
  onQuota: wait
"""
PAGE = (ROOT / "docs/queue.md").read_text(encoding="utf-8")


def submit(shell: Shell, name: str, owner: str, gpus: int) -> str:
    text = RUN.format(name=name, owner=owner, gpus=gpus)
    return shell.ok("submit", "-f", shell.file(f"{name}.yaml", text))


def opened(shell: Shell, quotas: dict[str, str]) -> Shell:
    """Return a shell beside 64 GPUs, with a team for each of ``quotas``."""
    nodes = "".join(NODE.format(number=number) for number in range(1, 9))
    teams = "".join(TEAM.format(name=name, quota=quota) for name, quota in quotas.items())
    shell.ok("init")
    shell.ok("apply", "-f", shell.file("world.yaml", POOL + nodes + teams))
    return shell


@pytest.fixture
def contended(bare: Shell) -> Shell:
    """Return the example of the page: a full fleet after ten hours, and three waiting runs."""
    opened(
        bare,
        {
            "red": "{fairShareTarget: 0.5}",
            "blue": "{fairShareTarget: 0.25, gpuHoursBudget: 300}",
            "green": "{fairShareTarget: 0.25, gpuHoursBudget: 180, burstAllowance: 1.5}",
        },
    )
    for name, owner, gpus in (("b1", "blue", 32), ("g1", "green", 16), ("r1", "red", 16)):
        submit(bare, name, owner, gpus)
    bare.clock.at_ms += 10 * HOUR_MS
    for name, owner in (("b2", "blue"), ("g2", "green"), ("r2", "red")):
        submit(bare, name, owner, 8)
        bare.clock.at_ms += SECOND_MS
    return bare


def shown(page: str, command: str) -> list[str]:
    """Return the lines that ``page`` shows for ``command``, up to ``...``."""
    (block,) = re.findall(rf"```console\n\$ {re.escape(command)}\n(.*?)```", page, re.DOTALL)
    lines: list[str] = block.splitlines()
    return lines[: lines.index("...")] if "..." in lines else lines


def rows(text: str) -> dict[str, dict[str, str]]:
    """Return the cells of a table by name and column."""
    head, *body = (re.split(r" {3,}", line.strip()) for line in text.splitlines())
    return {row[head.index("NAME")]: dict(zip(head, row, strict=True)) for row in body}


def queue_of(shell: Shell) -> list[dict[str, Any]]:
    """Return the items of ``get queue -o json``, in order."""
    items: list[dict[str, Any]] = shell("get", "queue", "-o", "json").json["items"]
    return [{"name": item["metadata"]["name"], **item["status"]["queue"]} for item in items]


# --- The order and its terms ---


def test_the_page_shows_what_the_commands_say(contended: Shell) -> None:
    said = contended.ok("get", "queue").splitlines()
    assert said == shown(PAGE, "quorate get queue")
    lines = shown(PAGE, "quorate explain b2")
    assert contended.ok("explain", "b2").splitlines()[: len(lines)] == lines
    for each in queue_of(contended):
        assert f"{each['score']:.4f}" in PAGE


def test_over_budget_comes_last_and_below_share_first(contended: Shell) -> None:
    assert [(each["name"], each["overBudget"]) for each in queue_of(contended)] == [
        ("r2", False),
        ("g2", False),
        ("b2", True),
    ]
    # Blue exceeds its budget first, and submitted first.
    contended.ok("admin", "tenant", "update", "blue", "--unset", "gpu_hours_budget")
    contended.ok("admin", "tenant", "update", "blue", "--fair-share-target", "1")
    assert [each["name"] for each in queue_of(contended)] == ["b2", "r2", "g2"]


def test_every_term_is_a_number_with_six_digits(contended: Shell) -> None:
    text = contended.ok("get", "queue", "g2", "-o", "yaml")
    block = text[text.index("  queue:\n") :].splitlines()[1:]
    fields = dict(line.strip().split(": ", 1) for line in block)
    assert list(fields) == [
        *("position", "flavor", "budgetUsed", "overBudget", "penalty", "instantShare"),
        *("decayedShare", "share", "target", "utilisation", "effectiveTarget", "score", "step"),
        "eligibleSince",
    ]
    assert (fields["budgetUsed"], fields["instantShare"]) == ("0.888963", "0.250000")
    assert (fields["step"], fields["eligibleSince"]) == ("7", '"2027-01-15T18:00:01Z"')
    for name in ("penalty", "decayedShare", "share", "target", "utilisation", "score"):
        assert re.fullmatch(r"[01]\.\d{6}", fields[name]), name
    green = queue_of(contended)[1]
    below = (green["effectiveTarget"] - green["share"]) / green["effectiveTarget"]
    assert green["score"] == pytest.approx(green["penalty"] * below, abs=1e-5)


def test_the_wide_table_has_the_terms_and_the_narrow_one_the_score(contended: Shell) -> None:
    narrow, wide = contended.ok("get", "queue"), contended.ok("get", "queue", "-o", "wide")
    assert "SCORE" in narrow.splitlines()[0]
    assert "PENALTY" not in narrow
    found = rows(wide)
    blue, red = found["b2"], found["r2"]
    assert (blue["SCORE"], blue["USED"], blue["PENALTY"]) == ("0.0000 over", "106.6 %", "0.0500")
    assert (blue["NOW"], blue["TARGET"], blue["STEP"]) == ("50.0 %", "25.0 %", "0")
    assert (red["USED"], red["UTILISED"], red["EFFECTIVE"]) == ("-", "100.0 %", "50.0 %")
    assert red["ELIGIBLE"] == "2027-01-15T18:00:02Z"


def test_a_burst_allowance_raises_the_target_while_others_leave_room(bare: Shell) -> None:
    opened(bare, {"red": "{fairShareTarget: 0.5, burstAllowance: 2, maxConcurrentRuns: 0}"})
    submit(bare, "r1", "red", 8)
    (red,) = queue_of(bare)
    assert (red["target"], red["effectiveTarget"], red["utilisation"]) == (0.5, 1.0, 0.0)
    assert (
        "    it has 0.0 % of H100 (0.0 % now, 0.0 % lately); its target is 50.0 %, 100.0 % while "
        "only 0.0 % of H100 is in use\n"
    ) in bare.ok("explain", "r1")


# --- Why a run is at its place in the queue ---


def test_explain_says_what_a_budget_costs_and_who_is_ahead(contended: Shell) -> None:
    red, green = contended.ok("explain", "r2"), contended.ok("explain", "g2")
    assert "  number 1 of 3 in the queue\n    red has no budget of hours (gpuHoursBudget)\n" in red
    assert "    no run is ahead of it\n" in red
    assert "    green has used 88.8 % of its budget: 60.7 % of its score is left\n" in green
    assert "    ahead of it: 1 run of red (score 0.6873, step 21)\n" in green
    tree = contended("explain", "b2", "-o", "json").json["queue"]
    assert (tree["position"], tree["length"], tree["overBudget"]) == (3, 3, True)
    assert [(each["owner"], each["runs"], each["because"]) for each in tree["ahead"]] == [
        ("red", 1, "within-budget"),
        ("green", 1, "within-budget"),
    ]


def test_weights_of_the_system_decide_what_a_share_is(contended: Shell) -> None:
    contended.ok("patch", "system", "--set", "spec.weights.instantShare=1")
    assert {each["name"]: each["share"] for each in queue_of(contended)} == {
        "r2": 0.25,
        "g2": 0.25,
        "b2": 0.5,
    }
    assert rows(contended.ok("get", "system", "-o", "wide"))["system"]["INSTANT-SHARE"] == "1"


# --- A run that is parked for a quota ---


@pytest.fixture
def parked(bare: Shell) -> Shell:
    """Return a shell beside a half-empty fleet, and a team whose third run waits for nodes."""
    opened(bare, {"red": "{maxNodes: 3}", "blue": "{}"})
    submit(bare, "r1", "red", 16)
    submit(bare, "r2", "red", 4)
    submit(bare, "r3", "red", 16)
    return bare


def test_a_parked_run_is_listed_with_its_tenant(parked: Shell) -> None:
    row = rows(parked.ok("get", "queue"))["r3"]
    assert row["CODE"] == "waiting-for-quota"
    assert row["REASON"] == (
        'waiting for quota headroom: tenant "red" has 3 of 3 max_nodes, 2 more wanted'
    )
    (item,) = parked("get", "queue", "-o", "json").json["items"]
    refusal = item["status"]["refusal"]
    assert (refusal["subject"], refusal["current"], refusal["limit"]) == ("red", 3, 3)
    assert refusal["since"] == "2027-01-15T08:00:00Z"
    assert item["status"]["plan"] == {
        "state": "tentative",
        "start": "2027-01-17T08:00:00Z",
        "startsInMs": 48 * HOUR_MS,
    }
    planned = "run/r3 waits; it has a tentative start 2027-01-17T08:00:00Z (in 2d)\n"
    assert parked.ok("plan", "r3").startswith(planned)


def test_explain_of_a_parked_run_says_who_holds_the_quota(parked: Shell) -> None:
    out = parked.ok("explain", "r3")
    assert (
        '  waiting for quota headroom: tenant "red" has 3 of 3 max_nodes, 2 more wanted '
        "(waiting-for-quota)\n"
        "    maxNodes of tenant red: 3 nodes of 3 in use, 2 more wanted\n"
        "      run/r1 of red: 16 GPUs on 2 nodes\n"
        "      run/r2 of red: 4 GPUs on 1 node\n"
    ) in out
    assert "rejected" not in out
    (quota,) = parked("explain", "r3", "-o", "json").json["quotas"]
    assert (quota["tenant"], quota["current"], quota["wanted"], quota["limit"]) == ("red", 3, 2, 3)


@pytest.mark.parametrize("kind", ["raise-quota", "end-run", "fewer-gpus"])
def test_what_explain_proposes_works_when_it_is_typed(parked: Shell, kind: str) -> None:
    remedies = parked("explain", "r3", "-o", "json").json["remedies"]
    (remedy,) = [each for each in remedies if each["kind"] == kind]
    words = remedy["commands"][0][1:]
    if kind == "raise-quota":
        assert words == ["admin", "tenant", "update", "red", "--max-nodes", "5"]
    out = parked.ok(*words)
    starts = "r3-2 started on 4" if kind == "fewer-gpus" else "r3 started on 16"
    assert f"run/{starts} H100 GPUs" in out


# --- Owners ---


def test_owners_show_their_shares_hours_and_thresholds(contended: Shell) -> None:
    found = rows(contended.ok("get", "owners", "-o", "wide"))
    assert (found["blue"]["USED"], found["blue"]["THRESHOLD"]) == ("106.6 %", "100 %")
    assert (found["green"]["USED"], found["green"]["THRESHOLD"]) == ("88.8 %", "80 %")
    assert (found["red"]["TARGET"], found["red"]["NOW"]) == ("50.0 %", "H100 25.0 %")
    assert (found["red"]["USED"], found["red"]["THRESHOLD"]) == ("-", "-")
    contended.ok("admin", "tenant", "update", "red", "--unset", "fair_share_target")
    contended.ok("admin", "tenant", "create", "new")
    found = rows(contended.ok("get", "owners", "-o", "wide"))
    assert found["red"]["TARGET"] == found["new"]["TARGET"] == "25.0 % (an equal part)"
    assert (found["new"]["NOW"], found["new"]["LATELY"]) == ("-", "-")
    status = contended("get", "owner", "blue", "-o", "json").json["status"]
    assert (status["targetStated"], status["thresholdCrossed"]) == (True, 100)
    assert [(each["flavor"], each["instantShare"]) for each in status["shares"]] == [("H100", 0.5)]


def test_describe_owner_says_what_orders_its_runs(contended: Shell) -> None:
    out = contended.ok("describe", "owner", "blue")
    assert (
        "Shares and hours:\n"
        "  target share: 25.0 %\n"
        "  blue has used 106.6 % of its budget: owners within their budgets go first\n"
        "  last threshold crossed: 100 %\n"
        "  FLAVOR      NOW   LATELY    SHARE   TARGET   EFFECTIVE    SCORE\n"
    ) in out
    assert "red has no budget of hours (gpuHoursBudget)\n" in contended.ok(
        "describe", "owner", "red"
    )
