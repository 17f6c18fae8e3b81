"""A job that tries forbidden actions on the targets in a file, and prints which ones succeeded.

It uses only the standard library and no other file, so any user can run it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

WAIT_S = 60.0
DESCRIPTORS_MAX = 65_536
PTRACE_SEIZE = 0x4206
PTRACE_DETACH = 17


def attempts(targets: dict[str, Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each action with its name; a forbidden action fails with an OSError."""
    for path in targets["files"]:
        yield f"read {path}", partial(opened, path, os.O_RDONLY)
        yield f"write {path}", partial(opened, path, os.O_WRONLY | os.O_APPEND)
    for path in targets["folders"]:
        yield f"list {path}", partial(listed, path)
        yield f"put into {path}", partial(put_into, path)
    for path in targets["pipes"]:
        yield f"poke {path}", partial(opened, path, os.O_RDWR | os.O_NONBLOCK)
    for name, pid in targets["processes"].items():
        place = Path(f"/proc/{pid}")
        for file in ("environ", "cmdline", "maps"):
            yield f"{file} of {name}", (place / file).read_bytes
        for link in ("cwd", "root", "exe"):
            yield f"{link} of {name}", (place / link).readlink
        yield f"descriptors of {name}", partial(listed, f"{place}/fd")
        yield f"signal to {name}", partial(os.kill, pid, 0)
        yield f"SIGCONT to {name}", partial(os.kill, pid, signal.SIGCONT)
        yield f"trace {name}", partial(trace, pid)
    yield "become root", partial(os.setresuid, 0, 0, 0)


def opened(path: str, flags: int) -> None:
    """Open a file, and close it."""
    os.close(os.open(path, flags))


def listed(folder: str) -> list[str]:
    """Return what is in a folder."""
    return [each.name for each in os.scandir(folder)]


def put_into(folder: str) -> None:
    """Create a file in a folder, and remove it."""
    path = Path(folder) / "intruder"
    path.touch()
    path.unlink()


def trace(pid: int) -> None:
    """Attach to a process without stopping it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, 0x40000000)
    libc.ptrace(PTRACE_DETACH, pid, None, None)
    os.kill(pid, signal.SIGCONT)


def tried(attempt: Callable[[], object]) -> str:
    """Return the result of an attempt: ``done``, or the error."""
    try:
        attempt()
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "done"


def open_descriptors() -> list[int]:
    """Return the open descriptors of this process."""
    return [
        number for number in range(DESCRIPTORS_MAX) if tried(partial(os.fstat, number)) == "done"
    ]


def owners_seen() -> list[int]:
    """Return the users whose processes are visible."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # The process has ended meanwhile.
            found.add(place.stat().st_uid)
    return sorted(found)


def seen() -> dict[str, Any]:
    """Return the identity of this process, and what it sees without an attempt."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return {
        "descriptors": open_descriptors(),
        "environ": dict(os.environ),
        "uids": os.getresuid(),
        "gids": os.getresgid(),
        "groups": os.getgroups(),
        "no_new_privs": fields["NoNewPrivs"].strip(),
        "capabilities": [fields[each].strip() for each in ("CapPrm", "CapEff", "CapAmb")],
        "session": os.getsid(0),
        "pid": os.getpid(),
        "owners_seen": owners_seen(),
        "cgroup": Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines(),
    }


def main(file: Path) -> None:
    """Print the results for the targets in ``file``, as soon as the file exists."""
    end_s = time.monotonic() + WAIT_S
    while not file.exists():
        if time.monotonic() > end_s:
            sys.exit("the file of targets does not come")
        time.sleep(0.02)
    found = {name: tried(attempt) for name, attempt in attempts(json.loads(file.read_text()))}
    print(json.dumps({"seen": seen(), "tried": found}), flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    main(Path(sys.argv[1]))
