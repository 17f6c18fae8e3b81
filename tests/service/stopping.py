"""The reader processes of the services in this process, and how a test stops them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorate.service.readers.read_pool import READERS
from tests.bounds import until


def readers(of: int | None = None) -> list[int]:
    """Return the readers of the services of a process, by default of this one."""
    return [pid for server in servers(of) for pid in _children(server)]


def servers(of: int | None = None) -> list[int]:
    """Return the fork servers of the readers of a process's services."""
    return [
        pid
        for pid in _children(os.getpid() if of is None else of)
        if b"quorate.service.readers.reader_main" in _read(pid, "cmdline")
    ]


def is_running(pid: int) -> bool:
    """Return whether the process exists and has not ended."""
    return (_read(pid, "stat").rpartition(b") ")[2][:1] or b"X") not in b"XZ"


def cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process, in ticks of the system; 0 if it has ended."""
    fields = _read(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[11]) if fields else 0


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state = _read(int(entry.name), "stat").rpartition(b") ")[2].split()
            if state and state[0] not in b"XZ" and int(state[1]) == parent:
                found.append(int(entry.name))
    return found


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@contextmanager
def stopped_readers() -> Iterator[None]:
    """Stop every reader during the block, as if a request never ended."""
    until(lambda: len(readers()) >= READERS, "every reader is there")
    found = readers()
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in filter(is_running, found):
            os.kill(pid, signal.SIGCONT)
