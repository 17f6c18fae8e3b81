"""``quorate submit`` with the run given by options."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

SUBMIT = ("submit", "--gpus", "8", "--team", "rai")


def test_a_command_line_is_a_run(shell: Shell) -> None:
    words = ("--for", "4h", "--env", "SEED=1", "--env", "EMPTY=", "--group-gpus", "4")
    said = shell(
        *SUBMIT, "--flavor", "H100", *words, "--name", "a", "--", "python", "t.py", "--lr=1"
    )
    assert said.code == 0, said
    assert "run/a started on 8 H100 GPUs" in said.out
    spec = shell("get", "run", "a", "-o", "json").json["spec"]
    assert spec["command"] == ["python", "t.py", "--lr=1"]
    assert spec["env"] == {"SEED": "1", "EMPTY": ""}
    assert spec["workingDir"] == str(shell.folder)
    assert spec["runtime"]["expectedDuration"] == "4h"
    assert spec["locality"]["groupGPUs"] == 4
    assert spec["user"] == "ada"


def test_no_shell_reads_a_command(shell: Shell) -> None:
    command = ["sh", "-c", "echo $HOME; `rm -rf x` && $(true)", "* ? 'q'"]
    shell.ok(*SUBMIT, "--flavor", "H100", "--name", "a", "--", *command)
    assert shell("get", "run", "a", "-o", "json").json["spec"]["command"] == command


def test_a_name_begins_like_the_program(shell: Shell) -> None:
    shell.ok(*SUBMIT, "--flavor", "H100", "--", "torchrun", "--nnodes", "1", "src/Train_Big.py")
    shell.ok(*SUBMIT, "--flavor", "H100", "--", "python", "-m", "resnet.main")
    names = [each["metadata"]["name"] for each in shell("get", "runs", "-o", "json").json["items"]]
    assert len(names) == 2
    assert any(name.startswith("resnet-") for name in names), names


def test_several_flavors_are_preferences(shell: Shell) -> None:
    words = ("--flavor", "A100,H100", "--flavor", "H200", "--name", "a", "--dry-run")
    shell.ok(*SUBMIT, *words, "--", "true")
    shell.ok(*SUBMIT, *words[:-1], "--set", "spec.resources.totalGPUs=4", "--", "true")
    spec = shell("get", "run", "a", "-o", "json").json["spec"]
    assert spec["resources"] == {"gpuTypes": ["A100", "H100", "H200"], "totalGPUs": 4}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--", "true"), "--flavor: there are several flavors: A100, H100; name one"),
        (("--flavor", "H100"), "the command is missing; write it after --"),
        (("--flavor", "H 100", "--", "true"), "--flavor: must be 1 to 128 letters"),
        (("--flavor", "H100", "--for", "4x", "--", "true"), "--for: must be a duration"),
        (("--flavor", "H100", "--env", "A", "--", "true"), "--env 'A': write NAME=VALUE"),
        (("--flavor", "H100", "--env", "1A=2", "--", "true"), "--env: has a name that no"),
        (("--flavor", "H100", "--env", "A=1", "--env", "A=2", "--", "x"), "--env A: is given"),
        (("--flavor", "H100", "--name", "a b", "--", "true"), "--name: must be 1 to 128"),
        (("-f", "run.yaml", "--", "true"), "give either -f FILE or --like RUN, or --gpus"),
        (("--like", "a", "--name", "b"), "give either -f FILE or --like RUN, or --gpus"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_in_its_own_words(
    shell: Shell, words: tuple[str, ...], text: str
) -> None:
    before = shell.ledger_bytes()
    said = shell(*SUBMIT, *words)
    assert (said.code, said.out) == (2, "")
    assert text in said.err
    assert shell.ledger_bytes() == before


def test_options_of_a_line_are_not_for_files(shell: Shell) -> None:
    assert "--for is only for a run without a file" in shell("submit", "-f", "x", "--for", "4h").err
    assert "--name is not for files" in shell("submit", "-f", "x", "--name", "a").err
    assert "needs --gpus N" in shell("submit", "--team", "a", "--", "x").err
    assert "add --team OWNER" in shell("submit", "--gpus", "8", "--", "x").err


@pytest.mark.parametrize(
    ("variable", "times"),
    [("HF_TOKEN=abc", 1), ("API_KEYS=a", 1), ("HF_TOKEN_FILE=/t", 0), ("TOKEN=", 0)],
)
def test_what_looks_like_a_secret_is_warned_of(shell: Shell, variable: str, times: int) -> None:
    words = ("--gpus", "8", "--team", "rai", "--flavor", "H100", "--env", variable)
    said = shell("submit", *words, "--dry-run", "--", "true")
    assert said.code == 0
    assert said.err.count("is recorded for ever") == times
    assert "abc" not in said.err


def test_a_flavor_that_no_node_has_is_told_with_those_there_are(shell: Shell) -> None:
    line = ("submit", "--gpus", "8", "--team", "rai", "--name")
    other = shell(*line, "other", "--flavor", "B200", "--flavor", "TPU", "--", "true")
    assert other.err == "warning: no node has flavor B200 or TPU; nodes have: A100, H100\n"
    assert shell(*line, "right", "--flavor", "H100", "--", "true").err == ""
