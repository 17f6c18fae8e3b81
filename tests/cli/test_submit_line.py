"""Runs by command line: typed, or in a script for Slurm."""

from __future__ import annotations

from pathlib import Path

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
        (("--", "true"), "--flavor: there are several kinds of GPU: A100, H100; name one"),
        (("--flavor", "H100"), "what is to be run? write it after --"),
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
    assert "--for is for a run by command line" in shell("submit", "-f", "x", "--for", "4h").err
    assert "--name is not for files" in shell("submit", "-f", "x", "--name", "a").err
    assert "needs --gpus N" in shell("submit", "--team", "a", "--", "x").err
    assert "needs --team OWNER" in shell("submit", "--gpus", "8", "--", "x").err


SCRIPT = """#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --gres=gpu:h100:8
#SBATCH --nodes=2
#SBATCH --time=1:30:00
#SBATCH --account=rai
#SBATCH --mem=64G
#SBATCH --export=SEED=3,QUORATE_ACTOR,NOT_THERE
python train.py
"""


def test_a_script_for_slurm_is_a_run(shell: Shell) -> None:
    path = shell.file("job.sh", SCRIPT)
    said = shell("sbatch", "job.sh", "--epochs", "3")
    assert said.code == 0, said
    assert said.err.splitlines() == [
        "job.sh:5: --time: expected to take 90m; it is not stopped for taking longer",
        "job.sh:7: --mem: left out: runs are placed by GPUs; memory is not counted",
        "--export: NOT_THERE: is not set here, so nothing is copied",
        f"job.sh: is not copied; {path} must be there when the run starts",
    ]
    (run,) = shell("get", "runs", "-o", "json").json["items"]
    assert run["metadata"]["name"].startswith("resnet-")
    spec = run["spec"]
    assert spec["command"] == ["/bin/bash", str(path), "--epochs", "3"]
    assert spec["resources"] == {"gpuType": "H100", "totalGPUs": 16}
    assert spec["env"] == {"SEED": "3", "QUORATE_ACTOR": "ada"}
    assert spec["runtime"]["expectedDuration"] == "90m"


@pytest.mark.heavy
def test_options_win_over_the_lines_of_a_script(shell: Shell) -> None:
    shell.file("job.sh", SCRIPT)
    shell.ok("sbatch", "--gpus", "4", "--flavor", "A100", "--name", "mine", "job.sh")
    spec = shell("get", "run", "mine", "-o", "json").json["spec"]
    assert spec["resources"] == {"gpuType": "A100", "totalGPUs": 4}


def test_a_partition_that_is_no_pool_here_can_be_another(shell: Shell) -> None:
    lines = ("--gpus=H100:2", "--account=rai", "--partition=gpu,long", "--time=1-0")
    text = "\n".join(("#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "true\n"))
    path = shell.file("job.sh", text)
    said = shell("sbatch", "--name", "mine", "--pool", "default", "--for", "2h", "job.sh")
    assert said.code == 0, said
    assert said.err.splitlines() == [
        "job.sh:4: --partition: left out: --pool is given",
        "job.sh:5: --time: left out: --for is given",
        f"job.sh: is not copied; {path} must be there when the run starts",
    ]
    spec = shell("get", "run", "mine", "-o", "json").json["spec"]
    assert spec["runtime"]["expectedDuration"] == "2h"
    assert "pool" not in spec


def test_options_after_a_script_are_its_own_and_that_is_said(shell: Shell) -> None:
    shell.file("job.sh", SCRIPT)
    said = shell("sbatch", "--name", "mine", "job.sh", "--dry-run", "--gpus=4", "--epochs", "3")
    assert said.code == 0, said
    told = "comes after job.sh, so it is handed to the script"
    assert [line.partition(":")[0] for line in said.err.splitlines() if told in line] == [
        "--dry-run",
        "--gpus",
    ]
    command = shell("get", "run", "mine", "-o", "json").json["spec"]["command"]
    assert command[2:] == ["--dry-run", "--gpus=4", "--epochs", "3"]


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("#!/bin/bash\n#SBATCH --account=rai\ntrue\n", 3, "job.sh: asks for no GPUs"),
        ("#!/bin/bash\n#SBATCH --gpus=2\ntrue\n", 3, "job.sh: does not say whose work it is"),
        (f"{SCRIPT[:12]}#SBATCH --array=0-9\n", 3, "--array: is not possible here"),
        ("\0ELF", 3, "job.sh is not a script"),
    ],
)
def test_a_script_that_cannot_be_a_run_says_why(
    shell: Shell, text: str, code: int, told: str
) -> None:
    shell.file("job.sh", text)
    said = shell("sbatch", "job.sh")
    assert (said.code, said.out) == (code, "")
    assert told in said.err


def test_a_script_has_to_be_there(shell: Shell) -> None:
    said = shell("sbatch", Path("nowhere.sh"))
    assert said.code == 4
    assert "there is no file nowhere.sh" in said.err


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
