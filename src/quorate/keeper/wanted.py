"""The wanted state and the status of a run: the two files that keeper and daemon share.

The daemon writes ``wanted.json``: every lease of the run that is open in the ledger. The keeper
writes ``status.json``. Both files are complete at every instant, and writing a file twice changes
nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

WANTED_FILE: Final = "wanted.json"
STATUS_FILE: Final = "status.json"
LOCK_FILE: Final = "keeper.lock"
SESSION_FILE: Final = "session.json"
"""The file with the sessions of the last keeper, by which processes left behind are found."""
POKE_FIFO: Final = "poke"
ROOM_FIFO: Final = "room"
OUTPUT: Final = "output"
HOME: Final = "home"
"""The folder in which work starts if its run names no working folder."""
JOBS: Final = "jobs"
"""The folder, beside the folder of runs, for runs that work as another user than the service."""
JOB_FOLDER: Final = "folder"
"""The run's private folder, ``jobs/RUN/folder``, which belongs to the run's system user."""

Slot = tuple[str, int]
"""A node, and the ordinal of one of its GPUs."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An open lease of the run: ``slots`` are in the order of the ranks.

    ``bundle`` is the number of the part of the run to which the lease belongs. The run cannot work
    without bundle 0. If the lease is stopping, ``stop_by_ms`` is its deadline. ``lost`` has the
    slots on failed nodes, where no process may run any more.
    """

    lease: str
    bundle: int
    slots: tuple[Slot, ...]
    stop_by_ms: int | None = None
    lost: tuple[Slot, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether work may run on the lease: it is not stopping and has no lost slots."""
        return self.stop_by_ms is None and not self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The system user of a run's processes, and the limits of these processes.

    ``account`` is the name or number of a system user. If the run has no system user, ``why_not``
    says why, and no process starts. ``subject`` is the owner or user to whom the system user
    belongs. ``folder`` contains the run's private folder and its notice. ``cgroup`` is the parent
    of the run's cgroup, empty if no cgroup can be made.
    """

    account: str
    why_not: str
    subject: str
    folder: str
    cgroup: str
    memory_bytes: int
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work to run: one process for each ``gpu``, each ``node`` or the whole ``run``.

    If ``isolation`` is None, the work runs as the user of the service. In a pool that shares in
    rounds, three fields say how long the work has its GPUs: ``round_steps`` is a number of steps,
    ``round_ms`` is a time, and ``round_until_ms`` is the end of this time.
    """

    run: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str
    processes: str
    grace_ms: int
    isolation: Isolation | None = None
    round_steps: int | None = None
    round_ms: int | None = None
    round_until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """All open leases of one run. ``life`` changes after the run has been stopped.

    A restored ledger may have another run of the same name, which has another ``nonce``. The nonce
    is None if it is not known.
    """

    life: str
    work: Work
    parts: tuple[Part, ...] = ()
    nonce: str | None = None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots of the leases on which work may run."""
        return tuple(slot for part in self.parts if part.is_whole for slot in part.slots)

    @property
    def all_slots(self) -> frozenset[Slot]:
        """The slots of all open leases, except lost slots."""
        return frozenset(s for part in self.parts for s in part.slots if s not in part.lost)

    def is_of_another(self, nonce: str | None) -> bool:
        """Return whether this is another run's state: both nonces are known, and they differ."""
        return None not in (self.nonce, nonce) and self.nonce != nonce

    @property
    def stands_still(self) -> bool:
        """Whether a lease that the run needs to work (bundle 0) is stopping or has lost slots."""
        return any(part.bundle == 0 and not part.is_whole for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The work of the run has ended for good, and does not start again in this ``life``.

    The work has succeeded or failed; it was not merely stopped.
    """

    life: str
    code: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a run.

    ``slots`` has the slots with work, and is empty without work. ``boot`` is the boot of the
    machine in which ``slots`` are valid. ``generation`` counts the starts of the processes.
    ``losses`` counts how often, in this ``life``, the processes were lost together with their
    keeper. ``since_ms`` is the last start of the processes; 0 if it is not known.
    """

    life: str = ""
    boot: str = ""
    generation: int = 0
    losses: int = 0
    since_ms: int = 0
    slots: tuple[Slot, ...] = ()
    exited: Exited | None = None
    gone: tuple[str, ...] = ()


class UnreadableError(ValueError):
    """The content of a file is invalid; the error's text names the file."""


def read_wanted(folder: Path) -> Wanted | None:
    """Return the wanted state in ``folder``; None if there is no file.

    Raises ``UnreadableError``.
    """
    return _read(folder / WANTED_FILE, _wanted)


def read_status(folder: Path) -> Status | None:
    """Return the status in ``folder``; None if there is no file. Raises ``UnreadableError``."""
    return _read(folder / STATUS_FILE, _status)


def write(folder: Path, content: Wanted | Status) -> None:
    """Write ``content`` durably to its file in ``folder``, in place of the old content."""
    name = WANTED_FILE if isinstance(content, Wanted) else STATUS_FILE
    replace_file(folder / name, json.dumps(asdict(content)).encode())


def replace_file(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``; after a crash the file has the old or the new content."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _wanted(found: Mapping[str, Any]) -> Wanted:
    work = _known(Work, found["work"])
    isolation = work.get("isolation")
    made = {
        "command": tuple(work["command"]),
        "isolation": None if isolation is None else Isolation(**_known(Isolation, isolation)),
    }
    parts = (_known(Part, each) for each in found["parts"])
    return Wanted(
        life=found["life"],
        work=Work(**work | made),
        parts=tuple(
            Part(**each | {"slots": _slots(each["slots"]), "lost": _slots(each.get("lost", []))})
            for each in parts
        ),
        nonce=found.get("nonce"),
    )


def _status(found: Mapping[str, Any]) -> Status:
    exited = found["exited"]
    made = {
        "slots": _slots(found["slots"]),
        "exited": None if exited is None else Exited(**_known(Exited, exited)),
        "gone": tuple(found["gone"]),
    }
    return Status(**_known(Status, found) | made)


def _known(
    kind: type[Work | Isolation | Part | Status | Exited], found: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that ``kind`` has; a file of another version may have more fields."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in found.items() if name in names}


def _slots(found: list[list[Any]]) -> tuple[Slot, ...]:
    return tuple((node, ordinal) for node, ordinal in found)


def _read(path: Path, make: Callable[[Mapping[str, Any]], T]) -> T | None:
    try:
        return make(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableError(f"{path} cannot be read: {error!r}") from None
