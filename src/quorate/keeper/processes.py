"""Starts, warns and kills the processes of a run, and waits for the last one.

On Linux, orphaned descendants of the run's processes become children of the keeper. So no process
of the work is left when the keeper has no child any more. On other systems, the keeper knows only
the process groups.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from quorate.keeper import cgroups, sessions
from quorate.keeper.confinement import Confinement
from quorate.keeper.process_environ import environ_of
from quorate.keeper.process_tree import IS_LINUX, all_pids, descendants
from quorate.keeper.ranks import RANK, Rank
from quorate.keeper.start_errors import CODE_NOT_STARTED, StartError, check_folder, start_error
from quorate.keeper.wanted import JOB_FOLDER, JOBS, Work
from quorate.runtime import FOLDER

CODE_SIGNAL: Final = 128
"""The number to which a shell adds the number of the signal that ended a process."""
_INHERITED: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"}
    | {"LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH", "VIRTUAL_ENV"}
)
"""The variables of the service's environment that keepers and their work get; none is secret."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_TOLD_BYTES_MAX: Final = 16 * 1024
KILL_PASSES_MAX: Final = 8
"""The most searches for newly forked processes in one call.

Before the next call, the keeper reaps the processes that have ended.
"""


def bare(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``inherited`` that work may have, without secrets of the service."""
    return {k: v for k, v in inherited.items() if k in _INHERITED or k.startswith("LC_")}


def environment(work: Work, rank: Rank, folder: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one process.

    The environment has ``base``, the run's own variables, and the variables of the rank.
    """
    return {
        **base,
        "PYTHONUNBUFFERED": "1",
        **work.env,
        **rank.env,
        FOLDER: str(folder),
        "QUORATE_RUN": work.run,
    }


def adopt() -> Callable[[], None]:
    """Make this process the parent of its orphaned descendants from now on.

    Return a function that each new process calls before it starts its program.
    """
    if not IS_LINUX:
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the reaper of orphaned processes")
    keeper = os.getpid()

    def die_with_keeper() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)

    return die_with_keeper


def start(
    work: Work,
    env: Mapping[str, str],
    before: Callable[[], None],
    confinement: Confinement | None = None,
) -> tuple[int, int, int]:
    """Start a process; return its id, and the descriptors of its output and of its errors.

    Raises ``StartError``.
    """
    if confinement is not None:
        return _start_confined(work, env, before, confinement)
    check_folder(work.working_dir)
    ends: list[int] = []
    try:
        ends += os.pipe()
        ends += os.pipe()
        out, out_end, err, err_end = ends
        process = subprocess.Popen(  # noqa: S603 - a list of words; no shell reads them
            work.command,
            env=dict(env),
            cwd=work.working_dir,
            stdin=subprocess.DEVNULL,
            stdout=out_end,
            stderr=err_end,
            # Each process has its own group in the keeper's session. A later keeper uses the
            # session to find processes that have changed their environment.
            process_group=0,
            preexec_fn=before,  # noqa: PLW1509 - a keeper has one thread
        )
    except (OSError, ValueError) as error:
        _close(*ends)
        raise start_error(error, work, env) from None
    _close(out_end, err_end)
    for end in (out, err):
        os.set_blocking(end, False)
    # ``Popen`` does not wait for a process with a code: the keeper waits for all its children.
    process.returncode = 0
    return process.pid, out, err


def _start_confined(
    work: Work, env: Mapping[str, str], before: Callable[[], None], confinement: Confinement
) -> tuple[int, int, int]:
    """Start a process, as ``start`` does, that becomes the run's user before its program begins.

    Files that the run names are not read here, because root can read files that the run's user must
    not read.
    """
    ends: list[int] = []
    try:
        for _ in range(3):
            ends += os.pipe()
        out, out_end, err, err_end, told, tell = ends
        for end in (out_end, err_end):
            # This lets the run's user open /dev/stdout and /dev/stderr again.
            os.fchown(end, confinement.account.uid, confinement.account.gid)

        def become() -> None:
            try:
                confinement.enter(work.working_dir, before)
            except Exception as error:  # noqa: BLE001 - the keeper raises it again
                os.write(tell, str(error).encode()[:_TOLD_BYTES_MAX])
                os._exit(CODE_NOT_STARTED)

        process = subprocess.Popen(  # noqa: S603 - a list of words; no shell reads them
            work.command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out_end,
            stderr=err_end,
            start_new_session=True,
            preexec_fn=become,  # noqa: PLW1509 - a keeper has one thread
        )
    except (OSError, ValueError) as error:
        _close(*ends)
        raise start_error(error, work, env, str(confinement.account)) from None
    _close(out_end, err_end, tell)
    # If the program begins, the pipe is closed and empty. If not, the pipe has the reason.
    why_not = os.read(told, _TOLD_BYTES_MAX)
    os.close(told)
    process.returncode = 0
    if why_not:
        _close(out, err)
        raise StartError(CODE_NOT_STARTED, why_not.decode(errors="replace"))
    for end in (out, err):
        os.set_blocking(end, False)
    return process.pid, out, err


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


