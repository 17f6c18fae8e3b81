"""Whether commits work, and the numbers of blocks, failures and refusals for metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from threading import Thread
from time import monotonic, perf_counter
from typing import Final

from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.ports.errors import NotLeaderError, QuorateError, StoreError
from quorate.service.metrics.registry import Metrics
from quorate.views.exits import CommandError

_LOG = logging.getLogger(__name__)

CHECK_S: Final = 1.0
"""How often, while commits fail, the service checks whether the store accepts writes again."""
CHECKING_S: Final = 0.1
"""How often the ledger thread polls a running check."""


class _Checking(Thread):
    """Calls ``check_writable`` once, while commits fail because of ``trouble``."""

    def __init__(self, check_writable: Callable[[], None], trouble: str) -> None:
        # The program does not wait for this thread when it ends, because the thread changes
        # nothing.
        super().__init__(name="check-writable", daemon=True)
        self._check_writable = check_writable
        self.trouble = trouble
        self.is_writable = False

    def run(self) -> None:
        """Check, and keep the result."""
        try:
            self._check_writable()
            self.is_writable = True
        except QuorateError as error:
            _LOG.debug("the store still accepts no writes: %s", error)


class CommitHealth:
    """Whether commits work. Written by the ledger thread, and read by any thread.

    A load balancer sends nothing to a service that is not ready, so no commit would show that the
    store has recovered. Therefore the service calls ``check_writable``, which raises a
    ``QuorateError`` while the store accepts no writes. The call runs on a separate thread, because
    a store on other machines may answer slowly.
    """

    def __init__(self, check_writable: Callable[[], None] | None = None) -> None:
        self._check_writable = check_writable
        self._checking: _Checking | None = None
        self._next_s = 0.0
        self._head: Head | None = None
        self.trouble = ""

    def begin(self) -> None:
        """Check whether the store accepts writes, before the service makes its first commit."""
        if self._check_writable is None:
            return
        try:
            self._check_writable()
        except QuorateError as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """Record why a command was not committed, if the store failed.

        The loss of the leadership is no failure: the service follows from then on, and its store
        works.
        """
        if not isinstance(error, StoreError) or isinstance(error, NotLeaderError):
            return
        text = f"commits fail: {error}"
        if text != self.trouble:
            _LOG.error("not ready: %s", text)
        self.trouble, self._next_s = text, monotonic() + CHECK_S

    def note_head(self, head: Head) -> None:
        """If the ledger's head has moved, record that commits work.

        The ledger thread calls this before it answers a committed request. So a client whose
        request was committed never reads that commits fail.
        """
        if head != self._head:
            self._head = head
            self.worked()

    def worked(self) -> None:
        """Record that a commit worked, or that the store accepts commits."""
        if self.trouble:
            _LOG.info("ready: commits work again")
        self.trouble = ""

    def left(self) -> None:
        """Record that another service commits from now on."""
        self.trouble = ""

    def wait_s(self) -> float:
        """Return the seconds until ``check`` has something to do; infinite while commits work."""
        if self._checking is not None:
            return CHECKING_S if self._checking.is_alive() else 0.0
        if not self.trouble or self._check_writable is None:
            return inf
        return max(0.0, self._next_s - monotonic())

    def check(self) -> None:
        """If due, begin a check whether the store accepts writes, or poll the running check."""
        checking = self._checking
        if self.wait_s() > 0:
            return
        if checking is not None:
            self._checking, self._next_s = None, monotonic() + CHECK_S
            # If a commit failed after the check began, that failure is newer than the result.
            if checking.is_writable and checking.trouble is self.trouble:
                self.worked()
            return
        assert self._check_writable is not None, "else none is due"
        self._checking = _Checking(self._check_writable, self.trouble)
        self._checking.start()


@dataclass(slots=True)
class Commands:
    """The number of commands in the block that is being made."""

    count: int = 1


@contextmanager
def counted(metrics: Metrics, engine: Engine) -> Iterator[Commands]:
    """Count the commands recorded, refused or failed in the ``with`` block, on the ledger thread.

    If every command is refused or repeats an earlier command, no block is made or counted.
    """
    before, began_s = engine.head, perf_counter()
    commands = Commands()
    try:
        yield commands
    except CommandError as error:
        metrics.refused(error.refusals)
        raise
    except StoreError:
        if engine.head == before:
            metrics.commit_failed()
        raise
    finally:
        if engine.head != before:
            metrics.committed(commands=commands.count, seconds=perf_counter() - began_s)
