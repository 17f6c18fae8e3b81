"""A command ends if its service does not answer, and its error says how long it waited."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from quorate.cli.settings import ANSWER_TIMEOUT_S, Settings
from tests.bounds import WAIT_S
from tests.oracles.effort import few_of

CLI = "from quorate.cli.main import run; run()"
TIMEOUT_S = 2
ENDS_S_MAX = 2 * WAIT_S


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return an environment that names a service stopped by SIGSTOP."""
    daemon = subprocess.Popen(
        [sys.executable, "-c", CLI, "serve", "--listen", "127.0.0.1:0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert daemon.stdout is not None
        told = ""
        while not (re.search(r"http://\S+:\d+", told) and re.search(r"\bqt_\w+", told)):
            line = daemon.stdout.readline()
            assert line, told
            told += line
        address, token = re.search(r"http://\S+:\d+", told), re.search(r"\bqt_\w+", told)
        assert address is not None
        assert token is not None
        daemon.send_signal(signal.SIGSTOP)
        yield {"QUORATE_SERVER": address[0], "QUORATE_TOKEN": token[0]}
    finally:
        daemon.send_signal(signal.SIGCONT)
        daemon.terminate()
        daemon.wait(WAIT_S)
        if daemon.stdout is not None:
            daemon.stdout.close()


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("command", few_of([["get", "runs"], ["cancel", "nothing"]], 1))
def test_a_command_to_a_frozen_service_ends_after_the_time_it_states(
    frozen: dict[str, str], command: list[str], tmp_path: Path
) -> None:
    environ = {**os.environ, **frozen, "QUORATE_TIMEOUT": str(TIMEOUT_S)}
    environ["QUORATE_CONFIG"] = str(tmp_path / "none.toml")
    began_s = monotonic()
    found = subprocess.run(
        [sys.executable, "-c", CLI, *command],
        env=environ,
        capture_output=True,
        text=True,
        timeout=ENDS_S_MAX,
        check=False,
    )
    assert monotonic() - began_s >= TIMEOUT_S
    assert found.returncode not in (0, 1), found
    assert f"did not answer within {TIMEOUT_S} s" in found.stderr


def test_the_time_is_two_minutes_unless_the_environment_says_otherwise() -> None:
    assert Settings(environ={}).answer_timeout_s() == ANSWER_TIMEOUT_S == 120
    assert Settings(environ={"QUORATE_TIMEOUT": "2.5"}).answer_timeout_s() == 2.5
