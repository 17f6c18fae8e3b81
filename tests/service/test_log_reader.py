"""A service whose log is not read: a terminal after Ctrl-S, or a frozen program behind a pipe."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.bounds import WAIT_S, until
from tests.service.program import CLI, TRUSTING_NOBODY

REQUESTS = 100
"""The log lines of these requests are far longer than the buffer of the pipe."""


@pytest.mark.soak
@pytest.mark.slow
def test_a_service_whose_log_is_not_read_answers_and_ends(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
    told = tmp_path / "out.txt"
    with told.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-c", CLI, "serve", "--listen", "127.0.0.1:0"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=writing,
        )
    os.close(writing)
    try:
        until(lambda: " at http" in told.read_text(), "it serves", server=server)
        address = told.read_text().split(" at ")[1].split()[0]
        with httpx.Client(base_url=address, timeout=WAIT_S, verify=TRUSTING_NOBODY) as client:
            assert {client.get("/readyz").status_code for _ in range(REQUESTS)} == {200}
        server.terminate()
        assert server.wait(WAIT_S) == 0
    finally:
        server.kill()
        server.wait()
        os.close(reading)
