"""``quorate policy`` and ``quorate throughputs``, on the examples and on files with faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quorate.policy.table import POLICIES
from tests.cli.shell import EXAMPLES, ROOT, Shell

PROBLEM = EXAMPLES / "problem.json"
TABLE = EXAMPLES / "rates.json"
FILES = (
    "--throughputs",
    TABLE,
    "--jobs",
    EXAMPLES / "jobs.json",
    "--cluster",
    "h100=2,l40s=3",
)


def test_every_policy_is_listed_with_its_goal(bare: Shell) -> None:
    lines = bare.ok("policy", "list").splitlines()
    assert [line.split()[0] for line in lines] == ["POLICY", *POLICIES]
    listed = bare("policy", "list", "-o", "json").json
    assert [each["name"] for each in listed] == list(POLICIES)
    assert all(each["goal"] and each["sense"] in ("min", "max") for each in listed)


def test_an_allocation_is_shown_with_what_it_is_worth(bare: Shell) -> None:
    out = bare.ok("policy", "solve", "-p", "fifo_packed", "--problem", PROBLEM)
    lines = out.splitlines()
    assert lines[0].split() == ["Policy:", "fifo_packed"]
    assert lines[1].startswith("Objective:    4, jobs that run")
    assert lines[4].split() == ["JOB", "H100", "L40S", "TIME", "STEPS/S"]
    assert lines[5].split() == ["0", "-", "-", "0.0000", "36"]
    assert lines[9].split() == ["0,3", "1.0000", "-", "1.0000"]
    assert lines[10].split() == ["gpus", "used", "1.0000", "2.0000", "3.0000"]


def test_programs_get_the_allocation_as_it_is_published(bare: Shell) -> None:
    found = bare("policy", "solve", "-p", "fifo_packed", "--problem", PROBLEM, "-o", "json").json
    assert found["policy"] == "fifo_packed"
    assert list(found["allocation"]) == ["0", "1", "2", "3", "0,3"]
    assert found["allocation"]["0,3"] == {"h100": 1.0, "l40s": 0.0}
    assert found["objective"] == 4
    assert found["certificate"] == {"bound": None, "gap": None, "method": "rule"}
    assert found["prices"] is None
    assert found["measures"]["gpusUsed"] == {"h100": 1.0, "l40s": 2.0}
    assert found["measures"]["makespanSeconds"] == pytest.approx(45_000)


def test_an_optimum_carries_its_certificate(bare: Shell) -> None:
    found = bare("policy", "solve", "-p", "allox", "--problem", PROBLEM, "-o", "json").json
    assert found["certificate"]["gap"] == 0
    assert found["certificate"]["bound"] == found["objective"]
    out = bare.ok("policy", "solve", "-p", "allox", "--problem", PROBLEM)
    assert "no allocation is better than 61741.4, gap 0 (assignment)" in out


def test_a_problem_can_be_made_of_a_table_jobs_and_a_cluster(bare: Shell) -> None:
    found = bare("policy", "solve", "-p", "isolated", *FILES, "-o", "json").json
    assert found["allocation"]["cats"] == {"h100": 0.4, "l40s": 0.6}
    assert found["allocation"]["maps"] == {"h100": 0.2, "l40s": 0.3}


def test_jobs_with_their_own_rates_need_no_table(bare: Shell) -> None:
    jobs = [{"id": "a", "throughputs": {"x": 2.0, "y": 1.0}}]
    file = bare.file("own.json", json.dumps(jobs))
    found = bare("policy", "solve", "-p", "fifo_perf", "--jobs", file, "--cluster", "y=1,x=1")
    assert found.code == 0
    assert found.out.splitlines()[5].split() == ["a", "-", "1.0000", "1.0000", "2"]


def test_a_file_of_clusters_may_name_the_cluster(bare: Shell) -> None:
    jobs = [{"id": 0, "throughputs": {"v100": 4.0, "p100": 2.0, "k80": 1.0}}]
    file = bare.file("own.json", json.dumps(jobs))
    one = bare.file("one.json", '{"philly": ["0:1:1"]}')
    words = ("policy", "solve", "-p", "fifo_perf", "--jobs", file, "--cluster")
    found = bare(*words, one, "-o", "json").json
    assert found["allocation"]["0"] == {"v100": 0.0, "p100": 1.0, "k80": 0.0}
    two = bare(*words, bare.file("two.json", '{"a": ["0:1:1"], "b": ["1:1:1"]}'))
    assert two.code == 3
    assert "two.json has 2 clusters; name one of them" in two.err
    assert bare(*words, bare.file("bad.json", '{"a": ["0:1"]}')).code == 3


@pytest.mark.heavy
def test_policies_are_compared_by_the_same_measures(bare: Shell) -> None:
    lines = bare.ok("policy", "compare", "--problem", PROBLEM).splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(POLICIES)
    two = bare("policy", "compare", "-p", "isolated", "-p", "allox", *FILES, "-o", "json").json
    assert [each["policy"] for each in two] == ["isolated", "allox"]
    assert two[0]["measures"]["leastRelativeRate"] == pytest.approx(0.5)
    assert two[1]["refusal"]["subject"] == "support-bot"
    out = bare.ok("policy", "compare", "-p", "isolated", "-p", "allox", *FILES)
    assert out.splitlines()[2].endswith("job support-bot: takes 2 GPUs at a time")


def test_a_refusal_names_the_job_and_ends_with_one(bare: Shell) -> None:
    said = bare("policy", "solve", "-p", "allox", *FILES)
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "error: allox: job support-bot: takes 2 GPUs at a time; AlloX only plans jobs of "
        "one GPU; leave the job out, or choose another policy\n"
    )
    alone = bare("policy", "compare", "-p", "allox", *FILES)
    assert alone.code == 1
    assert "no policy found an allocation: job support-bot" in alone.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-p", "alox", "--problem", PROBLEM], "no policy 'alox'; did you mean allox?"),
        (["-p", "zzz", "--problem", PROBLEM], "no policy 'zzz'; list them: quorate policy list"),
        (["-p", "isolated"], "the problem is missing: give --problem FILE, or --jobs FILE"),
        (["-p", "isolated", "--problem", PROBLEM, *FILES], "--problem contains all parts"),
        (["-p", "isolated", *FILES[:4], "--cluster", "h100=x"], "h100: must be a number of GPUs"),
        (["--problem", PROBLEM], "Missing option '-p'"),
    ],
)
def test_a_wrong_line_says_how_it_is_written(bare: Shell, words: list[str], text: str) -> None:
    said = bare("policy", "solve", *words)
    assert said.code == 2
    assert text in said.err


def test_every_fault_of_a_file_is_told_with_the_file(bare: Shell) -> None:
    tree: dict[str, Any] = json.loads(PROBLEM.read_text("utf-8"))
    tree["jobs"][0]["throughputs"]["h100"] = -1
    del tree["jobs"][1]["throughputs"]["l40s"]
    file = bare.file("wrong.json", json.dumps(tree))
    said = bare("policy", "solve", "-p", "isolated", "--problem", file)
    assert (said.code, said.out) == (3, "")
    assert said.err.splitlines() == [
        f"error: {file}: jobs[0].throughputs.h100: must not be below 0, got -1; correct the number",
        (
            f"error: {file}: jobs[1].throughputs.l40s: is missing; add the rate, 0 where the job "
            "cannot run"
        ),
    ]
    other = bare("policy", "compare", *FILES[:4], "--cluster", "h100=2,a100=2")
    assert other.code == 3
    assert "cluster.a100: is not a flavor of the table; it has h100, l40s" in other.err
    assert bare("policy", "compare", "--problem", "absent.json").code == 4


def test_a_table_is_described(bare: Shell) -> None:
    lines = bare.ok("throughputs", "check", TABLE).splitlines()
    assert lines[0].split() == ["Types:", "5", "of", "3", "models"]
    assert lines[4].split() == ["h100", "5", "0", "9", "3", "2", "3"]
    assert lines[5].split() == ["l40s", "5", "0", "9", "5", "0", "0"]
    assert len(lines) == 6
    found = bare("throughputs", "check", TABLE, "-o", "json").json
    assert [each["name"] for each in found["flavors"]] == ["h100", "l40s"]
    assert found["missing"] == []


def test_a_rate_that_is_missing_in_a_table_is_told(bare: Shell) -> None:
    tree: dict[str, Any] = json.loads(TABLE.read_text("utf-8"))
    del tree["h100_unconsolidated"]["('chat-tune', 2)"]
    del tree["h100_unconsolidated"]["('vision-train', 2)"]["('chat-tune', 2)"]
    spread = bare.file("spread.json", json.dumps(tree))
    said = bare("throughputs", "check", spread)
    assert said.code == 0
    assert "note: h100_unconsolidated.\"('chat-tune', 2)\".null is missing" in said.out
    del tree["l40s"]["('speech', 1)"]
    for entries in tree["l40s"].values():
        entries.pop("('speech', 1)", None)
    gap = bare.file("gap.json", json.dumps(tree))
    said = bare("throughputs", "check", gap)
    assert said.code == 3
    assert said.out.startswith("Types:")
    assert f"error: {gap}: l40s.\"('speech', 1)\".null: is missing; add its rate" in said.err


def test_every_fault_of_a_table_is_told(bare: Shell) -> None:
    tree: dict[str, Any] = json.loads(TABLE.read_text("utf-8"))
    tree["h100"]["('speech', 1)"]["null"] = float("nan")
    tree["l40s"]["('speech', 1)"]["('speech', 1)"] = [8.5, 8.4]
    said = bare("throughputs", "check", bare.file("wrong.json", json.dumps(tree)))
    assert (said.code, said.out) == (3, "")
    assert [
        "is not finite: NaN" in line or "the same pair in the other order" in line
        for line in said.err.splitlines()
    ] == [True, True]


WITHOUT = "import sys; sys.modules['numpy'] = None; from quorate.cli.main import run; run()"
INSTALL = (
    "policies need numpy, which is not installed; install it with: pip install 'quorate[rounds]'\n"
)
ROUNDS = """apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: shared}
spec: {discipline: rounds, policy: isolated}
"""


def without_numpy(*words: str | Path, folder: Path = ROOT) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, words)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("policy", "list"), ("throughputs", "check", "examples/rates.json")]
)
def test_a_part_that_is_not_installed_is_named_with_the_remedy(words: tuple[str, ...]) -> None:
    assert without_numpy(*words) == (4, f"error: {INSTALL}")


@pytest.mark.heavy
def test_a_pool_that_knows_pairs_may_have_a_packed_policy(bare: Shell) -> None:
    bare.ok("init")
    table = """{v100: {"('a', 1)": {null: 2, "('a', 1)": [1.5, 1.5]}}}"""
    spec = f"{{discipline: rounds, policy: fifo_packed, throughputs: {table}}}"
    text = ROUNDS.replace("{discipline: rounds, policy: isolated}", spec)
    bare.ok("apply", "-f", bare.file("pool.yaml", text))
    told = bare.ok("get", "pools", "shared", "-o", "yaml")
    again = bare.file("again.yaml", told)
    assert "unchanged" in bare.ok("apply", "-f", again)


@pytest.mark.slow
def test_a_pool_of_rounds_needs_its_parts(bare: Shell) -> None:
    bare.ok("init")
    pool = bare.file("pool.yaml", ROUNDS)
    code, said = without_numpy("apply", "-f", pool, folder=bare.folder)
    assert (code, said) == (4, f"error: {pool}:4: Pool/shared: spec.policy: {INSTALL}")
    bare.ok("apply", "-f", pool)
    code, said = without_numpy("serve", "--ledger", "quorate.db", folder=bare.folder)
    assert code == 4
    assert said.endswith(f"quorate.db: pool 'shared' uses rounds, but {INSTALL}")
