"""Runs and nodes as Slurm shows them, and the formats of its commands."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.slurm.job_rows import full_span, grouped, job_rows, node_list, span
from quorate.cli.slurm.node_rows import node_rows, node_state
from quorate.cli.slurm.slurm_format import (
    Field,
    FormatError,
    named_fields,
    named_lines,
    percent_lines,
)

START = "2026-11-17T10:00:00.000Z"
FIELDS: dict[str, Field[str]] = {"i": Field("JOBID", str), "T": Field("STATE", str.upper)}
NAMED: dict[str, Field[str]] = {"JobID": Field("JobID", str), "State": Field("State", str.upper)}


def tree(
    name: str,
    phase: str,
    *,
    env: dict[str, str] | None = None,
    task: int | None = None,
    **status: Any,
) -> Any:
    spec: dict[str, Any] = {
        "owner": "rai",
        "user": "ada",
        "resources": {"gpuType": "H100", "totalGPUs": 4},
    }
    limited = ["sh", "-c", "x", "sbatch", "timeout", "--kill-after=30s", "60s", "sh", "a.sh"]
    if task is not None:
        spec["array"] = {"name": "s", "tasks": "0-9", "task": task}
    found = {"phase": phase, "submitted": START, "gpus": 0} | status
    return {
        "metadata": {"name": name},
        "spec": spec | {"env": env or {}, "command": limited},
        "status": found,
    }


def test_a_run_is_shown_as_a_job() -> None:
    env = {"SLURM_JOB_NAME": "resnet"}
    (row,) = job_rows([tree("a", "Running", env=env, started=START, gpus=4)], {"a": ("n1", "n2")})
    assert (row.job_id, row.name, row.state, row.account) == ("a", "resnet", "RUNNING", "rai")
    assert (row.partition, row.nodes, row.limit_s) == ("default", ("n1", "n2"), 60)
    assert row.command == "sh a.sh"
    at = datetime(2026, 11, 17, 10, tzinfo=UTC) + timedelta(seconds=75)
    assert row.elapsed_s(at) == 75


@pytest.mark.parametrize(
    ("note", "state", "code"),
    [
        ("rank 0 on n1 exited with code 124", "TIMEOUT", 124),
        ("rank 0 on n1 exited with code 3", "FAILED", 3),
        ("loss is NaN", "FAILED", 1),
    ],
)
def test_a_failed_job_has_an_exit_code(note: str, state: str, code: int) -> None:
    (row,) = job_rows([tree("a", "Failed", note=note)], {})
    assert (row.state, row.exit_code) == (state, code)


def test_tasks_that_wait_for_the_same_share_a_row() -> None:
    refusal = {"code": "waiting-for-upstream"}
    runs = [tree("s_1", "Running", task=1, started=START)]
    runs += [tree(f"s_{n}", "Pending", task=n, refusal=refusal) for n in (3, 4, 7)]
    runs += [tree("other_9", "Pending", refusal={"code": "insufficient-capacity"})]
    rows = grouped(job_rows(runs, {}))
    assert [(row.job_id, row.reason) for row in rows] == [
        ("s_1", "None"),
        ("s_[3-4,7]", "Dependency"),
        ("other_9", "Resources"),
    ]


@pytest.mark.parametrize(
    ("seconds", "short", "full"),
    [(0, "0:00", "00:00:00"), (303, "5:03", "00:05:03"), (90_061, "1-01:01:01", "1-01:01:01")],
)
def test_times_are_written_as_slurm_writes_them(seconds: int, short: str, full: str) -> None:
    assert (span(seconds), full_span(seconds)) == (short, full)


def _expanded(text: str) -> set[str]:
    """Return the nodes of a host list, parsed letter by letter."""
    found: set[str] = set()
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        base, bracket, inside = part.partition("[")
        if not bracket:
            found.add(base)
        for each in inside.rstrip("]").split(",") if bracket else ():
            low, _, high = each.partition("-")
            for number in range(int(low), int(high or low) + 1):
                found.add(f"{base}{str(number).zfill(len(low))}")
    return found


@given(st.sets(st.from_regex(r"[a-c](?:[1-9][0-9]?|0[0-9]|x)?", fullmatch=True), max_size=30))
def test_a_list_of_nodes_says_the_nodes_and_no_others(nodes: set[str]) -> None:
    assert _expanded(node_list(sorted(nodes))) == nodes


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([f"{n:03}" for n in range(1, 120)], "n[001-119]"),
        ([f"{n:02}" for n in range(8, 102)], "n[08-99],n[100-101]"),
        ([str(n) for n in range(12)], "n[0-11]"),
        (["7", "08", "10"], "n7,n[08,10]"),
    ],
)
def test_numbers_with_leading_zeros_are_one_range_with_those_of_equal_length(
    numbers: list[str], text: str
) -> None:
    assert node_list(f"n{number}" for number in numbers) == text


@pytest.mark.parametrize(
    ("status", "free", "leases", "state"),
    [
        ("Ready", 8, [], "idle"),
        ("Ready", 3, ["a/0"], "mix"),
        ("Ready", 0, ["a/0"], "alloc"),
        ("Cordoned", 0, ["a/0"], "drng"),
        ("Cordoned", 0, [], "drain"),
        ("Failed", 0, [], "down"),
    ],
)
def test_a_node_has_the_state_that_sinfo_shows(
    status: str, free: int, leases: list[str], state: str
) -> None:
    assert node_state({"status": status, "freeGPUs": free, "leases": leases}, 8) == state


def test_nodes_that_are_alike_share_a_row() -> None:
    def node(name: str, free: int) -> dict[str, Any]:
        status = {"status": "Ready", "pool": "p", "freeGPUs": free, "leases": ["x"] * (free < 8)}
        return {"metadata": {"name": name}, "spec": {"flavor": "H", "gpus": 8}, "status": status}

    nodes = [node("a1", 8), node("a2", 8), node("a3", 0)]
    assert [(row.state, row.nodes) for row in node_rows(nodes, each=False)] == [
        ("alloc", ("a3",)),
        ("idle", ("a1", "a2")),
    ]
    assert len(node_rows(nodes, each=True)) == 3


def test_a_format_has_widths_that_cut() -> None:
    lines = percent_lines("%.4i|%6T|%i!", FIELDS, ["abcdef", "x"], has_head=True)
    assert lines == ["JOBI|STATE |JOBID!", "abcd|ABCDEF|abcdef!", "   x|X     |x!"]
    assert percent_lines("%i", FIELDS, ["x"], has_head=False) == ["x"]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("%Y", "unknown column %Y; use %i JOBID, %T STATE"),
        ("plain", "'plain' has no column"),
        ("%i %", "'%' is not a column"),
    ],
)
def test_a_format_that_cannot_be_read_says_why(template: str, text: str) -> None:
    with pytest.raises(FormatError, match=re.escape(text)):
        percent_lines(template, FIELDS, [], has_head=True)


def test_named_columns_have_widths_and_separators() -> None:
    columns = named_fields("jobid%6,State%-4", NAMED)
    assert named_lines(columns, ["ab", "cdefghi"], has_head=True) == [
        " JobID Stat",
        "------ ----",
        "    ab AB  ",
        "cdefgh CDEF",
    ]
    bare = named_lines(columns, ["ab"], has_head=False, between="|")
    assert bare == ["ab|AB"]
    with pytest.raises(FormatError, match="unknown column 'Stat'; did you mean State"):
        named_fields("JobID,Stat", NAMED)
