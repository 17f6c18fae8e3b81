"""Processes of a run that have become another user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
