"""``squeue``, ``scancel``, ``sacct`` and ``sinfo`` on a ledger."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

JOB = ("sbatch", "-A", "rai", "--flavor", "H100", "-G", "1")


@pytest.mark.heavy
def test_jobs_that_wait_or_run_are_listed(shell: Shell) -> None:
    shell.ok(*JOB, "--name", "one", "-t", "1:00:00", "--wrap=true")
    shell.ok(*JOB, "--name", "sweep", "-J", "s", "--array=1-5%1", "--wrap=true")
    shell.clock.at_ms += 75_000
    lines = shell.ok("squeue", "-o", "%i %P %j %u %t %M %L %R").splitlines()
    assert lines[0] == "JOBID PARTITION NAME USER ST TIME TIME_LEFT NODELIST(REASON)"
    assert "sweep_[2-5] default sweep ada PD 0:00 UNLIMITED (Dependency)" in lines
    assert any(line.startswith("one default one ada R 1:15 58:45 ") for line in lines)
    assert len(lines) == 4
    assert len(shell.ok("squeue", "-h", "-r", "-t", "PD").splitlines()) == 4
    assert shell.ok("squeue", "-h", "-o", "%i", "-j", "sweep_[2-3],one") != ""
    assert shell.ok("squeue", "-h", "-u", "bob") == ""
    assert "there is no job 'nine'; list them: quorate sacct" in shell("squeue", "-j", "nine").err
    assert shell.ok("squeue", "-h", "--me", "-A", "rai", "-o", "%i").splitlines() == [
        "sweep_[2-5]",
        "one",
        "sweep_1",
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("squeue", "-o", "%Y"), "-o: unknown column %Y"),
        (("squeue", "-t", "XX"), "unknown state 'XX'; use one of PENDING, RUNNING"),
        (("sacct", "-o", "Job"), "-o: unknown column 'Job'; did you mean JobID?"),
        (("sacct", "-S", "soon"), "-S: write a time like 2026-11-01"),
        (("scancel",), "name the jobs, or choose them"),
        (("sinfo", "-o", "%Z"), "-o: unknown column %Z"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(
    shell: Shell, words: tuple[str, ...], text: str
) -> None:
    said = shell(*words)
    assert (said.code, said.out) == (2, "")
    assert text in said.err


@pytest.mark.heavy
def test_an_array_is_cancelled_as_a_whole_or_in_part(shell: Shell) -> None:
    shell.ok(*JOB, "--name", "sweep", "--array=1-6%2", "--wrap=true")
    shell.ok("scancel", "sweep_[5-6]")
    left = shell.ok("squeue", "-h", "-r", "-o", "%i").split()
    assert sorted(left) == ["sweep_1", "sweep_2", "sweep_3", "sweep_4"]
    shell.ok("scancel", "sweep")
    assert shell.ok("squeue", "-h") == ""
    runs = shell("get", "runs", "--tasks", "-o", "json").json["items"]
    started = [each["metadata"]["name"] for each in runs if each["status"].get("started")]
    assert started == ["sweep_1", "sweep_2"]


@pytest.mark.parametrize(
    "words",
    [
        ("cancel", "sweep[9]"),
        ("cancel", "sweep_9"),
        ("get", "run", "sweep[9]"),
        ("logs", "sweep_9"),
    ],
)
def test_a_task_that_an_array_lacks_names_the_tasks_it_has(
    shell: Shell, words: tuple[str, ...]
) -> None:
    shell.ok(*JOB, "--name", "sweep", "--array=0-4", "--wrap=true")
    said = shell(*words)
    assert said.code == 1
    assert "there is no run 'sweep_9'; array 'sweep' has the tasks 0-4" in said.err
    assert "did you mean 'sweep_4'" in shell("cancel", "sweeps_4").err


@pytest.mark.heavy
def test_jobs_are_cancelled_by_name_and_state(shell: Shell) -> None:
    shell.ok(*JOB, "--name", "a", "--wrap=true")
    shell.ok(*JOB, "-J", "b", "--wrap=true")
    assert "would be cancelled" in shell.ok("scancel", "-n", "b", "-t", "R", "--dry-run")
    shell.ok("scancel", "-n", "b")
    assert shell.ok("squeue", "-h", "-o", "%i").split() == ["a"]
    assert "no job matches" in shell("scancel", "-n", "b").err
    assert "there is no run 'nowhere'" in shell("scancel", "nowhere").err


@pytest.mark.heavy
def test_jobs_of_the_past_are_listed_with_how_they_ended(shell: Shell) -> None:
    shell.ok(*JOB, "--name", "good", "--wrap=true")
    shell.clock.at_ms += 60_000
    shell.ok("complete", "good")
    shell.ok(*JOB, "--name", "bad", "--wrap=true")
    shell.ok("fail", "bad", "--note", "rank 0 on a1 exited with code 3")
    lines = shell.ok("sacct", "-n", "-P", "-o", "JobID,State,ExitCode,Elapsed,Account").split()
    assert lines == ["good|COMPLETED|0:0|00:01:00|rai", "bad|FAILED|3:0|00:00:00|rai"]
    assert shell.ok("sacct", "-n", "-P", "-s", "F", "-o", "JobID").split() == ["bad"]
    shell.clock.at_ms += 2 * 86_400_000
    assert shell.ok("sacct", "-n") == ""
    assert shell.ok("sacct", "-n", "-P", "-j", "good", "-o", "JobID").split() == ["good"]
    assert len(shell.ok("sacct", "-S", "2020-01-01").splitlines()) == 4


def test_nodes_are_listed_by_pool_and_state(shell: Shell) -> None:
    shell.ok("node", "cordon", "a1")
    lines = shell.ok("sinfo").splitlines()
    assert lines[0].split() == ["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]
    assert any("drain" in line and "a1" in line for line in lines)
    each = shell.ok("sinfo", "-h", "-N", "-o", "%N %t %G").splitlines()
    assert any(line.startswith("a1 drain gpu:") for line in each)


def test_an_array_is_named_as_a_whole_in_other_commands(shell: Shell) -> None:
    shell.ok(*JOB, "--name", "sweep", "--array=1-3", "--wrap=true")
    names = [f"run/sweep_{index}" for index in (1, 2, 3)]
    assert shell.ok("get", "runs", "sweep", "-o", "name").split() == ["run/sweep"]
    assert shell.ok("get", "runs", "sweep", "--tasks", "-o", "name").split() == names
    assert "3 tasks: 3 Running" in shell.ok("describe", "run", "sweep")
    for command in ("logs", "explain", "plan"):
        said = shell(command, "sweep")
        assert said.code == 1, said
        assert "'sweep' is an array, sweep[1-3]; name one task, such as sweep_1" in said.err
        assert "there is no run 'nowhere'" in shell(command, "nowhere").err
    shell.ok("complete", "sweep_1")
    out = shell.ok("cancel", "run/sweep")
    assert "run/sweep cancelled: 2 tasks, sweep[2-3]" in out
    assert shell.ok("cancel", "sweep").startswith("run/sweep unchanged: 3 tasks, sweep[1-3]")


@pytest.mark.heavy
def test_a_cancelled_job_is_one_line_and_one_that_is_over_none(shell: Shell) -> None:
    shell.ok(*JOB, "--name", "sweep", "--array=1-3", "--wrap=true")
    shell.ok(*JOB, "--name", "other", "--wrap=true")
    shell.ok("complete", "sweep_1")
    assert shell.ok("scancel", "sweep_2", "--dry-run") == (
        "run/sweep_2 would be cancelled (dry run)\n"
    )
    assert len(shell.ok("scancel", "-v", "sweep_2").splitlines()) > 1
    said = shell("scancel", "sweep", "nowhere")
    assert (said.code, said.out) == (1, "run/sweep_3 cancelled\n")
    assert "there is no run 'nowhere'" in said.err
    said = shell("scancel", "sweep_[1-3]", "sweep_2")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert shell.ok("squeue", "-h", "-o", "%i").split() == ["other"]


def test_scancel_kills_and_sends_no_other_signal(shell: Shell) -> None:
    shell.ok("submit", "--gpus", "1", "--team", "rai", "--flavor", "H100", "--name", "a", "--", "x")
    said = shell("scancel", "--signal", "USR1", "a")
    assert said.code == 2
    assert "--signal USR1: only KILL is supported" in said.err
    assert "run/a cancelled" in shell.ok("scancel", "-s", "SIGKILL", "a")
