"""Rounds on the command line: the steps and seconds of a lease, and the priority of a run."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.documents.times import time_text
from tests.cli.shell import Shell

WORLD = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: shared}
spec: {discipline: rounds, policy: max_min_fairness, roundLength: 6m}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: rai}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: n1, labels: {region: r, cluster: c, fabric.domain: A}}
spec: {flavor: v100, gpus: 4}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: rai}
spec:
  owner: rai
  envelopes:
  - name: all
    flavor: v100
    selector: {region: "*"}
    start: 2020-01-01T00:00:00Z
    end: 2100-01-01T00:00:00Z
    concurrency: 4
"""
RUN = """\
apiVersion: quorate.dev/v1
kind: Run
metadata: {name: NAME}
spec:
  owner: rai
  pool: shared
  flavor: v100
  totalGPUs: 4
  throughputs: {v100: 2.5}
  totalSteps: STEPS
"""
OTHER = (
    "apiVersion: quorate.dev/v1\nkind: Pool\nmetadata: {name: other}\nspec: {selector: {x: y}}\n"
)
ROUND_MS = 6 * 60_000


def begun(shell: Shell, steps: int = 1_000_000) -> Shell:
    """Return ``shell`` with two runs that need the same four GPUs."""
    shell.file("world.yaml", WORLD)
    shell.ok("init")
    shell.ok("apply", "-f", "world.yaml")
    for name in ("one", "two"):
        text = RUN.replace("NAME", name).replace("STEPS", str(steps))
        shell.file(f"{name}.yaml", text)
        shell.ok("submit", "-f", f"{name}.yaml")
    return shell


def status(shell: Shell, *words: str) -> dict[str, Any]:
    found = shell("get", *words, "-o", "json").json
    found = found["items"][0] if "items" in found else found
    return dict(found["status"])


@pytest.mark.heavy
def test_a_lease_says_how_many_steps_and_seconds_it_is_for(bare: Shell) -> None:
    shell = begun(bare)
    shell.clock.at_ms += ROUND_MS
    shell.ok("tick")
    lease = status(shell, "leases")
    bounds = lease["round"]
    assert bounds["maxDurationSeconds"] == 360
    assert bounds["maxSteps"] == 900, "2.5 a second for six minutes"
    assert bounds["policy"] == "max_min_fairness"
    wide = shell.ok("get", "leases", "-o", "wide").splitlines()
    assert wide[0].split()[-2:] == ["MAX-STEPS", "PRIORITY"]
    assert wide[1].split()[-2] == "900"
    assert wide[1].split()[-1] == str(bounds["turns"][0]["priority"])
    name = wide[1].split()[0]
    described = shell.ok("describe", "lease", name)
    assert "At most:    900 steps, 360 s" in described
    assert f"v100: share 0.5, owed {bounds['turns'][0]['owedSeconds']} s, priority " in described
    assert "v100: share 0.5, owed " in shell.ok("describe", "run", lease["run"])


@pytest.mark.heavy
def test_a_lease_is_for_no_more_steps_than_there_are_left(bare: Shell) -> None:
    shell = begun(bare, steps=100)
    assert status(shell, "leases")["round"]["maxSteps"] == 100


def test_a_submitted_run_is_told_when_the_next_round_begins(bare: Shell) -> None:
    shell = begun(bare)
    shell.file("more.yaml", RUN.replace("NAME", "more").replace("STEPS", "100"))
    told = shell.ok("submit", "-f", "more.yaml")
    assert "run/more waits: pool 'shared' shares its GPUs in rounds: round 2 begins in" in told
    plan = shell.ok("plan", "more")
    assert "how:   in the next round, if it is the run's turn then" in plan
    assert "without a conflict" not in plan


