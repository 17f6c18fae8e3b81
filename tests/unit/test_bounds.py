"""`make test` cannot hang: bounds end, and tests without bounds have a time limit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bounds import WAIT_S, Deadline, started, stays, until, until_async
from tests.tidy.tree import ROOT

HANGS = """
import threading

def test_one_that_hangs():
    threading.Event().wait()

def test_one_that_does_not():
    pass
"""


def test_a_wait_ends_in_time_and_tells_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"it comes: not within 0.05 s\nnothing came"):
        until(lambda: None, "it comes", 0.05, tell=lambda: "nothing came")


def test_a_wait_in_a_loop_lets_its_tasks_go_on_and_ends_in_time() -> None:
    async def scenario() -> None:
        done = asyncio.create_task(asyncio.sleep(0, "done"))
        await until_async(done.done, "the task is done")
        assert done.result() == "done"
        with pytest.raises(AssertionError, match=r"it comes: not within 0.05 s"):
            await until_async(lambda: None, "it comes", 0.05)

    asyncio.run(scenario())


def test_what_must_not_happen_is_looked_for_all_the_while() -> None:
    looks = iter([True, True, False])
    with pytest.raises(AssertionError, match="it stays"):
        stays(lambda: next(looks), "it stays", WAIT_S)
    stays(lambda: True, "it stays", 0.01)


def test_a_wait_ends_when_the_server_has_ended() -> None:
    began_s = time.monotonic()
    with started([sys.executable, "-c", "raise SystemExit(7)"]) as server:
        with pytest.raises(AssertionError, match="it answers: the server has ended with 7"):
            until(lambda: None, "it answers", server=server)
        assert time.monotonic() - began_s < WAIT_S
        with pytest.raises(AssertionError, match="ended with 7"):
            Deadline("it answers", server=server).check()


def test_what_was_found_is_returned_though_the_server_has_ended() -> None:
    with started([sys.executable, "-c", ""]) as server:
        server.wait(WAIT_S)
        assert until(lambda: "found", "it is found", server=server) == "found"


def test_a_program_ends_with_its_block() -> None:
    with started(["sleep", "1000"], stdout=subprocess.PIPE) as program:
        assert program.poll() is None
    assert program.returncode == -9
    assert program.stdout is not None
    assert program.stdout.closed


@pytest.mark.slow
def test_a_test_that_hangs_fails_with_its_stack_and_the_next_one_runs(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGS, encoding="utf-8")
    options = ("--timeout=5", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *options, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * WAIT_S,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "threading.Event().wait()" in done.stdout
    assert "Failed: Timeout (>5.0s) from pytest-timeout." in done.stdout
