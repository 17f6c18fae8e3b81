"""Scripts for Slurm, parsed to values."""

from __future__ import annotations

import re

import pytest

from quorate.cli.slurm.sbatch_options import Option, split_command_line
from quorate.cli.slurm.sbatch_script import (
    KNOWN,
    read_script,
    read_wrapped,
)
from quorate.cli.slurm.sbatch_words import duration_text, seconds_of
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
    assert (found.after, found.after_any, found.limit_s) == (("a", "b", "c"), (), 129_600)
    assert (found.env, found.copied) == ({"SEED": "1", "WORDS": "a b"}, ("HOME",))
    assert found.said == [
        "job.sh:3: --nodes: does not fix the number of nodes; see SLURM_NNODES",
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
        (["--gres=nvme:1,gpu:h100:4"], 4, "h100"),
        (["--gres=gpu:h100"], 1, "h100"),
        (["--gres=gpu:tesla:2(S:0-1)", "-N 3-5"], 6, "tesla"),
        (["--gpus-per-task=2", "--ntasks=8"], 16, None),
        (["--gpus-per-task=2", "--nodes=2", "--ntasks-per-node=4"], 16, None),
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
    assert duration_text(seconds_of(text)) == duration


def test_everything_that_is_left_out_is_said_line_by_line() -> None:
    lines = ["--output=%j.out", "--mem=32G", "--qos=high", "--exclusive", "--frobnicate=3"]
    body = (
        "#SBATCH\n\n# more\n#SBATCH --mail-user=me\nsrun python $SLURM_NTASKS ${SLURM_STEP_ID}\n"
        "#SBATCH --gpus=9\n"
    )
    found = read_script(_script(*lines, body=body), "job.sh")
    assert [line.partition(": left out")[0] for line in found.said] == [
        "job.sh:2: --output",
        "job.sh:3: --mem",
        "job.sh:4: --qos",
        "job.sh:5: --exclusive",
        "job.sh:6: --frobnicate",
        "job.sh:10: --mail-user",
        "job.sh:11: Quorate does not set SLURM_STEP_ID for this job",
    ]
    assert found.gpus_total() is None, "what stands after the first command is not read"


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("END", ("run-completed", "run-failed")),
        ("fail", ("run-failed",)),
        ("BEGIN,FAIL", ("run-started", "run-failed")),
        ("NONE", ()),
        (
            "ALL,ARRAY_TASKS",
            (
                *("run-started", "run-completed", "run-failed"),
                *("run-cut", "lottery-lost", "node-lost", "money-ended"),
            ),
        ),
    ],
)
def test_mail_types_are_the_kinds_of_notices(words: str, kinds: tuple[str, ...]) -> None:
    found = read_script(_script("--mail-user=a@b", f"--mail-type={words}"), "job.sh")
    assert (found.mail_to, found.mail_kinds) == ("a@b", kinds)
    assert len(found.said) == bool(kinds)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mail-type=END"], ["--mail-type: left out: no address; add --mail-user=ADDRESS"]),
        (
            ["--mail-user=a@b"],
            ["--mail-user: left out: it needs --mail-type, suc"],
        ),
        (["--mail-user=ada"], ["job.sh:2: --mail-user: left out: 'ada' is not a mail address"]),
        (
            ["--mail-type=END,TIME_LIMIT_90", "--mail-user=a@b"],
            [
                "job.sh:2: --mail-type: TIME_LIMIT_90: left out: no notice of this type exists",
                "--mail-type: needs a service that sends mail to that domain",
            ],
        ),
    ],
)
def test_mail_that_is_not_asked_for_whole_is_left_out_aloud(
    options: list[str], said: list[str]
) -> None:
    found = read_script(_script(*options), "job.sh")
    assert [line[: len(text)] for line, text in zip(found.said, said, strict=True)] == said


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--mail-type=SOON", "--mail-type: unknown type 'SOON'; write NONE, BEGIN, END, FAIL"),
        ("--array=1-", "--array: must be such as 0-9, 1,5,7 or 0-99%4, got '1-'"),
        ("-a 10-1", "--array: 10-1: must go up"),
        ("--array=0-1000", "--array: 0-1000: has more than 1000 tasks"),
        ("--array=1-3%0", "--array: after % must be a number from 1 to 1000, got '0'"),
        ("--begin=now+1hour", "--begin: is not supported"),
        ("--hold", "--hold: is not supported"),
        ("--dependency=after:a", "--dependency: 'after:a': is not supported; write afterok"),
        ("--dependency=afterok:a?afterok:b", "is not supported; write afterok"),
        ("--dependency=afterok:a?afterany:b", "is not supported"),
        ("--gpus=lots", "--gpus: must be a whole number from 1 on, got 'lots'"),
        ("--time=soon", "--time: must be a time such as"),
        ("--time=0:0", "--time: must be more than 0"),
        ("--gpus=a100:2 --gres=gpu:h100:2", "requests h100, but an earlier option requests a100"),
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
        read_script(_script("--array=x", "--gpus=0", "--time=x"), "job.sh")
    assert len(caught.value.lines) == 3


