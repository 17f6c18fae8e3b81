"""Starts a service for a benchmark: ``quorate serve`` on a new ledger and a free port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Final

from benchmarks.http_load import Target

START_S_MAX: Final = 300.0
STOP_S_MAX: Final = 60.0
_QUORATE: Final = "from quorate.cli.program import run; run()"
"""The code of the installed ``quorate`` script."""
_ADDRESS: Final = re.compile(r"https?://(127\.0\.0\.1):(\d+)")
_TOKEN: Final = re.compile(r"\bqt_\w+")


@dataclass(frozen=True, slots=True)
class Served:
    """A running service."""

    target: Target
    pid: int

    def cpu_s(self) -> float:
        """Return the CPU seconds, user and system, of the service; 0 if unknown."""
        return _cpu_s(Path(f"/proc/{self.pid}/stat"))

    def loop_cpu_s(self) -> float:
        """Return the CPU seconds of the service's first thread, which runs the event loop."""
        return _cpu_s(Path(f"/proc/{self.pid}/task/{self.pid}/stat"))


def _cpu_s(told: Path) -> float:
    if not told.is_file():
        return 0.0
    fields = told.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quorate(*args: str) -> list[str]:
    """Return the command line of ``quorate`` with ``args``."""
    return [sys.executable, "-c", _QUORATE, *args]


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Served]:
    """Yield a service on a new ledger in ``folder``, and stop it."""
    ledger = str(folder / "service.db")
    command = quorate("serve", "--listen", "127.0.0.1:0", "--init", "--ledger", ledger)
    started = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said: list[str] = []
    assert started.stdout is not None
    # Read all its output, so that the service never waits for its reader.
    listener = Thread(target=lambda: said.extend(started.stdout or ()), daemon=True)
    listener.start()
    try:
        yield Served(_target(started, said), started.pid)
    finally:
        started.terminate()
        try:
            started.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def _target(started: subprocess.Popen[str], said: Sequence[str]) -> Target:
    """Return the address and the token that the service prints, after it has printed both."""
    end_s = monotonic() + START_S_MAX
    while monotonic() < end_s and started.poll() is None:
        text = "".join(said)
        address, token = _ADDRESS.search(text), _TOKEN.search(text)
        if address is not None and token is not None:
            return Target(address[1], int(address[2]), token[0])
        sleep(0.05)
    raise RuntimeError(f"the service did not start: {''.join(said)[-2_000:]}")
