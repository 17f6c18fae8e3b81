"""The sessions of a keeper and of its work, by which a later keeper finds processes left behind.

Each confined process has its own session, because every process in the keeper's session is allowed
to send the keeper some signals. Other processes stay in the keeper's session.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from quorate.keeper.wanted import SESSION_FILE, replace_file


@dataclass(frozen=True, slots=True)
class Session:
    """One session: its number, its start, and in which boot and container the number is valid."""

    number: int
    since: int
    where: str


def note(folder: Path, leaders: Iterable[int] = ()) -> None:
    """Record the sessions of this keeper: its own session, and those that ``leaders`` began.

    Call this function only after the processes of earlier keepers have ended, because the earlier
    record is replaced.
    """
    where = _where()
    found = [
        Session(each.session, each.since, where)
        for pid in (os.getpid(), *leaders)
        # A session is recorded only if the keeper or its work began it, because the session of
        # another program has processes of that program, too.
        if (each := stat(pid)) is not None and each.session == pid
    ]
    if not found:
        (folder / SESSION_FILE).unlink(missing_ok=True)
        return
    text = json.dumps([asdict(each) for each in found])
    replace_file(folder / SESSION_FILE, text.encode())


def left(folder: Path) -> Sequence[Session]:
    """Return the sessions of the last keeper that may still have processes."""
    try:
        noted = json.loads((folder / SESSION_FILE).read_bytes())
        found = [Session(**each) for each in ([noted] if isinstance(noted, dict) else noted)]
    except (OSError, ValueError, TypeError):
        return ()  # No process was started, or the file is damaged.
    return [each for each in found if not _is_past(each)]


def _is_past(session: Session) -> bool:
    """Return whether ``session`` is no longer valid, or is the session of this process."""
    leader = stat(session.number)
    is_reused = leader is not None and leader.since != session.since
    return session.where != _where() or is_reused or session.number == os.getsid(0)


def is_of(pid: int, sessions: Collection[Session]) -> bool:
    """Return whether a process runs in one of ``sessions``."""
    if not sessions:
        return False
    found = stat(pid)
    return found is not None and any(
        found.session == each.number and found.since >= each.since for each in sessions
    )


def number_of(pid: int) -> int | None:
    """Return the session of a process; None if the process has ended."""
    found = stat(pid)
    return None if found is None else found.session


def _where() -> str:
    """Return an id of the boot and the container within which process numbers are valid."""
    try:
        return f"{boot_id()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return boot_id()


def boot_id() -> str:
    """Return an id of this boot of the machine; empty if the system has no such id."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Stat(NamedTuple):
    """The kernel's record of a running process; ``since`` is its start, in ticks since the boot."""

    parent: int
    group: int
    session: int
    since: int


def stat(pid: int) -> Stat | None:
    """Return the kernel's record of a process; None if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # The process has ended, or is hidden because it belongs to another user.
    # The name of the program, in brackets, may contain anything.
    words = text[text.rindex(b")") + 2 :].split()
    if words[0] in (b"Z", b"X"):
        return None
    return Stat(int(words[1]), int(words[2]), int(words[3]), int(words[19]))
