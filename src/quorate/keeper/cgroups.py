"""The cgroups (version 2) of runs: the processes of a run, and its limits.

The service makes one parent cgroup below its own cgroup, and the keeper of each run makes the run's
cgroup in this parent. Limits that cannot be set are returned as text. Two causes are common: many
containers have a read-only cgroup tree, and on a machine that still uses version 1, the controllers
belong to version 1.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")
OWN: Final = Path("/proc/self/cgroup")
RUNS: Final = "quorate-runs"
SERVICE: Final = "quorate-service"
"""The name of the child cgroup into which the service moves itself.

The kernel allows no processes in a cgroup that limits its children.
"""
CGROUP_FILE: Final = "cgroup"
"""The file in a run's folder with the path of the run's cgroup, for a later keeper."""
_NAME_CHARS_MAX: Final = 100
_BOUNDS: Final = ("memory", "pids")


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent of all runs' cgroups; ``path`` is empty if there is none.

    ``note`` says which limits are missing, and why.
    """

    path: str
    note: str = ""


def prepare(mounts: Path = MOUNTS, own: Path = OWN) -> Parent:
    """Return the parent of all runs' cgroups, made below the cgroup of this process.

    ``mounts`` is the kernel's list of mounts, and ``own`` is the kernel's file with the cgroup of
    this process.
    """
    here, note = _here(mounts, own)
    if here is None:
        return Parent("", note)
    runs = here / RUNS
    try:
        runs.mkdir(exist_ok=True)
        there = (here / "cgroup.controllers").read_text().split()
    except OSError as error:
        return Parent("", f"cgroup v2 at {here} cannot be written: {_words(error)}")
    lacking = [each for each in _BOUNDS if each not in there]
    notes = [f"cgroup v2 has no {' and no '.join(lacking)} controller here"] if lacking else []
    bounds = [each for each in _BOUNDS if each in there]
    try:
        if bounds:
            _hand_down(here, bounds)
            _hand_down(runs, bounds)
    except OSError as error:
        notes.append(f"{' and '.join(bounds)} cannot be enabled below {here}: {_words(error)}")
    return Parent(str(runs), "; ".join(notes))


def _here(mount_file: Path, own_file: Path) -> tuple[Path | None, str]:
    """Return the cgroup of the service; None, with the reason, if it is not known."""
    try:
        lines = mount_file.read_text().splitlines()
        own = own_file.read_text().splitlines()
    except OSError as error:
        return None, f"the cgroups of this process are unknown: {_words(error)}"
    mounts = [line.split() for line in lines if " - cgroup2 " in line]
    paths = [line.removeprefix("0::") for line in own if line.startswith("0::")]
    if not mounts or not paths:
        return None, "cgroup v2 is not mounted"
    root, place = mounts[0][3], Path(mounts[0][4])
    path = Path(paths[0])
    if ".." in path.parts or not path.is_relative_to(root):
        return None, f"the cgroup of this process, {path}, is not below {place}"
    here = place / path.relative_to(root)
    return (here.parent if here.name == SERVICE else here), ""


def _hand_down(folder: Path, bounds: Sequence[str]) -> None:
    """Enable the controllers ``bounds`` for the cgroups below ``folder``.

    If the kernel refuses because ``folder`` has processes, move this process into a child of it.
    """
    control, words = folder / "cgroup.subtree_control", " ".join(f"+{each}" for each in bounds)
    try:
        control.write_text(words)
    except OSError as error:
        if error.errno != errno.EBUSY or folder.name == RUNS:
            raise
    else:
        return
    aside = folder / SERVICE
    aside.mkdir(exist_ok=True)
    (aside / "cgroup.procs").write_text(str(os.getpid()))
    try:
        control.write_text(words)
    except OSError:
        # The cgroup has other processes, too, which must not be moved. So this process moves back.
        (folder / "cgroup.procs").write_text(str(os.getpid()))
        raise


def name_of(folder: Path) -> str:
    """Return the unique name of the cgroup of the run in ``folder``."""
    digest = sha256(str(folder).encode()).hexdigest()[:12]
    return f"run-{folder.name[:_NAME_CHARS_MAX]}-{digest}"


def make(parent: str, folder: Path, *, memory_bytes: int, processes: int) -> tuple[Path, list[str]]:
    """Make a run's cgroup, and set its limits.

    Return the cgroup, and the names of the limits that the kernel does not offer. Raises OSError.
    """
    path = Path(parent) / name_of(folder)
    path.mkdir(exist_ok=True)
    (folder / CGROUP_FILE).write_text(str(path))
    unbounded = []
    for name, file, most in (
        ("memory", "memory.max", memory_bytes),
        ("processes", "pids.max", processes),
    ):
        bound = path / file
        if bound.exists():
            bound.write_text(str(most))
        else:
            unbounded.append(name)
    whole = path / "memory.oom.group"
    if whole.exists():
        # If the run exceeds its memory, the kernel kills all its processes and not only one,
        # because the other processes could not continue without the killed one.
        whole.write_text("1")
    return path, unbounded


def join(path: Path) -> None:
    """Move this process into a cgroup."""
    (path / "cgroup.procs").write_text("0")


def members(folder: Path) -> list[int]:
    """Return the processes in the last cgroup of the run in ``folder``."""
    try:
        path = Path((folder / CGROUP_FILE).read_text())
        return [int(line) for line in (path / "cgroup.procs").read_text().split()]
    except (OSError, ValueError):
        return []  # The run never had a cgroup, or the cgroup was removed after its last process.


def remove(path: Path) -> None:
    """Remove the cgroup of a run without processes; the next start makes the cgroup again."""
    with suppress(OSError):
        path.rmdir()


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
