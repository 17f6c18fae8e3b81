"""What is wanted of a keeper, and what has become of it: the two files it shares with the daemon.

``wanted.json`` is the daemon's: every lease of the run that is open in the ledger. ``status.json``
is the keeper's. Both are whole at every instant, and saying one twice changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

WANTED_FILE: Final = "wanted.json"
STATUS_FILE: Final = "status.json"
LOCK_FILE: Final = "keeper.lock"
POKE_FIFO: Final = "poke"
ROOM_FIFO: Final = "room"
OUTPUT: Final = "output"

Slot = tuple[str, int]
"""A node, and the ordinal of one of its GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An open lease of the run: ``slots`` are in the order of the ranks.

    ``bundle`` 0 is what the run cannot do without. ``stop_by_ms`` says that it was told to stop.
    """

    lease: str
    bundle: int
    slots: tuple[Slot, ...]
    stop_by_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be run: ``processes`` is what there is one for, ``gpu``, ``node`` or ``run``."""

    run: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str
    processes: str
    grace_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """All that is open of one run. ``life`` is another one after the run has been stopped."""

    life: str
    work: Work
    parts: tuple[Part, ...] = ()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots of what was not told to stop."""
        return tuple(s for part in self.parts if part.stop_by_ms is None for s in part.slots)

    @property
    def all_slots(self) -> frozenset[Slot]:
        """The slots of everything that is open."""
        return frozenset(slot for part in self.parts for slot in part.slots)

    @property
    def stands_still(self) -> bool:
        """Whether a part is going without which nothing of the run gets on."""
        return any(part.bundle == 0 and part.stop_by_ms is not None for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """All the work of one life has ended by itself."""

    life: str
    code: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What has become of it.

    ``slots`` are those with work on them, empty when there is none; ``boot`` is the start of the
    machine they belong to. ``generation`` counts the starts of the processes, ``losses`` how often
    they were lost together with their keeper in this ``life``.
    """

    life: str = ""
    boot: str = ""
    generation: int = 0
    losses: int = 0
    slots: tuple[Slot, ...] = ()
    exited: Exited | None = None
    gone: tuple[str, ...] = ()


def read_wanted(folder: Path) -> Wanted | None:
    """Return what is wanted in ``folder``; None where nothing ever was."""
    found = _read(folder / WANTED_FILE)
    if found is None:
        return None
    work = found["work"] | {"command": tuple(found["work"]["command"])}
    return Wanted(
        life=found["life"],
        work=Work(**work),
        parts=tuple(Part(**(each | {"slots": _slots(each["slots"])})) for each in found["parts"]),
    )


def read_status(folder: Path) -> Status:
    """Return what has become of it in ``folder``; nothing at first."""
    found = _read(folder / STATUS_FILE)
    if found is None:
        return Status()
    exited = found["exited"]
    return Status(
        **(
            found
            | {
                "slots": _slots(found["slots"]),
                "exited": None if exited is None else Exited(**exited),
                "gone": tuple(found["gone"]),
            }
        )
    )


def write(folder: Path, content: Wanted | Status) -> None:
    """Put ``content`` in the place of what was there, durably."""
    name = WANTED_FILE if isinstance(content, Wanted) else STATUS_FILE
    replace_file(folder / name, json.dumps(asdict(content)).encode())


def replace_file(path: Path, content: bytes) -> None:
    """Have ``path`` be ``content``, or what it was if the machine goes down meanwhile."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _slots(found: list[list[Any]]) -> tuple[Slot, ...]:
    return tuple((node, ordinal) for node, ordinal in found)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    assert isinstance(found, dict), path
    return found
