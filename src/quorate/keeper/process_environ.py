"""The environment of a process in /proc, which marks the processes of a run.

A process that begins another program shows no environment for an instant: its old memory is gone,
and the new one is not filled yet. A search for processes by their environment must not miss them
then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PAUSES_S: Final = (0.0, 0.001, 0.01, 0.1, 0.4)
"""How long to wait before each further read of a process that begins a program."""
_BYTES, _START, _END = 20, 47, 48
"""The positions, in the kernel's record, of the memory size and of the start and end of the
environment."""


def environ_of(pid: int, pauses_s: Iterable[float] = PAUSES_S) -> frozenset[bytes]:
    """Return the variables of a process, as ``NAME=value``; none if it has ended.

    Also none if it belongs to another user, or begins a program for longer than the pauses between
    the reads: a file system may delay that, and must not delay the caller.
    """
    for pause_s in pauses_s:
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return frozenset()  # Another user's, or ended.
        if text or not may_show_more(pid):
            return frozenset(text.split(b"\0"))
        time.sleep(pause_s)
    return frozenset()


def may_show_more(pid: int) -> bool:
    """Return whether a process that has just shown no environment may show one soon.

    Processes that have ended and threads of the kernel have no memory; a process that was started
    with an empty environment has a position for it.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name of the program, in brackets, may contain anything.
    words = text[text.rindex(b")") + 2 :].split()
    has_memory = int(words[_BYTES]) > 0
    is_empty = 0 < int(words[_END]) == int(words[_START])
    return has_memory and not is_empty
