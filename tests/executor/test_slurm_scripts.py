"""Scripts for Slurm, submitted to a service that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.executors.keepers import work_folder
from tests.bounds import until
from tests.executor.room import sweep
from tests.service.program import CLI, Program, client, program

pytestmark = pytest.mark.slow

FLEET = """\
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: box, labels: {region: home, cluster: desk, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: vision}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: vision}
spec:
  owner: vision
  envelopes:
    - {name: home, flavor: H100, selector: {region: home}, concurrency: 8,
       start: 2020-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A service, and the folder in which commands are typed."""

    folder: Path
    served: Program
    url: str
    token: str

    def type(self, *words: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        """Return the exit code and output of a command."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "QUORATE_SERVER": self.url,
            "QUORATE_TOKEN": self.token,
            "SEED": "17",
        }
        return subprocess.run(
            [sys.executable, "-c", CLI, *words],
            cwd=self.folder,
            env=environ,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )

    def ok(self, *words: str) -> str:
        """Return the output of a command that must succeed."""
        done = self.type(*words)
        assert done.returncode == 0, done
        return done.stdout

    def script(self, name: str, *lines: str) -> str:
        """Return the name of a new script with these lines."""
        (self.folder / name).write_text("\n".join(("#!/bin/bash", *lines, "")))
        return name

    def run(self, name: str) -> Any:
        """Return a run in its present state."""
        with client(self.url, self.token) as asking:
            return asking.get(f"/api/v1/runs/{name}").json()

    def ended(self, name: str) -> str:
        """Return the phase of a run as soon as it is over."""

        def phase() -> str | None:
            found = self.run(name)["status"]["phase"]
            return found if found not in ("Pending", "Running") else None

        return until(phase, f"{name} is over", server=self.served.process)

    def output(self, name: str) -> list[str]:
        """Return the output of a run's work."""
        lines = self.ok("logs", name).splitlines()
        return [line for line in lines if not line.startswith("quorate: ")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    words = ("--init", "--ledger", "l.db", "--executor", "local", "--executor-allow-root")
    try:
        with program(folder, *words) as served:
            found = Cluster(folder, served, served.wait_ready(), served.token)
            (folder / "fleet.yaml").write_text(FLEET)
            found.ok("apply", "-f", "fleet.yaml")
            yield found
    finally:
        sweep(work_folder(folder / "l.db"))


COMMON = ("#SBATCH --account=vision", "#SBATCH --gres=gpu:h100:1")


def test_a_training_script_finds_its_variables(cluster: Cluster) -> None:
    script = cluster.script(
        "train.sh",
        "#SBATCH --job-name=resnet",
        *COMMON,
        "#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=4",
        "#SBATCH --time=10:00",
        "#SBATCH --output=slurm-%j.out",
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
        'echo "$SLURM_JOB_NAME $OMP_NUM_THREADS $SLURM_NNODES $SLURM_GPUS_PER_NODE $1"',
        '[ "$SLURM_JOB_ID" = "$QUORATE_RUN" ] && echo same',
    )
    done = cluster.type("sbatch", "--parsable", script, "--lr=1")
    assert "--output: left out" in done.stderr
    name = done.stdout.strip()
    assert cluster.ended(name) == "Completed"
    assert cluster.output(name) == ["resnet 4 1 1 --lr=1", "same"]


def test_an_array_runs_each_task_with_its_index(cluster: Cluster) -> None:
    lines = (*COMMON, "#SBATCH --array=1-5:2%1", 'echo "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID"')
    name = cluster.ok("sbatch", "--parsable", cluster.script("array.sh", *lines)).strip()
    for index in (1, 3, 5):
        assert cluster.ended(f"{name}_{index}") == "Completed"
        assert cluster.output(f"{name}[{index}]") == [f"{name} {index}"]
    times = [cluster.run(f"{name}_{index}")["status"] for index in (1, 3, 5)]
    assert times[0]["ended"] <= times[1]["started"] <= times[1]["ended"] <= times[2]["started"]


def test_an_array_is_followed_and_cancelled_as_a_whole_after_its_output_was_closed(
    cluster: Cluster,
) -> None:
    words = ("sbatch", "-A", "vision", "-G", "1", "--parsable")
    array = cluster.ok(*words, "-a", "1-3", "--wrap=sleep 600").strip()
    last = cluster.ok(*words, "-d", f"afterany:{array}", "--wrap=echo done").strip()
    assert "Dependency" in cluster.ok("squeue", "-j", last)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = cluster.type("scancel", array, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert "the output was closed; all 3 requests succeeded; recorded" in done.stderr
    for index in (1, 2, 3):
        assert cluster.ended(f"{array}_{index}") == "Cancelled"
    assert cluster.ended(last) == "Completed"
    assert cluster.type("scancel", array).stdout == ""


def test_a_pipeline_goes_by_its_dependencies(cluster: Cluster) -> None:
    bad = cluster.script("bad.sh", *COMMON, "exit 3")
    good = cluster.script("good.sh", *COMMON, "echo good")
    first = cluster.ok("sbatch", "--parsable", bad).strip()
    anyway = cluster.ok("sbatch", "--parsable", f"--dependency=afterany:{first}", good).strip()
    never = cluster.ok("sbatch", "--parsable", f"--dependency=afterok:{first}", good).strip()
    assert cluster.ended(first) == "Failed"
    assert cluster.ended(anyway) == "Completed"
    assert cluster.run(never)["status"]["refusal"]["code"] == "upstream-failed"
    assert "DependencyNeverSatisfied" in cluster.ok("squeue", "-j", never)
    cluster.ok("scancel", never)


def test_srun_starts_the_tasks_of_a_step(cluster: Cluster) -> None:
    script = cluster.script(
        "step.sh",
        "#SBATCH --account=vision --gres=gpu:h100:4 --ntasks=2 --gpus-per-task=2",
        "srun sh -c 'echo $SLURM_PROCID/$SLURM_NTASKS $RANK $CUDA_VISIBLE_DEVICES'",
        "srun -n 3 --gpus-per-task=1 --label echo hello",
        "srun -n1 false",
        "echo code $?",
        "srun --mpi=pmix true",
    )
    name = cluster.ok("sbatch", "--parsable", script).strip()
    assert cluster.ended(name) == "Failed"
    output = cluster.output(name)
    # Lines that are written to the two streams at about the same time may be stored in any order.
    (refused,) = [line for line in output if line.startswith("srun: error:")]
    *lines, code = [line for line in output if line != refused]
    ranks = sorted(line.split()[:2] for line in lines[:2])
    assert ranks == [["0/2", "0"], ["1/2", "1"]]
    gpus = [gpu for line in lines[:2] for gpu in line.split()[2].split(",")]
    assert len(gpus) == len(set(gpus)) == 4, lines
    assert sorted(lines[2:]) == ["0: hello", "1: hello", "2: hello"]
    assert code == "code 1"
    assert refused.startswith("srun: error: --mpi: is not known here; tasks are started on one")


def test_a_script_that_runs_too_long_is_stopped(cluster: Cluster) -> None:
    script = cluster.script("long.sh", *COMMON, "#SBATCH --time=0:01", "sleep 600")
    name = cluster.ok("sbatch", "--parsable", script).strip()
    assert cluster.ended(name) == "Failed"
    columns = ("-n", "-P", "-o", "JobID,State,ExitCode,Timelimit")
    assert cluster.ok("sacct", "-j", name, *columns) == f"{name}|TIMEOUT|124:0|00:00:01\n"


def test_a_heredoc_and_a_missing_module_are_the_script_s_own(cluster: Cluster) -> None:
    lines = (*COMMON, "module load cuda 2>/dev/null || echo none", "cat <<EOF", "$SEED", "EOF")
    script = cluster.script("heredoc.sh", *lines)
    name = cluster.ok("sbatch", "--parsable", "--export=ALL,SEED", script).strip()
    assert cluster.ended(name) == "Completed"
    assert cluster.output(name) == ["none", "17"]


def test_a_wrapped_command_is_run_by_a_shell(cluster: Cluster) -> None:
    words = ("-A", "vision", "-G", "1", "-D", "/", "--wrap=pwd | tr / x")
    name = cluster.ok("sbatch", "--parsable", *words).strip()
    assert cluster.ended(name) == "Completed"
    assert cluster.output(name) == ["x"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (("#SBATCH --begin=now+1hour",), "--begin: is not supported; a run starts as soon"),
        (("#SBATCH --ntasks=4",), "asks for no GPUs"),
        (("#SBATCH --gpus=2 --dependency=after:x",), "'after:x': is not supported"),
        (("#SBATCH --gpus=2 --partition=a,b",), "names several partitions"),
    ],
)
def test_what_would_do_something_else_is_refused(
    cluster: Cluster, lines: tuple[str, ...], text: str
) -> None:
    before = cluster.ok("get", "runs", "-o", "name")
    script = cluster.script("refused.sh", "#SBATCH --account=vision", *lines, "true")
    done = cluster.type("sbatch", script)
    assert (done.returncode, done.stdout) == (3, "")
    assert text in done.stderr
    assert cluster.ok("get", "runs", "-o", "name") == before
