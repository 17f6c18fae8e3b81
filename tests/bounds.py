"""Bounds for tests: every wait ends, and ends at once when the process that it waits for is gone.

A test that waits for something says so here, and not by a loop of its own. Behind these bounds is
the time limit of each test (``timeout`` in pyproject.toml), which says where a test hangs that has
none of them.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

WAIT_S: Final = 60.0
"""How long a test waits for one thing: many times what it takes, for machines with other work."""
EVERY_S: Final = 0.02
LATER_EVERY_S: Final = 0.1
"""How often a test looks, at first and in a longer wait: a look may be a request, or a process."""
_LONGER: Final = 1.25
"""By how much each pause is longer than the one before it."""


class Deadline:
    """How long ``what`` is waited for, at most; while ``server`` runs, where there is one."""

    def __init__(
        self,
        what: str,
        within_s: float = WAIT_S,
        server: subprocess.Popen[Any] | None = None,
    ) -> None:
        self._what = what
        self._within_s = within_s
        self._server = server
        self._end_s = time.monotonic() + within_s

    def check(self, tell: Callable[[], object] = lambda: "") -> None:
        """Fail with what ``tell`` returns when the time is over, or the server has ended."""
        code = None if self._server is None else self._server.poll()
        if code is not None:
            raise AssertionError(f"{self._what}: the server has ended with {code}\n{tell()}")
        if time.monotonic() >= self._end_s:
            raise AssertionError(f"{self._what}: not within {self._within_s:g} s\n{tell()}")


def until(
    look: Callable[[], T | None],
    what: str,
    within_s: float = WAIT_S,
    *,
    server: subprocess.Popen[Any] | None = None,
    every_s: float = EVERY_S,
    tell: Callable[[], object] = lambda: "",
) -> T:
    """Return what ``look`` finds, as soon as it finds anything; fails as ``Deadline`` does."""
    deadline = Deadline(what, within_s, server)
    while not (found := look()):
        deadline.check(tell)
        time.sleep(every_s)
        every_s = _next_pause_s(every_s, LATER_EVERY_S)
    return found


def _next_pause_s(pause_s: float, most_s: float) -> float:
    return max(pause_s, min(most_s, pause_s * _LONGER))


def stays(look: Callable[[], object], what: str, for_s: float = 0.2) -> None:
    """Fail as soon as ``look`` finds nothing, within a while in which it should find something.

    It is for what must not happen and leaves no trace when it does not; wait for a trace instead
    where there is one.
    """
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        assert look(), what
        time.sleep(EVERY_S)


async def until_async(look: Callable[[], T | None], what: str, within_s: float = WAIT_S) -> T:
    """Return what ``look`` finds, as ``until`` does, while the tasks of this loop go on."""
    deadline = Deadline(what, within_s)
    pause_s = 0.001
    while not (found := look()):
        deadline.check()
        await asyncio.sleep(pause_s)
        pause_s = _next_pause_s(pause_s, EVERY_S)
    return found


@contextmanager
def started(words: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a program that ends with the block, if it has not ended before; its pipes are closed."""
    process = subprocess.Popen(words, **more)
    try:
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