def test_a_script_says_what_runs_it() -> None:
    with pytest.raises(CommandError, match=r"job\.sh:1: must begin with #!"):
        read_script("python train.py\n", "job.sh")


def _typed(*words: str) -> tuple[tuple[str, ...], tuple[Option, ...], tuple[str, ...]]:
    ours = {"--team", "--name", "--flavor"}
    line = split_command_line(words, ours=ours, flags={"--dry-run"}, known=KNOWN)
    return line.ours, line.options, line.rest


def test_a_command_line_has_our_options_those_of_slurm_and_the_script() -> None:
    ours, options, rest = _typed(
        *("--team", "rai", "-J", "x", "--dry-run", "-G2", "--time=5", "--requeue"),
        *("job.sh", "--gpus=9", "--team", "y"),
    )
    assert ours == ("--team", "rai", "--dry-run")
    assert [(each.key, each.value) for each in options] == [
        ("job-name", "x"),
        ("gpus", "2"),
        ("time", "5"),
        ("requeue", ""),
    ]
    assert rest == ("job.sh", "--gpus=9", "--team", "y")


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("--gpu=2", "unknown option --gpu of sbatch; did you mean --gpus?"),
        ("--time", "--time: needs a value; write --time=VALUE"),
        ("-Z", "unknown option -Z of sbatch"),
    ],
)
def test_a_typed_option_that_nothing_knows_is_refused(word: str, text: str) -> None:
    with pytest.raises(CommandError, match=re.escape(text)):
        _typed(word)


def test_typed_options_win_over_those_of_the_script() -> None:
    typed = _typed("--gpus=3", "--array=0-3%2", "--dependency=afterany:a:b")[1]
    found = read_script(_script("--gpus=9", "--array=1", "--job-name=a"), "job.sh", typed)
    assert (found.gpus_total(), found.name) == (3, "a")
    assert found.tasks_of_array == "0-3%2"
    assert (found.after, found.after_any) == ((), ("a", "b"))


def test_kinds_of_dependencies_and_a_limit_of_an_array_go_together() -> None:
    lines = ("--array=0-9%2", "--dependency=afterok:a,afterany:b[1-2],aftercorr:c,singleton")
    found = read_script(_script(*lines), "job.sh")
    assert (found.after, found.after_any, found.after_task, found.is_singleton) == (
        ("a",),
        ("b_1", "b_2"),
        ("c",),
        True,
    )
    assert found.tasks_of_array == "0-9%2"


@pytest.mark.parametrize(
    ("text", "env", "copied", "is_all"),
    [
        ("ALL,A=1,B", {"A": "1"}, ("B",), True),
        ("A=1,ALL,C=x=y", {"A": "1", "C": "x=y"}, (), True),
        ("NONE", {}, (), False),
    ],
)
def test_variables_beside_all_are_exported(
    text: str,
    env: dict[str, str],
    copied: tuple[str, ...],
    is_all: bool,  # noqa: FBT001 - a column of the table
) -> None:
    found = read_script(_script(f"--export={text}"), "job.sh")
    assert (found.env, found.copied, found.is_all_copied) == (env, copied, is_all)


def test_a_wrapped_command_is_one_for_a_shell() -> None:
    found = read_wrapped("echo a | cat", _typed("--wrap=echo a | cat", "-G", "1")[1])
    assert (found.wrapped, found.gpus_total(), found.said) == ("echo a | cat", 1, [])


def test_gpus_of_each_node_are_not_told_where_nodes_are_not_chosen() -> None:
    words = "echo $SLURM_GPUS_PER_NODE"
    several = read_script(f"#!/bin/sh\n#SBATCH -N 2 --gres=gpu:4\n{words}\n", "job.sh")
    assert "job.sh:3: Quorate does not set SLURM_GPUS_PER_NODE for this job" in several.said
    one = read_script(f"#!/bin/sh\n#SBATCH -N 1 --gres=gpu:4\n{words}\n", "job.sh")
    assert one.said == []
