"""Descendants of a process, found by the kernel's lists and by reading all processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from quorate.keeper.process_tree import all_pids, descendants, has_lists
from tests.bounds import started

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")

FAMILY = """
import os, subprocess, sys, threading, time
def start():
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    started.append(child.pid)
    is_started.set()
    time.sleep(1000)
started, is_started = [], threading.Event()
thread = threading.Thread(target=start, daemon=True)
thread.start()
is_started.wait()
dead = subprocess.Popen(["true"])
os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
print(started[0], dead.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.heavy
@pytest.mark.parametrize("by_lists", [True, False])
def test_they_are_found_in_any_session_and_by_whichever_thread_they_were_started(
    *, by_lists: bool
) -> None:
    if by_lists and not has_lists():
        pytest.skip("this kernel has no lists of children")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started([sys.executable, "-c", FAMILY], text=True, **pipes) as parent:
        assert parent.stdout is not None
        child, dead = map(int, parent.stdout.readline().split())
        try:
            found = dict(descendants({os.getpid()}, by_lists=by_lists))
            assert found[parent.pid] == os.getpgrp()
            assert found[child] == child, "it leads a group of its own"
            assert dead not in found, "it has ended"
            assert os.getpid() not in found
            assert dict(descendants({parent.pid}, by_lists=by_lists)) == {child: child}
            assert {child, parent.pid} <= all_pids()
        finally:
            os.kill(child, signal.SIGKILL)
    assert list(descendants({parent.pid}, by_lists=by_lists)) == []
