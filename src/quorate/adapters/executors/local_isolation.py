"""Checks and prepares the system users and the limits of local work, before any work starts."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quorate.adapters.executors.keepers import job_place, run_folder
from quorate.adapters.run_as import RunAs, RunAsError
from quorate.keeper import cgroups
from quorate.keeper.processes import bare
from quorate.keeper.system_users import AccountError, account
from quorate.keeper.wanted import HOME, JOB_FOLDER, Isolation, Work
from quorate.model.specs import Run
from quorate.model.task_arrays import array_variables
from quorate.ports.errors import WorkFolderError

_LOG = logging.getLogger(__name__)

PROBE_S: Final = 30.0
_PROBE: Final = "from quorate.keeper.confinement import why_others_show as w; print(w(), end='')"


@dataclass(slots=True)
class JobUsers:
    """System users and limits of runs; ``memory_bytes`` 0 means 90 % of the machine's memory."""

    run_as: RunAs
    memory_bytes: int = 0
    processes: int = 8_192
    is_open: bool = field(default=False, init=False)
    _cgroup: str = field(default="", init=False)

    def open(self, folder: Path) -> None:
        """Prepare the isolation of work, and log its gaps; raises ``WorkFolderError``."""
        _check_reach(folder)
        parent = cgroups.prepare()
        self._cgroup = parent.path
        self.is_open = True
        _LOG.info("work runs as other system users: %s", self.run_as)
        shared = _shared(self.run_as)
        for owners in shared:
            _LOG.warning(
                "these owners share a system user, so their work is not isolated: %s",
                ", ".join(owners),
            )
        if parent.note:
            gap = "" if parent.path else "runs do not have their own cgroups, and "
            _LOG.warning("%smemory and processes are not limited: %s", gap, parent.note)
        why_not = _why_others_show()
        if why_not:
            _LOG.warning("work can see the processes of other users: %s", why_not)

    def isolation(self, folder: Path) -> Callable[[Run], Isolation]:
        """Return a function from a run to its isolation, for runs in ``folder``."""

        def isolate(run: Run) -> Isolation:
            found, subject, why_not = "", "", ""
            try:
                found, subject = self.run_as.account(run.owner, run.user)
            except RunAsError as error:
                why_not = str(error)
            return Isolation(
                account=found,
                why_not=why_not,
                subject=subject,
                folder=str(job_place(folder, run.name)),
                cgroup=self._cgroup,
                memory_bytes=self.memory_bytes or _memory_bytes() // 10 * 9,
                processes=self.processes,
            )

        return isolate


def faults_of(run_as: RunAs) -> list[str]:
    """Return a text for each of the map's system users that is missing or may not be used."""
    found = []
    for key, name in run_as.accounts.items():
        try:
            account(name)
        except AccountError as error:
            found.append(f"executor.run_as: map.{key}: {error}")
    return found


def _shared(run_as: RunAs) -> list[list[str]]:
    """Return groups of map keys: each group has the keys of several owners with one system user."""
    by_uid: dict[int, list[str]] = {}
    for key, name in run_as.accounts.items():
        try:
            by_uid.setdefault(account(name).uid, []).append(key)
        except AccountError:
            continue  # The system user was removed after the check; the run reports this.
    return [sorted(keys) for keys in by_uid.values() if len({k.split("/")[0] for k in keys}) > 1]


def _check_reach(folder: Path) -> None:
    """Raise ``WorkFolderError`` if other system users cannot reach their folders in ``folder``."""
    for each in folder.parents:
        mode = each.stat().st_mode
        if not mode & stat.S_IXOTH:
            raise WorkFolderError(
                f"{folder} cannot be reached by the system users of executor.run_as: only its "
                f"owner may enter {each}; run chmod o+x {each}, or name another folder with "
                f"--work-folder"
            )


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _why_others_show() -> str:
    """Return why other users' processes cannot be hidden from work; empty if they can.

    A child process tries to hide them, because hiding would affect all threads of this process.
    """
    try:
        return subprocess.run(  # noqa: S603 - this program's own module
            [sys.executable, "-P", "-c", _PROBE],
            env=bare(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PROBE_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def work_maker(
    root: Path, isolate: Callable[[Run], Isolation] | None
) -> Callable[[Run, int], Work]:
    """Return a function that makes the ``Work`` of a run from the run and its grace.

    ``root`` has the folders of the runs. If ``isolate`` is None, all work runs as the service's
    user.
    """

    def work_of(run: Run, grace_ms: int) -> Work:
        isolation = None if isolate is None else isolate(run)
        own = run_folder(root, run.name)
        if isolation is not None:
            own = Path(isolation.folder) / JOB_FOLDER
        return Work(
            run=run.name,
            command=run.command,
            env={**dict(run.env), **array_variables(run)},
            working_dir=run.working_dir or str(own / HOME),
            processes=run.processes.value,
            grace_ms=grace_ms,
            isolation=isolation,
        )

    return work_of
