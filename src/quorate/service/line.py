"""The line before the ledger's thread: submits, which share a commit, and everybody else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import Any

from msgspec import Struct

from quorate.answers.exits import CommandError, Exit
from quorate.loop.engine import Engine
from quorate.operations.caller import Caller
from quorate.operations.operation import Operation
from quorate.operations.statuses import UNAVAILABLE
from quorate.service.reply import Form


@dataclass(slots=True)
class Slip:
    """Something that waits for the ledger: ``do`` is carried out, unless it is a submit."""

    done: asyncio.Future[Any]
    do: Callable[[Engine], Any] | None = None
    caller: Caller | None = None
    operation: Operation | None = None
    asked: Struct | None = None
    form: Form = Form.TREE


class Line:
    """Safe from every thread; at most ``waiting_max`` wait, and the rest are told to come back."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._wake = Condition()
        self._submits: deque[Slip] = deque()
        self._others: deque[Slip] = deque()
        self._is_closed = False
        self._is_nudged = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._submits) + len(self._others)

    def put(self, slip: Slip, *, is_submit: bool = False) -> None:
        """Have ``slip`` wait; raises ``CommandError`` when too many do, or nobody may any more."""
        with self._wake:
            if self._is_closed:
                raise unavailable("the service is stopping; ask again in a moment")
            if len(self) >= self._waiting_max:
                self._drop_gone()
            if len(self) >= self._waiting_max:
                raise unavailable(
                    f"{len(self)} requests wait for the ledger; ask again in a second"
                )
            (self._submits if is_submit else self._others).append(slip)
            self._wake.notify()

    def nudge(self) -> None:
        """Wake whoever waits for something to do, though nobody asked for anything."""
        with self._wake:
            self._is_nudged = True
            self._wake.notify()

    def was_nudged(self) -> bool:
        """Return whether somebody nudged since this was last asked."""
        with self._wake:
            nudged, self._is_nudged = self._is_nudged, False
            return nudged

    def close(self) -> None:
        """Let nobody else wait; those who do are still taken."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()

    def wait(self, sleep_s: float) -> bool:
        """Sleep until there is something to do; return False when there never will be."""
        with self._wake:
            if sleep_s > 0 and not (len(self) or self._is_closed or self._is_nudged):
                self._wake.wait(sleep_s)
            return not self._is_closed or len(self) > 0

    def submits(self, most: int) -> list[Slip]:
        """Return the submits in front, at most so many."""
        return self._take(self._submits, most)

    def other(self) -> Slip | None:
        """Return whoever is in front of the others."""
        return next(iter(self._take(self._others, 1)), None)

    def rest(self) -> list[Slip]:
        """Return all who wait."""
        return [
            *self._take(self._submits, self._waiting_max),
            *self._take(self._others, self._waiting_max),
        ]

    def _take(self, queue: deque[Slip], most: int) -> list[Slip]:
        """Return those in front of ``queue``, without the ones that nobody waits for any more."""
        with self._wake:
            found: list[Slip] = []
            while queue and len(found) < most:
                slip = queue.popleft()
                if not slip.done.cancelled():
                    found.append(slip)
            return found

    def _drop_gone(self) -> None:
        """Forget those who have gone: they wait for nothing."""
        for queue in (self._submits, self._others):
            left = [slip for slip in queue if not slip.done.cancelled()]
            queue.clear()
            queue.extend(left)


def unavailable(text: str) -> CommandError:
    """Return what is told to those who have to come back."""
    return CommandError(Exit.UNUSABLE, text, fault=UNAVAILABLE)