@pytest.mark.heavy
def test_who_waited_until_the_other_was_a_round_ahead_has_the_higher_priority(bare: Shell) -> None:
    shell = begun(bare)
    for _ in range(3):
        shell.clock.at_ms += ROUND_MS
        shell.ok("tick")
    turns = {name: status(shell, "run", name)["turns"][0] for name in ("one", "two")}
    assert {turn["flavor"] for turn in turns.values()} == {"v100"}
    assert {turn["share"] for turn in turns.values()} == {0.5}
    running = status(shell, "leases")["run"]
    (waiting,) = turns.keys() - {running}
    assert turns[running]["priority"] > turns[waiting]["priority"]
    assert turns[running]["owedSeconds"] > turns[waiting]["owedSeconds"]


def test_other_leases_have_no_round(shell: Shell) -> None:
    words = ("--gpus", "4", "--team", "rai", "--flavor", "A100", "--name", "mine", "--", "true")
    shell.ok("submit", *words)
    assert "round" not in status(shell, "leases")
    assert "turns" not in status(shell, "run", "mine")
    assert shell.ok("get", "leases", "-o", "wide").splitlines()[1].split()[-2:] == ["-", "-"]


@pytest.mark.slow
def test_whatif_shares_by_another_policy(bare: Shell) -> None:
    shell = begun(bare)
    at = time_text(shell.clock.at_ms)
    for _ in range(6):
        shell.clock.at_ms += ROUND_MS
        shell.ok("tick")
    same = shell("whatif", "--at", at, "--policy", "max_min_fairness", "-o", "json").json
    assert (same["notReproduced"], same["runs"]) == (0, [])
    found = shell("whatif", "--at", at, "--policy", "shared=fifo", "-o", "json").json
    assert found["notReproduced"] == 0
    assert {each["run"] for each in found["runs"]} == {"one", "two"}
    unknown = shell("whatif", "--at", at, "--policy", "fairest")
    assert unknown.code == 3
    assert "there is no policy 'fairest'; use one of: " in unknown.err
    named = shell("whatif", "--at", at, "--policy", "shared=no name")
    assert "--policy: Pool/shared: spec.policy: " in named.err
    packed = shell("whatif", "--at", at, "--policy", "max_min_fairness_packed")
    assert "lets two runs share GPUs" in packed.err


def test_forecasts_of_runs_in_rounds_cannot_be_scored_and_the_command_says_why(
    bare: Shell,
) -> None:
    shell = begun(bare)
    said = shell.ok("forecast", "score")
    assert said.splitlines() == [
        "there is nothing to score: 2 runs in a pool that shares in rounds",
        (
            "A run in rounds has a share of time instead of a planned start, so it has no "
            "forecast; quorate report shows how long such runs waited"
        ),
    ]
    tree = shell("forecast", "score", "-o", "json").json
    assert (tree["starts"], tree["in_rounds"], tree["started_at_once"]) == (0, 2, 0)


def test_a_pool_says_how_long_its_rounds_are_and_when_the_next_begins(bare: Shell) -> None:
    bare.file("world.yaml", WORLD)
    bare.ok("init")
    bare.ok("apply", "-f", "world.yaml")
    idle = bare.ok("describe", "pool", "shared")
    assert "Rounds:\n  Length:  6m\n  Next:    begins when the pool has a run\n" in idle
    bare.file("one.yaml", RUN.replace("NAME", "one").replace("STEPS", "1000000"))
    bare.ok("apply", "-f", "one.yaml")
    begun_ms = bare.clock.at_ms
    bare.clock.at_ms += 60_000
    next_text = time_text(begun_ms + ROUND_MS)
    assert f"Next:    begins {next_text} (in 5m)" in bare.ok("describe", "pool", "shared")
    bare.clock.at_ms = begun_ms + ROUND_MS
    assert "Next:    is due" in bare.ok("describe", "pool", "shared")
    bare.ok("apply", "-f", bare.file("other.yaml", OTHER))
    assert "Rounds:" not in bare.ok("describe", "pool", "other")
