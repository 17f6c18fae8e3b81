"""The srun of a job: a shell script that runs in any ``sh``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from quorate.cli.slurm.sbatch_script import calls_srun
from tests.bounds import until

pytestmark = pytest.mark.heavy
PROGRAM = str(files("quorate.cli.slurm").joinpath("srun.sh"))
SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]


def srun(*words: str, shell: str = "sh", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shell, PROGRAM, *words],
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_tasks_know_who_they_are(shell: str) -> None:
    words = ("sh", "-c", 'echo "$SLURM_PROCID $SLURM_LOCALID $RANK $WORLD_SIZE $1"', "-", "a  b")
    done = srun("-n", "3", *words, shell=shell)
    assert done.returncode == 0, done
    assert sorted(done.stdout.splitlines()) == [f"{n} {n} {n} 3 a  b" for n in range(3)]


@pytest.mark.parametrize(
    ("words", "env", "count"),
    [
        ((), {}, 1),
        ((), {"SLURM_NTASKS": "4"}, 4),
        (("-n2",), {"SLURM_NTASKS": "4"}, 2),
        (("--ntasks=2", "--exclusive", "-c", "8"), {}, 2),
        (("--ntasks-per-node", "3", "-N", "1"), {"SLURM_NNODES": "2"}, 3),
        (("--", "-n"), {}, 0),
    ],
)
def test_the_number_of_tasks(words: tuple[str, ...], env: dict[str, str], count: int) -> None:
    if words and words[-1] == "-n":
        # After -- comes the command, whatever its name.
        assert "-n" in srun("--", "./-n").stderr
        return
    done = srun(*words, "echo", "x", **env)
    assert done.stdout.count("x") == count, done


def test_gpus_are_divided_among_tasks() -> None:
    show = ("sh", "-c", "echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES")
    done = srun("-n", "2", "--gpus-per-task=2", *show, CUDA_VISIBLE_DEVICES="1,3,5,7")
    assert sorted(done.stdout.splitlines()) == ["0 1,3", "1 5,7"]
    done = srun("-n", "3", "--gpus-per-task", "2", *show, CUDA_VISIBLE_DEVICES="1,3,5,7")
    assert done.returncode == 1
    assert "task 2: the job has too few GPUs here for 3 tasks with 2 each" in done.stderr
    # With labelled lines, the step ends, too.
    done = srun("-l", "-n", "2", "--gpus-per-task", "1", *show, CUDA_VISIBLE_DEVICES="1")
    assert (done.returncode, done.stdout) == (1, "0: 0 1\n")
    done = srun("-n", "2", *show, CUDA_VISIBLE_DEVICES="1,3")
    assert sorted(done.stdout.splitlines()) == ["0 1,3", "1 1,3"]


def test_a_step_ends_with_the_worst_code() -> None:
    assert srun("-n", "3", "sh", "-c", "exit $SLURM_PROCID").returncode == 2
    assert srun("-n", "2", "true").returncode == 0


def test_lines_are_labelled() -> None:
    done = srun("-l", "-n", "2", "sh", "-c", "echo one; echo two")
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("0: ")] == ["0: one", "0: two"]
    assert [line for line in lines if line.startswith("1: ")] == ["1: one", "1: two"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_task_that_fails_stops_the_others_where_that_is_asked_for(shell: str) -> None:
    words = ("sh", "-c", '[ "$RANK" = 1 ] && exit 7; exec sleep 600')
    assert srun("-K", "-n", "3", *words, shell=shell).returncode == 7


def test_a_signal_reaches_every_task(tmp_path: Path) -> None:
    ready = (
        'trap "touch $0.$RANK.term; exit 0" TERM; touch "$0.$RANK"; while :; do sleep 0.05; done'
    )
    words = ["sh", PROGRAM, "-n", "2", "sh", "-c", ready, str(tmp_path / "t")]
    with subprocess.Popen(words, start_new_session=True) as process:
        until(lambda: len(list(tmp_path.iterdir())) == 2, "both are at work")
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert {"t.0.term", "t.1.term"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "no command: write srun"),
        (("-n", "0", "true"), "-n: must be a number from 1, got '0'"),
        (("-n",), "-n: needs a value"),
        (("--mpi=pmix", "true"), "--mpi: is not known here"),
        (("--export=A=1", "true"), "--export=A=1: set variables in the script"),
        (("-N", "2", "true"), "the job has 2 nodes"),
    ],
)
def test_what_cannot_be_done_is_refused(words: tuple[str, ...], text: str) -> None:
    done = srun(*words)
    assert done.returncode == 1
    assert f"srun: error: {text}" in done.stderr


def test_calls_are_recognised() -> None:
    assert calls_srun("time srun -n 2 python x.py")
    assert calls_srun("srun")
    assert not calls_srun("pip install mysrun")
    assert not calls_srun("./srun.sh")
