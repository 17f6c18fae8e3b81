"""``quorate sbatch``: scripts, options, arrays, dependencies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.slurm.batch_job import PROLOGUE
from tests.cli.shell import Shell

WRAP = ("sbatch", "-A", "rai", "--flavor", "H100", "-G", "1")


def _runs(shell: Shell) -> dict[str, Any]:
    items = shell("get", "runs", "--tasks", "-o", "json").json["items"]
    return {each["metadata"]["name"]: each for each in items}


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
        "note: --flavor h100: read as H100, the spelling of the nodes",
        "job.sh:4: --nodes: does not fix the number of nodes; see SLURM_NNODES",
        "job.sh:7: --mem: left out: runs are placed by GPUs; memory is not counted",
        "--export: NOT_THERE: is not set in this shell, so it is not copied",
        f"job.sh: is not copied; {path} must still exist when the run starts",
    ]
    (run,) = shell("get", "runs", "-o", "json").json["items"]
    assert run["metadata"]["name"].startswith("resnet-")
    spec = run["spec"]
    assert spec["command"][:2] == ["sh", "-c"]
    limit = ["timeout", "--kill-after=30s", "5400s"]
    assert spec["command"][3:] == ["sbatch", *limit, "/bin/bash", str(path), "--epochs", "3"]
    assert spec["resources"] == {"gpuType": "H100", "totalGPUs": 16}
    assert spec["env"] == {
        "SEED": "3",
        "QUORATE_ACTOR": "ada",
        "SLURM_JOB_NAME": "resnet",
        "SLURM_SUBMIT_DIR": str(shell.folder),
        "SLURM_JOB_ACCOUNT": "rai",
        "SLURM_JOB_PARTITION": "default",
        "SLURM_GPUS": "16",
    }
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
        "job.sh:4: --partition: left out, because --pool is given",
        f"job.sh: is not copied; {path} must still exist when the run starts",
    ]
    spec = shell("get", "run", "mine", "-o", "json").json["spec"]
    assert spec["runtime"]["expectedDuration"] == "2h"
    assert "pool" not in spec


def test_options_after_a_script_are_its_own_and_that_is_said(shell: Shell) -> None:
    shell.file("job.sh", SCRIPT)
    said = shell("sbatch", "--name", "mine", "job.sh", "--dry-run", "--gpus=4", "--epochs", "3")
    assert said.code == 0, said
    told = "is after job.sh, so it is an argument of the script"
    assert [line.partition(":")[0] for line in said.err.splitlines() if told in line] == [
        "--dry-run",
        "--gpus",
    ]
    command = shell("get", "run", "mine", "-o", "json").json["spec"]["command"]
    assert command[-4:] == ["--dry-run", "--gpus=4", "--epochs", "3"]


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("#!/bin/bash\n#SBATCH --account=rai\ntrue\n", 3, "job.sh: asks for no GPUs"),
        ("#!/bin/bash\n#SBATCH --gpus=2\ntrue\n", 3, "job.sh: has no owner"),
        (f"{SCRIPT[:12]}#SBATCH --begin=16:00\n", 3, "--begin: is not supported"),
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
    for path in (Path("nowhere.sh"), shell.folder):
        said = shell("sbatch", path)
        assert said.code == 4
        assert f"there is no readable file {path}; name an existing script" in said.err


def test_a_job_may_be_typed_without_a_script(shell: Shell) -> None:
    said = shell(*WRAP, "-J", "hello", "-t", "10", "--name", "a", "--wrap=echo a | cat")
    assert (said.code, said.err) == (0, ""), said
    spec = _runs(shell)["a"]["spec"]
    assert spec["command"][4:] == [
        *("timeout", "--kill-after=30s", "600s", "sh", "-c", "echo a | cat")
    ]
    assert spec["env"]["SLURM_JOB_NAME"] == "a"


def test_the_name_alone_is_printed_for_scripts(shell: Shell) -> None:
    first = shell.ok(*WRAP, "-J", "prep", "--parsable", "--wrap=true").strip()
    assert first.startswith("prep-")
    after = f"--dependency=afterok:{first}"
    second = shell.ok(*WRAP, after, "--parsable", "--wrap=true").strip()
    follow = _runs(shell)[second]["spec"]["follow"]
    assert follow == {"after": [first]}
    array = shell.ok(*WRAP, "--array=1-2", "--parsable", "--wrap=true").strip()
    assert f"{array}_2" in _runs(shell)


def test_a_test_only_job_is_a_dry_run(shell: Shell) -> None:
    before = shell.ledger_bytes()
    assert "nothing was recorded" in shell.ok(*WRAP, "--test-only", "--wrap=true")
    assert shell.ledger_bytes() == before


def test_an_array_is_a_run_for_each_task_and_its_limit_holds(shell: Shell) -> None:
    shell.ok(*WRAP, "--name", "sweep", "--array=0-8:2%2", "--wrap=true")
    runs = _runs(shell)
    assert list(runs) == [f"sweep_{index}" for index in (0, 2, 4, 6, 8)]
    assert runs["sweep_4"]["spec"]["array"] == {"name": "sweep", "tasks": "0,2,4,6,8%2", "task": 4}

    def running() -> list[str]:
        return [name for name, run in _runs(shell).items() if run["status"]["phase"] == "Running"]

    assert running() == ["sweep_0", "sweep_2"]
    shell.ok("fail", "sweep_0")
    assert running() == ["sweep_2", "sweep_4"]
    shell.ok("cancel", "sweep[2-8:2]")
    assert running() == []
    phases = {name: run["status"]["phase"] for name, run in _runs(shell).items()}
    assert phases.pop("sweep_0") == "Failed"
    assert set(phases.values()) == {"Cancelled"}
    started = [name for name, run in _runs(shell).items() if run["status"].get("started")]
    assert sorted(started) == ["sweep_0", "sweep_2", "sweep_4"], "none started to be cancelled"


def test_a_task_is_named_by_its_array_and_index(shell: Shell) -> None:
    shell.ok(*WRAP, "--name", "sweep", "--array=1-3", "--wrap=true")
    assert shell("get", "run", "sweep[2]", "-o", "json").json["metadata"]["name"] == "sweep_2"
    listed = shell.ok("get", "runs", "sweep[2-3]", "-o", "name").splitlines()
    assert listed == ["run/sweep_2", "run/sweep_3"]
    assert "sweep_1" in shell.ok("describe", "run", "sweep[1]")
    said = shell("logs", "sweep[1-2]")
    assert said.code == 2
    assert "sweep[1-2]: names 2 runs; name one of them, such as sweep_1" in said.err


def test_cancelling_all_starts_no_task_on_the_way(shell: Shell) -> None:
    shell.ok(*WRAP, "--name", "sweep", "--array=1-9%2", "--wrap=true")
    shell.ok("cancel", "--all", "--yes")
    started = [name for name, run in _runs(shell).items() if run["status"].get("started")]
    assert started == ["sweep_1", "sweep_2"]


def test_a_singleton_follows_the_jobs_of_its_name(shell: Shell) -> None:
    shell.ok(*WRAP, "-J", "nightly", "--parsable", "--wrap=true")
    (first,) = _runs(shell)
    shell.ok(*WRAP, "-J", "other", "--wrap=true")
    single = ("-J", "nightly", "--dependency=singleton", "--parsable", "--wrap=true")
    second = shell.ok(*WRAP, *single).strip()
    follow = _runs(shell)[second]["spec"]["follow"]
    assert follow == {"afterAny": [first]}
    shell.ok("cancel", first)
    assert _runs(shell)[second]["status"]["phase"] == "Running"


def test_the_output_file_of_slurm_is_not_our_form(shell: Shell) -> None:
    said = shell(*WRAP, "-o", "slurm-%j.out", "--dry-run", "--wrap=true")
    assert said.code == 0, said
    assert "--output: left out: the executor keeps the output" in said.err
    assert shell(*WRAP, "-o", "json", "--dry-run", "--wrap=true").json["dryRun"] is True


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "name a script, as in: quorate sbatch job.sh; or give --wrap=COMMAND; standard"),
        (("-",), "standard input is not read: the script must exist when the run starts"),
        (("--wrap=true", "job.sh"), "--wrap: already gives the command; remove 'job.sh'"),
        (("--gpu=1", "job.sh"), "unknown option --gpu of sbatch; did you mean --gpus?"),
    ],
)
def test_a_line_that_is_no_job_says_why(shell: Shell, words: tuple[str, ...], text: str) -> None:
    said = shell("sbatch", *words)
    assert (said.code, said.out) == (2, "")
    assert text in said.err


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("typed", "followed"),
    [
        ("sweep", ["sweep"]),
        ("sweep[1,3]", ["sweep_1", "sweep_3"]),
        ("run/sweep_[1-3:2]", ["sweep_1", "sweep_3"]),
    ],
)
def test_an_array_is_followed_by_its_name(shell: Shell, typed: str, followed: list[str]) -> None:
    name = shell.ok(*WRAP, "--name", "sweep", "--parsable", "-a", "1-3", "--wrap=true").strip()
    assert name == "sweep"
    shell.ok(*WRAP, "--name", "one", "--wrap=true")
    shell.ok(*WRAP, "--name", "last", "-d", f"afterok:{typed}:one", "--wrap=true")
    after = _runs(shell)["last"]["spec"]["follow"]["after"]
    assert sorted(after) == ["one", *followed]
    shell.ok("complete", "one")
    shell.ok("complete", "sweep[1,3]")
    assert (_runs(shell)["last"]["status"]["phase"] == "Running") == ("sweep" not in followed)
    shell.ok("complete", "sweep_2")
    assert _runs(shell)["last"]["status"]["phase"] == "Running"


def test_a_task_follows_the_task_of_its_index(shell: Shell) -> None:
    shell.ok(*WRAP, "--name", "prep", "--array=1-2", "--wrap=true")
    said = shell(*WRAP, "-d", "aftercorr:prep", "--wrap=true")
    assert "aftercorr: is for arrays" in said.err
    shell.ok(*WRAP, "--name", "train", "-a", "1-2", "-d", "aftercorr:prep", "--wrap=true")
    shell.ok("complete", "prep_2")
    phases = {name: run["status"]["phase"] for name, run in _runs(shell).items()}
    assert (phases["train_1"], phases["train_2"]) == ("Pending", "Running")


def test_an_array_without_a_task_of_each_index_cannot_be_followed_so(shell: Shell) -> None:
    shell.ok(*WRAP, "--name", "prep", "--array=1-2", "--wrap=true")
    said = shell(*WRAP, "--name", "t", "-a", "1-3", "-d", "aftercorr:prep", "--wrap=true")
    assert said.code == 1, said
    assert "prep_3" in said.err


def test_tasks_of_an_array_know_their_index() -> None:
    env = {"PATH": os.environ["PATH"], "QUORATE_RUN": "sweep_3", "NNODES": "1"}
    env |= {"QUORATE_ARRAY": "sweep", "QUORATE_ARRAY_TASK_ID": "3"}
    env |= {f"QUORATE_ARRAY_TASK_{word}": word.lower() for word in ("COUNT", "MIN", "MAX")}
    told = "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT"
    done = subprocess.run(
        ["sh", "-c", PROLOGUE, "sbatch", "sh", "-c", told],
        env=env,
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "sweep 3 count\n"


def test_what_is_neither_run_nor_array_cannot_be_followed(shell: Shell) -> None:
    said = shell(*WRAP, "-d", "afterok:nowhere", "--wrap=true")
    assert said.code != 0
    assert "nowhere" in said.err


@pytest.mark.parametrize(
    ("visible", "told"),
    [("0,1,2", "3 0,1,2 a b"), ("5", "1 5 a b"), (None, "unset  a b")],
)
def test_a_job_is_told_the_gpus_that_it_has_on_its_node(visible: str | None, told: str) -> None:
    env = {"PATH": os.environ["PATH"], "QUORATE_RUN": "r", "NNODES": "2", "QUORATE_NODE": "a1"}
    if visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible
    words = 'echo "${SLURM_GPUS_ON_NODE-unset} $SLURM_JOB_GPUS" $0'
    done = subprocess.run(
        ["sh", "-c", PROLOGUE, "sbatch", "sh", "-c", words, "a b"],
        env=env,
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == f"{told}\n"
