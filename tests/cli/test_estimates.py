"""``quorate throughputs estimate`` and ``draw``: the example, and input that they refuse."""

from __future__ import annotations

import json

import pytest

from quorate.policy.files.throughputs_file import ThroughputTable, read_throughputs
from tests.cli.shell import EXAMPLES, Shell

RATES = EXAMPLES / "rates.json"
PAIR = "('speech', 1)", "('speech', 1)"


def with_a_gap(shell: Shell) -> str:
    """Return the path of the example without the rates of "speech" beside its own type."""
    tree = json.loads(RATES.read_text())
    for flavor in ("h100", "l40s"):
        del tree[flavor][PAIR[0]][PAIR[1]]
    for flavor in [name for name in tree if name.endswith("_unconsolidated")]:
        tree[flavor].get(PAIR[0], {}).pop(PAIR[1], None)
    return str(shell.file("gap.json", json.dumps(tree)))


def test_a_gap_is_filled_and_the_table_written(shell: Shell) -> None:
    said = shell("throughputs", "estimate", with_a_gap(shell), "--to", "full.json")
    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["TYPE", "LIKE", "DISTANCE", "MEASURED"]
    assert said.out.splitlines()[1].startswith("('speech', 1)")
    assert said.out.endswith("Estimated the rates of 1 pair.\n")
    made = read_throughputs((shell.folder / "full.json").read_bytes())
    assert isinstance(made, ThroughputTable)
    again = shell("throughputs", "estimate", with_a_gap(shell), "--to", "full.json")
    assert (again.code, "full.json already exists" in again.err) == (1, True)
    nowhere = shell("throughputs", "estimate", with_a_gap(shell), "--to", "no/full.json")
    assert (nowhere.code, "cannot be written" in nowhere.err) == (4, True)


def test_the_estimates_and_the_table_are_there_for_programs(shell: Shell) -> None:
    tree = json.loads(shell.ok("throughputs", "estimate", with_a_gap(shell), "-o", "json"))
    assert tree["filled"] == 1
    assert tree["estimates"][0]["type"] == "('speech', 1)"
    assert len(tree["throughputs"]["h100"][PAIR[0]][PAIR[1]]) == 2


def test_a_whole_table_has_nothing_to_estimate(shell: Shell) -> None:
    assert shell.ok("throughputs", "estimate", RATES) == "Nothing is missing.\n"


def test_what_cannot_be_estimated_is_an_error(shell: Shell) -> None:
    rates = {"x": {"('a', 1)": {"null": 1.0, "('a', 1)": [0.5, 0.5]}, "('b', 1)": {"null": 1.0}}}
    path = shell.file("lone.json", json.dumps(rates))
    said = shell("throughputs", "estimate", path)
    assert (said.code, said.out) == (3, "")
    assert "was not measured together with any known type" in said.err


def test_a_trial_shows_what_types_are_taken_for(shell: Shell) -> None:
    said = shell.ok("throughputs", "estimate", RATES, "--trial", "1")
    assert said.endswith("3 of 3 types are matched correctly.\n")
    tree = json.loads(
        shell.ok("throughputs", "estimate", RATES, "--trial", "0.4", "--known", "2", "-o", "json")
    )
    assert len(tree["match"]) == 3
    assert tree["exact"] <= 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--seed", "3"], 2, "--known, --gpus and --seed need --trial"),
        (["--trial", "0.5", "--to", "x.json"], 2, "a trial writes no table"),
        (
            ["--trial", "0.5", "--known", "9"],
            3,
            "has 3 types, so the number of known types cannot be 9",
        ),
        (["--trial", "0.5", "--gpus", "7"], 3, "has gaps among the types of 7 GPUs"),
    ],
)
def test_what_a_trial_cannot_be_is_told(
    shell: Shell, words: list[str], code: int, message: str
) -> None:
    said = shell("throughputs", "estimate", RATES, *words)
    assert said.code == code
    assert message in said.err


def test_jobs_are_drawn_of_the_types_that_run_on_a_flavor(shell: Shell) -> None:
    words = ("throughputs", "draw", RATES, "--flavor", "h100", "--count", "40", "--sizes")
    jobs = json.loads(shell.ok(*words, "--weights", "-o", "json"))
    assert len(jobs) == 40
    assert {job["scale_factor"] for job in jobs} <= {1, 2}
    assert {job["priority_weight"] for job in jobs} == {1.0, 5.0}
    assert all(job["total_steps"] > 0 for job in jobs)
    assert shell.ok(*words) == shell.ok(*words) != shell.ok(*words, "--seed", "1")


def test_a_flavor_that_is_none_and_one_that_runs_nothing_are_told(shell: Shell) -> None:
    said = shell("throughputs", "draw", RATES, "--flavor", "k80")
    assert (said.code, said.out) == (3, "")
    assert "has no flavor k80; use one of h100, l40s" in said.err
    still = shell.file("still.json", json.dumps({"x": {"('a', 1)": {"null": 0}}}))
    said = shell("throughputs", "draw", still, "--flavor", "x")
    assert (said.code, "has no type that runs on x" in said.err) == (3, True)
