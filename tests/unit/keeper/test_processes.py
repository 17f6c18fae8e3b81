"""Processes of a run that have become another user's, or that fork while they are killed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.keeper.processes import kill_leftovers
from quorate.runtime import FOLDER
from tests.bounds import started, until
from tests.executor.test_ends import BREEDING

NOBODY = 65_534
KEEPING = """
import os, subprocess, sys, time
from quorate.keeper import processes
quiet = {{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}
other = subprocess.Popen(["sleep", "100"], user=0, start_new_session=True, **quiet)
own = subprocess.Popen(["sleep", "100"], user={user}, start_new_session=True, **quiet)
os.setresuid({user}, {user}, {user})
processes.warn_all([])
assert own.wait(60) == -15
assert processes.kill_all([other.pid]) == [other.pid]
assert other.poll() is None
print(other.pid)
os._exit(0)
"""


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="becomes another user")
def test_what_may_not_be_killed_is_told_and_keeps_nothing_else_alive() -> None:
    code = KEEPING.format(user=NOBODY)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid = int(found.stdout)
    assert Path(f"/proc/{pid}").exists()
    os.kill(pid, 9)


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="what was left is found in /proc")
def test_what_a_lost_keeper_has_left_does_not_get_away_by_forking(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r"
    folder.mkdir(parents=True)
    reading, writing = os.pipe()
    try:
        with started(
            [sys.executable, "-c", BREEDING],
            env={**os.environ, FOLDER: str(folder)},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            pass_fds=[writing],
        ):
            os.close(writing)
            until((folder / "bred").exists, "it breeds")

            def have_all_ended() -> bool:
                kill_leftovers(folder)
                # All of them have the other end of the pipe: it closes when the last one has ended.
                return bool(select.select([reading], [], [], 0)[0])

            until(have_all_ended, "nothing is left of it")
    finally:
        os.close(reading)
