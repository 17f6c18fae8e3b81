"""The session of a keeper, by which what it has left behind is known, whatever its environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from quorate.keeper.wanted import SESSION_FILE, replace_file


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a keeper: its number, when it began, and ``where`` that number means it."""

    number: int
    since: int
    where: str


def note(folder: Path) -> None:
    """Write down the session of this keeper, once nothing of an earlier one is left."""
    own = stat(os.getpid())
    if own is None or own.session != os.getpid():
        # Started by hand in somebody's session: not all that is there is the work's.
        (folder / SESSION_FILE).unlink(missing_ok=True)
        return
    text = json.dumps(asdict(Session(own.session, own.since, _where())))
    replace_file(folder / SESSION_FILE, text.encode())


def left(folder: Path) -> Session | None:
    """Return the session of the last keeper, if there may still be something of it."""
    try:
        found = Session(**json.loads((folder / SESSION_FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None  # Nothing was started, or it is damaged: the marks are left.
    leader = stat(found.number)
    is_reused = leader is not None and leader.since != found.since
    is_own = found.number == os.getsid(0)
    return None if found.where != _where() or is_reused or is_own else found


def is_of(pid: int, session: Session | None) -> bool:
    """Return whether a process is of a session, and runs."""
    if session is None:
        return False
    found = stat(pid)
    return found is not None and found.session == session.number and found.since >= session.since


def _where() -> str:
    """Return among which processes numbers are these: of one boot, and of one container."""
    try:
        return f"{boot_id()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return boot_id()


def boot_id() -> str:
    """Return what tells this start of the machine from others; empty where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Stat(NamedTuple):
    """What the kernel says of a process that runs; ``since`` is in ticks since its boot."""

    parent: int
    group: int
    session: int
    since: int


def stat(pid: int) -> Stat | None:
    """Return what the kernel says of a process; None where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # Gone, or hidden: then it is somebody else's.
    # The name of the program, in brackets, may contain anything.
    words = text[text.rindex(b")") + 2 :].split()
    if words[0] in (b"Z", b"X"):
        return None
    return Stat(int(words[1]), int(words[2]), int(words[3]), int(words[19]))
