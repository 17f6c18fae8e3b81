"""The processes of a run: started, warned, killed, and waited for until the last one has gone.

On Linux the keeper inherits whatever its processes leave behind, so that having no child means that
nothing is left, however often they forked; and they do not outlive it. Elsewhere the process groups
are all that is known of them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from quorate.keeper.ranks import Rank
from quorate.keeper.wanted import Work
from quorate.runtime import FOLDER

CODE_NOT_FOUND: Final = 127
CODE_NOT_STARTED: Final = 126
"""What shells use for a command that is not there, and for one that cannot be run."""
CODE_SIGNAL: Final = 128
"""What is added to the number of the signal that ended a process."""
IS_LINUX: Final = sys.platform == "linux"
_INHERITED: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"}
    | {"LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH", "VIRTUAL_ENV"}
)
"""What work is told of the keeper's own environment: never the secrets of a service."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class StartError(Exception):
    """A process could not be started; the text names the cause and the remedy."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def environment(
    work: Work, rank: Rank, folder: Path, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return what one process is told: a bare environment, the run's own, and then its place."""
    base = {k: v for k, v in inherited.items() if k in _INHERITED or k.startswith("LC_")}
    return {
        **base,
        "PYTHONUNBUFFERED": "1",
        **work.env,
        **rank.env,
        FOLDER: str(folder),
        "QUORATE_RUN": work.run,
    }


def adopt() -> Callable[[], None]:
    """Inherit orphans from now on; return what each new process does before its program starts."""
    if not IS_LINUX:
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the reaper of what processes leave behind")
    keeper = os.getpid()

    def die_with_keeper() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(CODE_NOT_STARTED)

    return die_with_keeper


def start(work: Work, env: Mapping[str, str], before: Callable[[], None]) -> tuple[int, int, int]:
    """Return the id of a new process, and where to read its two outputs; raises ``StartError``."""
    folder = work.working_dir
    if not Path(folder).is_dir():
        what = "is not a folder" if Path(folder).exists() else "does not exist"
        raise StartError(
            CODE_NOT_STARTED, f"workingDir {folder!r} {what}; create it, or name another one"
        )
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - a list of words; no shell reads them
            work.command,
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out_end,
            stderr=err_end,
            start_new_session=True,
            preexec_fn=before,  # noqa: PLW1509 - a keeper has one thread
        )
    except FileNotFoundError:
        _close(out, err)
        raise StartError(
            CODE_NOT_FOUND,
            f"command {work.command[0]!r} was not found; give its whole path, or a PATH in env",
        ) from None
    except OSError as error:
        _close(out, err)
        raise StartError(
            CODE_NOT_STARTED,
            f"command {work.command[0]!r} cannot be run in {folder!r}: "
            f"{(error.strerror or str(error)).lower()}; check its permissions and its first line",
        ) from None
    finally:
        _close(out_end, err_end)
    # Nobody else waits for it: its keeper does, for all its children at once.
    process.returncode = 0
    return process.pid, out, err


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


def reap() -> tuple[list[tuple[int, int]], bool]:
    """Return (process, exit code) of those that have ended, and whether any are left.

    A process that a signal ended has a code of ``CODE_SIGNAL`` and more, as in a shell.
    """
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found, False
        if pid == 0:
            return found, True
        code = os.waitstatus_to_exitcode(status)
        found.append((pid, code if code >= 0 else CODE_SIGNAL - code))


def warn(groups: Iterable[int]) -> None:
    """Send every process of ``groups`` the warning."""
    for group in groups:
        _signal_group(group, signal.SIGTERM)


def kill_all(groups: Iterable[int]) -> None:
    """End everything that descends from this process; what forks meanwhile is met next time."""
    for group in groups:
        _signal_group(group, signal.SIGKILL)
    for pid in _descendants(os.getpid()):
        _signal(pid, signal.SIGKILL)


def kill_ranks(ranks: Sequence[Rank], pids: Mapping[int, int]) -> None:
    """End the processes of ``ranks`` and whatever they started; ``pids`` is by rank."""
    marks = {f"RANK={rank.number}".encode() for rank in ranks}
    for rank in ranks:
        _signal_group(pids[rank.number], signal.SIGKILL)
    for pid in _descendants(os.getpid()):
        if not marks.isdisjoint(_environ(pid)):
            _signal(pid, signal.SIGKILL)


def kill_leftovers(folder: Path) -> int:
    """End what an earlier keeper of ``folder`` has left behind; return how many there were."""
    mark = f"{FOLDER}={folder}".encode()
    found = [pid for pid in _all_pids() if pid != os.getpid() and mark in _environ(pid)]
    for pid in found:
        _signal(pid, signal.SIGKILL)
    return len(found)


def boot_id() -> str:
    """Return what tells this start of the machine from others; empty where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # It has gone by itself.


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
    except PermissionError:
        return  # Elsewhere than on Linux: all that is left of it is waiting to be reaped.


def _all_pids() -> list[int]:
    if not IS_LINUX:
        return []
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _descendants(ancestor: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The name of the program, in brackets, may contain anything.
        parent = int(stat[stat.rindex(b")") + 2 :].split()[1])
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    front = [ancestor]
    while front:
        front = [child for parent in front for child in children.get(parent, ())]
        found += front
    return found


def _environ(pid: int) -> frozenset[bytes]:
    try:
        return frozenset(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()  # Somebody else's, or gone.
