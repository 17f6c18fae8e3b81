"""``quorate top``, ``quorate queue``, and output to closed pipes."""

from __future__ import annotations

import os
import pty
import termios
from contextlib import suppress

import pytest

from quorate.adapters.executors.keepers import run_folder, work_folder
from quorate.keeper.output import OutputWriter
from quorate.keeper.wanted import OUTPUT
from tests.cli.shell import EXAMPLES, Shell, finish, start


def test_top_counts_the_fleet_and_who_has_it(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    found = shell("top", "-o", "json").json
    flavors = {each["flavor"]: each for each in found["flavors"]}
    assert flavors["H100"]["gpusUsed"] == 96
    for each in [*found["flavors"], *found["domains"]]:
        used, free, out = (each[f"gpus{what}"] for what in ("Used", "Free", "OutOfService"))
        assert used + free + out == each["gpusTotal"]
    by_domain = sum(each["gpusUsed"] for each in found["domains"])
    assert by_domain == 96
    assert found["owners"] == [
        {"owner": "rai", "flavor": "H100", "gpus": 96, "gpusSpare": 0, "runs": 1}
    ]


def test_top_shows_bars(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    shell.ok("submit", "--like", "train", "--name", "next")
    out = shell.ok("top")
    (h100,) = [line for line in out.splitlines() if line.startswith("H100")]
    assert "[########" in h100
    assert h100.split()[-1] == "96", "what waits asks for 96"
    assert "us-west/c1/A" in out
    (owner,) = [line for line in out.splitlines() if line.startswith("rai")]
    assert "80.0 %" in owner
    assert "POOL" in shell.ok("top", "-o", "wide")


@pytest.mark.heavy
def test_top_of_nothing_says_so(bare: Shell) -> None:
    bare.ok("init")
    said = bare("top")
    assert (said.code, said.out, said.err) == (0, "", "there are no nodes\n")


def test_top_of_an_unknown_pool_is_refused(shell: Shell) -> None:
    said = shell("top", "--pool", "nowhere")
    assert said.code == 1
    assert "there is no pool 'nowhere'; list them: quorate get pools" in said.err


def _on_terminal(shell: Shell, columns: int, *words: str) -> list[str]:
    """Return the lines that a terminal with ``columns`` columns shows."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    env = {"TERM": "xterm", "COLUMNS": "", "PYTHONIOENCODING": "utf-8"}
    running = start(shell.folder, *words, env=env, stdout=theirs)
    os.close(theirs)
    screen = b""
    with suppress(OSError):  # The terminal closes when the last process that writes to it ends.
        while more := os.read(ours, 65_536):
            screen += more
    os.close(ours)
    assert finish(running).code == 0
    return screen.decode().splitlines()


@pytest.mark.heavy
def test_a_table_fits_its_terminal_and_is_whole_in_a_pipe(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    shell.ok("submit", "--like", "train", "--name", "next")
    whole = shell.ok("get", "runs").splitlines()
    names = [line.split()[0] for line in whole]
    assert max(map(len, whole)) > 100
    assert len(_on_terminal(shell, 300, "get", "runs")) == len(whole)
    shown = _on_terminal(shell, 100, "get", "runs")
    assert [line.split()[0] for line in shown] == names
    assert max(map(len, shown)) <= 100
    assert [line.endswith("\u2026") for line in shown].count(True) == 1


def test_queue_is_get_queue(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    shell.ok("submit", "--like", "train", "--name", "next")
    for words in ((), ("-o", "wide"), ("-o", "json"), ("--owner", "rai")):
        assert shell.ok("queue", *words) == shell.ok("get", "queue", *words)


def test_output_that_nobody_keeps_is_refused(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    said = shell("logs", "train")
    assert (said.code, said.out) == (1, "")
    assert "no logs for run 'train': no executor starts processes here" in said.err
    assert "there is no run 'nope'" in shell("logs", "nope", "-f").err
    assert shell("logs", "train", "-f", "-o", "json").code == 2


@pytest.mark.heavy
def test_output_that_a_service_has_kept_is_read_beside_the_ledgers_file(shell: Shell) -> None:
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    kept = OutputWriter(run_folder(work_folder(shell.folder / "quorate.db"), "train") / OUTPUT)
    kept.say("start 1: 2 processes on 2 GPUs", 1)
    kept.take((0, "a1", "out"), b"one\n", 2)
    kept.take((1, "a2", "err"), b"two\n", 3)
    kept.take((0, "a1", "out"), b"more\n" * 2_500, 4)
    kept.close()
    lines = shell.ok("logs", "train").splitlines()
    assert lines[:4] == ["quorate: start 1: 2 processes on 2 GPUs", "one", "two", "more"]
    assert len(lines) == 2_503
    assert shell.ok("logs", "train", "--prefix").splitlines()[:3] == [
        "[quorate] quorate: start 1: 2 processes on 2 GPUs",
        "[0/a1/out] one",
        "[1/a2/err] two",
    ]
    assert shell.ok("logs", "train", "--from", "2", "--prefix").startswith("[1/a2/err] two\n[0/")
    tree = shell("logs", "train", "-o", "json").json
    assert [each["rank"] for each in tree["lines"][:3]] == [None, 0, 1]
    assert shell("logs", "train", "--prefix", "-o", "json").code == 2
    # A command that follows a run ends with the run.
    shell.ok("complete", "train")
    assert len(shell.ok("logs", "train", "-f").splitlines()) == 2_503
