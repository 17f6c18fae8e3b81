"""``quorate notices`` on the file of a ledger."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import EXAMPLES, Shell, finish, start


def test_a_start_is_shown_with_its_next_command(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    (line,) = [row for row in shell.ok("notices").splitlines() if "run-started" in row]
    assert "run/train started" in line
    assert line.endswith("Follow it: quorate watch train")
    (item,) = shell("notices", "--kind", "run-started", "-o", "json").json["items"]
    assert (item["run"], item["owner"], item["kind"]) == ("train", "rai", "run-started")
    assert sum(item["facts"]["payers"].values()) == item["facts"]["gpus"]


@pytest.mark.heavy
def test_that_there_is_none_is_said(bare: Shell) -> None:
    bare.ok("init")
    said = bare("notices")
    assert (said.code, said.out, said.err) == (0, "", "no notices match\n")


def test_those_that_come_are_followed_until_enough(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    followed = shell.ok("notices", "-f", "--from", "1", "--count", "1")
    assert "run-started: run/train started" in followed
    tree = json.loads(shell.ok("notices", "-f", "--from", "1", "--count", "1", "-o", "json"))
    assert tree["run"] == "train"


@pytest.mark.slow
def test_what_another_process_records_is_told(shell: Shell) -> None:
    following = start(shell.folder, "notices", "-f", "--from", "1", "--count", "1")
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    said = finish(following)
    assert said.code == 0, said
    assert "run/train started" in said.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-f", "--limit", "3"), "-f has no limit"),
        (("-f", "-o", "yaml"), "-f prints one notice per line"),
        (("--count", "3"), "--count is for -f"),
        (("--kind", "nope"), "there is no 'nope'; there are: run-started"),
    ],
)
def test_what_does_not_go_together_is_said(shell: Shell, words: tuple[str, ...], why: str) -> None:
    said = shell("notices", *words)
    assert said.code == 2
    assert why in said.err
