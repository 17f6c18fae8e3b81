"""Bounds for tests: each wait has a time limit, and ends at once if its process has ended.

Tests wait with these functions instead of loops of their own. In addition, each test has a time
limit (``timeout`` in pyproject.toml), which shows where a test hangs that waits without them.
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
"""How long a test waits for one thing: many times the usual time, because machines may be busy."""
EVERY_S: Final = 0.02
LATER_EVERY_S: Final = 0.1
"""The pauses between two looks, at first and later: a look may need a request or a process."""
_LONGER: Final = 1.25
"""The factor by which each pause is longer than the previous one."""


class Deadline:
    """How long a test waits for ``what``; the wait also ends when ``server``, if given, ends."""

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
        """Fail with the result of ``tell`` if the time is over or the server has ended."""
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
    """Return the result of ``look`` as soon as it is true; fail like ``Deadline``."""
    deadline = Deadline(what, within_s, server)
    while not (found := look()):
        deadline.check(tell)
        time.sleep(every_s)
        every_s = _next_pause_s(every_s, LATER_EVERY_S)
    return found


def _next_pause_s(pause_s: float, most_s: float) -> float:
    return max(pause_s, min(most_s, pause_s * _LONGER))


def stays(look: Callable[[], object], what: str, for_s: float = 0.2) -> None:
    """Fail if ``look`` returns something false within ``for_s``.

    Use this for events that must not happen and whose absence leaves no trace. If there is a trace,
    wait for the trace instead.
    """
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        assert look(), what
        time.sleep(EVERY_S)


async def until_async(look: Callable[[], T | None], what: str, within_s: float = WAIT_S) -> T:
    """Return the result of ``look`` like ``until``, while the other tasks of this loop run."""
    deadline = Deadline(what, within_s)
    pause_s = 0.001
    while not (found := look()):
        deadline.check()
        await asyncio.sleep(pause_s)
        pause_s = _next_pause_s(pause_s, EVERY_S)
    return found


@contextmanager
def started(words: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a program until the end of the block at most, and close its pipes."""
    process = subprocess.Popen(words, **more)
    try:
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
