"""Reads the environment of a process from /proc; its variables mark the processes of a run.

While a process executes another program, it shows no environment for an instant: its old memory is
gone, and the new memory is not filled yet. A search by environment must not miss such a process.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PAUSES_S: Final = (0.0, 0.001, 0.01, 0.1, 0.4)
"""The pauses after which the environment of a process is read again while it starts a program."""
_BYTES, _START, _END = 20, 47, 48
"""Positions of values in ``/proc/PID/stat``, after the program's name.

The values are the memory size, and the start and the end of the environment.
"""


def environ_of(pid: int, pauses_s: Iterable[float] = PAUSES_S) -> frozenset[bytes]:
    """Return the variables of a process, as ``NAME=value``; empty if the process has ended.

    The result is also empty if the process belongs to another user, or if it needs longer than all
    the pauses to start its program. A slow file system may delay the process, but must not delay
    the caller.
    """
    for pause_s in pauses_s:
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return frozenset()  # The process has ended or belongs to another user.
        if text or not may_show_more(pid):
            return frozenset(text.split(b"\0"))
        time.sleep(pause_s)
    return frozenset()


def may_show_more(pid: int) -> bool:
    """Return whether a process that showed no environment may show its environment soon.

    A process without memory will show none, because it has ended or is a thread of the kernel. A
    process that was started with an empty environment will show none, either.
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
