"""The processes of a run: started, warned, killed, and waited for until the last one has ended.

On Linux orphaned descendants of its processes become children of the keeper. So when the keeper has
no child, no process of the work is left; and no process outlives the keeper. On other systems only
the process groups are known.
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
"""Added to the number of the signal that ended a process."""
_INHERITED: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"}
    | {"LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH", "VIRTUAL_ENV"}
)
"""The variables of a service's environment that keepers and their work get: never its secrets."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_TOLD_BYTES_MAX: Final = 16 * 1024
KILL_PASSES_MAX: Final = 8
"""How often one call searches for processes forked meanwhile; then ended ones are reaped."""


def bare(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the general part of an environment: without secrets of a service."""
    return {k: v for k, v in inherited.items() if k in _INHERITED or k.startswith("LC_")}


def environment(work: Work, rank: Rank, folder: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one process.

    It consists of ``base``, the run's own variables, and the variables of its rank.
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
    """Inherit orphans from now on.

    Return a function that each new process calls before its program.
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
    """Return the id of a new process, and the read ends of its outputs; raises ``StartError``."""
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
            # Each process has its own group in the keeper's session; by the session a later keeper
            # finds processes that have changed their environment.
            process_group=0,
            preexec_fn=before,  # noqa: PLW1509 - a keeper has one thread
        )
    except (OSError, ValueError) as error:
        _close(*ends)
        raise start_error(error, work, env) from None
    _close(out_end, err_end)
    for end in (out, err):
        os.set_blocking(end, False)
    # This object does not wait for it: the keeper waits for all its children at once.
    process.returncode = 0
    return process.pid, out, err


def _start_confined(
    work: Work, env: Mapping[str, str], before: Callable[[], None], confinement: Confinement
) -> tuple[int, int, int]:
    """Do the same as ``start``; the new process becomes the run's user before its program begins.

    Files that the run names are not read here: root can read files that the run's user must not.
    """
    ends: list[int] = []
    try:
        for _ in range(3):
            ends += os.pipe()
        out, out_end, err, err_end, told, tell = ends
        for end in (out_end, err_end):
            # So that its user may open /dev/stdout and /dev/stderr again.
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
    # It ends when the program begins, or with the reason why none does.
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
    """Return (process, exit code) of those that have ended, and whether any are left.

    The code of a process that a signal ended is the number of the signal, below zero.
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
    """Return an exit code as a shell reports it: ``CODE_SIGNAL`` and more for a signal."""
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
    """Send the warning to all descendants of this process, once to each."""
    if not IS_LINUX:
        for group in groups:
            _signal_group(group, signal.SIGTERM)
    # All are looked up before any is warned: one whose parent has ended has another parent.
    for pid, _ in list(descendants({os.getpid()})):
        _signal(pid, signal.SIGTERM)


def kill_all(groups: Iterable[int]) -> list[int]:
    """Kill all descendants of this process; those that escape are killed by the next call.

    ``groups`` are the groups of processes that the keeper has not waited for: the number of any
    other group may be reused. Return the processes that may not be killed, because they run as
    another user.
    """
    for group in groups:
        _signal_group(group, signal.SIGKILL)
    killed: dict[int, bool] = {}
    for _ in range(KILL_PASSES_MAX):
        before = len(killed)
        # Each as soon as it is found: a killed process forks no more, so that only its last forks
        # are left.
        for each in descendants({os.getpid()}):
            if each[0] not in killed:
                killed[each[0]] = not _kill([each])
        if len(killed) == before:
            break
    return [pid for pid, is_killed in killed.items() if not is_killed]


def kill_ranks(ranks: Iterable[Rank], pids: Iterable[int], leaders: Collection[int] = ()) -> bool:
    """Kill the processes of ``ranks`` and their descendants; return whether there were any.

    ``pids`` are those of ranks that were not waited for yet. A detached descendant is found by the
    variable that marks its rank, which is Quorate's own, because launchers give their workers
    another ``RANK``; or by the session that one of ``leaders`` has begun.
    """
    marks = {f"{RANK}={rank.number}".encode() for rank in ranks}
    roots = frozenset(pids)
    # All are looked up before any is killed: a process that has cleared its environment is known by
    # its parent only, which it loses when that is killed.
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

    Such a process is known by the mark of the folder in its environment, by the sessions of the
    keeper and its work, or by the run's cgroup. A keeper carries the mark as well: one that has
    lost its lock, because its folder was removed, is killed with its work.
    """
    own = folder.parent.parent / JOBS / folder.name / JOB_FOLDER
    marks = {f"{FOLDER}={each}".encode() for each in (folder, own)}
    left, inside = sessions.left(folder), frozenset(cgroups.members(folder))
    killed: dict[int, bool] = {}
    for _ in range(KILL_PASSES_MAX):
        before = len(killed)
        # The newest first, and each as soon as it is found: a process that forks often may have
        # ended by the time the older ones have been examined.
        for pid in sorted(all_pids() - killed.keys() - {os.getpid()}, reverse=True):
            if pid in inside or not marks.isdisjoint(environ_of(pid)) or sessions.is_of(pid, left):
                killed[pid] = _signal(pid, signal.SIGKILL)
        if len(killed) == before:
            break
    return sum(killed.values())


def _kill(found: Sequence[tuple[int, int]]) -> list[int]:
    """Kill processes of (process, group): first the groups, which a fork does not escape.

    Return those that may not be killed.
    """
    own = os.getpgrp()
    for group in {group for _, group in found} - {own, 0}:
        _signal_group(group, signal.SIGKILL)
    return [pid for pid, _ in found if not _signal(pid, signal.SIGKILL)]


def _signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal.

    Return False if that is not allowed, for example for another user's process.
    """
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True  # It has ended by itself.
    except PermissionError:
        return False
    return True


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
    except PermissionError:
        return  # The group is another user's or, on a system other than Linux, only zombies.
