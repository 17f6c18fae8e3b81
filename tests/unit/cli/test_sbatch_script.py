"""Scripts for Slurm, read as values."""

from __future__ import annotations

import pytest

from quorate.cli.sbatch_script import duration_of, read_script
from quorate.views.exits import CommandError


def _script(*lines: str, body: str = "python train.py\n") -> str:
    head = "".join(f"#SBATCH {line}\n" for line in lines)
    return f"#!/bin/bash -l\n{head}{body}"


def test_what_is_understood_is_taken_over() -> None:
    found = read_script(
        _script(
            "--job-name=resnet",
            "--nodes 2 --gpus-per-node=h100:8   # both on one line",
            "-t 1-12:00:00",
            "--account=rai",
            "-p default",
            "-D /data",
            "--dependency=afterok:a:b,afterok:c",
            '--export=SEED=1,HOME,WORDS="a b"',
        ),
        "job.sh",
    )
    assert found.interpreter == ("/bin/bash", "-l")
    assert (found.name, found.team, found.pool, found.folder) == (
        "resnet",
        "rai",
        "default",
        "/data",
    )
    assert (found.gpus_total(), found.flavor, found.duration) == (16, "h100", "36h")
    assert found.after == ("a", "b", "c")
    assert (found.env, found.copied) == ({"SEED": "1", "WORDS": "a b"}, ("HOME",))
    assert found.said == [
        "job.sh:4: --time: expected to take 36h; it is not stopped for taking longer",
        "job.sh:6: --partition: taken as pool 'default'",
    ]


@pytest.mark.parametrize(
    ("lines", "gpus", "flavor"),
    [
        (["--gpus=12"], 12, None),
        (["-G a100:12"], 12, "a100"),
        (["--gpus=12", "--gres=gpu:8", "--nodes=4"], 12, None),
        (["--gres=gpu:A100:4"], 4, "A100"),
        (["--gres=gpu"], 1, None),
        (["--gres=gpu:tesla:2(S:0-1)", "-N 3-5"], 6, "tesla"),
        (["--gpus-per-task=2", "--ntasks=8"], 16, None),
        (["--ntasks=8"], None, None),
    ],
)
def test_gpus_are_counted_as_slurm_counts_them(
    lines: list[str], gpus: int | None, flavor: str | None
) -> None:
    found = read_script(_script(*lines), "job.sh")
    assert (found.gpus_total(), found.flavor) == (gpus, flavor)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90", "90m"),
        ("60", "1h"),
        ("1:30", "90s"),
        ("1:30:00", "90m"),
        ("2-0", "48h"),
        ("2-12:30", "3630m"),
        ("0-0:0:5", "5s"),
    ],
)
def test_times_are_read_as_slurm_reads_them(text: str, duration: str) -> None:
    assert duration_of(text) == duration


def test_everything_that_is_left_out_is_said_line_by_line() -> None:
    lines = ["--output=%j.out", "--mem=32G", "--qos=high", "--exclusive", "--frobnicate=3"]
    body = (
        "#SBATCH\n\n# more\n#SBATCH --mail-user=me\nsrun python $SLURM_NTASKS\n#SBATCH --gpus=9\n"
    )
    found = read_script(_script(*lines, "--export=ALL", body=body), "job.sh")
    assert [line.partition(": left out")[0] for line in found.said] == [
        "job.sh:2: --output",
        "job.sh:3: --mem",
        "job.sh:4: --qos",
        "job.sh:5: --exclusive",
        "job.sh:6: --frobnicate",
        "job.sh:7: --export: ALL",
        "job.sh:11: --mail-user",
        "job.sh:12: SLURM_ variables are not set here",
        "job.sh:12: srun: there may be none where it runs; start processes yourself",
    ]
    assert found.gpus_total() is None, "what stands after the first command is not read"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--array=1-10", "--array: is not possible here; one submit is one run"),
        ("-a 1-10", "--array: is not possible here"),
        ("--begin=now+1hour", "--begin: is not possible here"),
        ("--hold", "--hold: is not possible here"),
        ("--dependency=afterany:a", "--dependency: 'afterany:a': only afterok"),
        ("--dependency=afterok:a?afterok:b", "only afterok"),
        ("--gpus=lots", "--gpus: must be a whole number from 1 on, got 'lots'"),
        ("--time=UNLIMITED", "--time: must be a time such as"),
        ("--time=0", "--time: 0 means no limit to Slurm"),
        ("--gpus=a100:2 --gres=gpu:h100:2", "asks for h100, and a line before it for a100"),
        ("--partition=a,b", "--partition: names several partitions"),
        ("8", "'8' is not an option"),
        ('--job-name="a', "No closing quotation"),
    ],
)
def test_what_would_mean_something_else_is_refused(line: str, text: str) -> None:
    with pytest.raises(CommandError) as caught:
        read_script(_script(line), "job.sh")
    assert caught.value.lines[0].startswith("job.sh:2:")
    assert text in caught.value.lines[0]


def test_all_faults_are_told_together() -> None:
    with pytest.raises(CommandError) as caught:
        read_script(_script("--array=1-3", "--gpus=0", "--time=x"), "job.sh")
    assert len(caught.value.lines) == 3


def test_a_script_says_what_runs_it() -> None:
    with pytest.raises(CommandError, match=r"job\.sh:1: must begin with #!"):
        read_script("python train.py\n", "job.sh")