def reap() -> tuple[list[tuple[int, int]], bool]:
    """Return (process, exit code) of ended children, and whether any children are left.

    If a signal ended a process, its exit code is the negative number of the signal.
    """
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found, False
        if pid == 0:
            return found, True
        found.append((pid, os.waitstatus_to_exitcode(status)))


def shell_code(code: int) -> int:
    """Return an exit code as a shell reports it: for a signal, ``CODE_SIGNAL`` plus its number."""
    return code if code >= 0 else CODE_SIGNAL - code


def how_it_ended(code: int) -> str:
    """Return the meaning of an exit code as text."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def warn_all(groups: Iterable[int]) -> None:
    """Send the warning signal once to each descendant of this process."""
    if not IS_LINUX:
        for group in groups:
            _signal_group(group, signal.SIGTERM)
    # All descendants are found before any is warned, because the parent of a process changes when
    # its parent ends.
    for pid, _ in list(descendants({os.getpid()})):
        _signal(pid, signal.SIGTERM)


def kill_all(groups: Iterable[int]) -> list[int]:
    """Kill all descendants of this process; descendants that escape are killed by the next call.

    ``groups`` has only groups of processes that the keeper has not reaped yet. The number of any
    other group may have been reused by other processes. Return the processes that this process may
    not kill, because they run as another user.
    """
    for group in groups:
        _signal_group(group, signal.SIGKILL)
    killed: dict[int, bool] = {}
    for _ in range(KILL_PASSES_MAX):
        before = len(killed)
        # Each process is killed as soon as it is found. A killed process does not fork again, so
        # the next pass finds only the processes that it forked last.
        for each in descendants({os.getpid()}):
            if each[0] not in killed:
                killed[each[0]] = not _kill([each])
        if len(killed) == before:
            break
    return [pid for pid, is_killed in killed.items() if not is_killed]


def kill_ranks(ranks: Iterable[Rank], pids: Iterable[int], leaders: Collection[int] = ()) -> bool:
    """Kill the processes of ``ranks`` and their descendants; return whether any process existed.

    ``pids`` has those processes of ``ranks`` that the keeper has not reaped yet. A detached
    descendant is found by ``QUORATE_RANK`` in its environment, because launchers give their workers
    another ``RANK``. A detached descendant is also found if a process in ``leaders`` began its
    session.
    """
    marks = {f"{RANK}={rank.number}".encode() for rank in ranks}
    roots = frozenset(pids)
    # All processes are found before any is killed. A process that has cleared its environment can
    # only be found through its parent, as long as the parent lives.
    below = {*roots, *(pid for pid, _ in descendants(roots))}
    found = [
        each
        for each in descendants({os.getpid()})
        if each[0] in below
        or not marks.isdisjoint(environ_of(each[0]))
        or sessions.number_of(each[0]) in leaders
    ]
    for group in roots:
        _signal_group(group, signal.SIGKILL)
    _kill(found)
    return bool(found)


def kill_leftovers(folder: Path) -> int:
    """Kill the processes that an earlier keeper of ``folder`` left behind; return their number.

    Processes are found by the mark of the folder in their environment, by the sessions of the
    keeper and its work, or by the run's cgroup. A keeper has the mark, too. So if the folder and
    its lock were removed while an old keeper ran, the old keeper is killed together with its work.
    """
    own = folder.parent.parent / JOBS / folder.name / JOB_FOLDER
    marks = {f"{FOLDER}={each}".encode() for each in (folder, own)}
    left, inside = sessions.left(folder), frozenset(cgroups.members(folder))
    killed: dict[int, bool] = {}
    for _ in range(KILL_PASSES_MAX):
        before = len(killed)
        # The newest process is killed first, and each process as soon as it is found. A process
        # that forks and exits quickly may be gone before all older processes are examined.
        for pid in sorted(all_pids() - killed.keys() - {os.getpid()}, reverse=True):
            if pid in inside or not marks.isdisjoint(environ_of(pid)) or sessions.is_of(pid, left):
                killed[pid] = _signal(pid, signal.SIGKILL)
        if len(killed) == before:
            break
    return sum(killed.values())


def _kill(found: Sequence[tuple[int, int]]) -> list[int]:
    """Kill processes given as (process, group).

    The groups are killed first, because a process cannot escape the kill of its group by a fork.
    Return the processes that this process may not kill.
    """
    own = os.getpgrp()
    for group in {group for _, group in found} - {own, 0}:
        _signal_group(group, signal.SIGKILL)
    return [pid for pid, _ in found if not _signal(pid, signal.SIGKILL)]


def _signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal.

    Return False if this process may not signal ``pid``, for example a process of another user.
    """
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True  # The process has ended by itself.
    except PermissionError:
        return False
    return True


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
    except PermissionError:
        return  # The group is another user's, or (not on Linux) all its processes are zombies.
