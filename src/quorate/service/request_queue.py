"""Three queues for the ledger thread: submissions, committed together; large requests; all others.

A large request is one decision and one block, which nothing can interrupt. So large requests wait
in a separate queue: before each large request, the waiting small requests are answered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from threading import Condition
from typing import Any, Final

from msgspec import Struct

from quorate.loop.engine import Engine
from quorate.operations.batch_bounds import is_large
from quorate.operations.caller import Caller
from quorate.operations.operation import Operation
from quorate.service.limits.tenant_shares import Share, Shares
from quorate.service.reply import Form
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import TIMED_OUT, UNAVAILABLE

_DOCUMENTS: Final = "documents"
_DOCUMENT: Final = "document"
_UNSURE: Final = (
    "the command may be recorded: check first, or repeat it with the same key (Idempotency-Key)"
)


@dataclass(slots=True)
class QueuedRequest:
    """A request that waits for the ledger thread, which calls ``do``.

    A submit has no ``do``: the ledger thread decides several submits together.
    """

    done: asyncio.Future[Any]
    do: Callable[[Engine], Any] | None = None
    caller: Caller | None = None
    operation: Operation | None = None
    asked: Struct | None = None
    form: Form = Form.TREE

    @property
    def is_large(self) -> bool:
        """Whether deciding the request may delay other requests for long."""
        asked = self.asked
        return is_large(getattr(asked, _DOCUMENTS, ()) or (getattr(asked, _DOCUMENT, None),))


class Turns:
    """Waiting requests: tenants take turns, and so do the users of each tenant."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[str, deque[QueuedRequest]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return how many requests wait."""
        return self._count

    def append(self, queued: QueuedRequest) -> None:
        """Add ``queued`` behind the other requests of its user."""
        tenant, user = _keys(queued)
        users = self._tenants.setdefault(tenant, OrderedDict())
        users.setdefault(user, deque()).append(queued)
        self._count += 1

    def appendleft(self, queued: QueuedRequest) -> None:
        """Add ``queued`` before all other requests, and let its user and tenant come first."""
        tenant, user = _keys(queued)
        users = self._tenants.setdefault(tenant, OrderedDict())
        users.setdefault(user, deque()).appendleft(queued)
        users.move_to_end(user, last=False)
        self._tenants.move_to_end(tenant, last=False)
        self._count += 1

    def popleft(self) -> QueuedRequest:
        """Remove and return the next request; its user and its tenant then move to the end."""
        tenant, users = self._tenants.popitem(last=False)
        user, queued_requests = users.popitem(last=False)
        found = queued_requests.popleft()
        if queued_requests:
            users[user] = queued_requests
        if users:
            self._tenants[tenant] = users
        self._count -= 1
        return found


def _size(queued: QueuedRequest) -> int:
    """Return the number of documents of a request; a request without documents counts as one."""
    return max(1, len(getattr(queued.asked, _DOCUMENTS, ())))


def _keys(queued: QueuedRequest) -> tuple[str, str]:
    return ("", "") if queued.caller is None else (queued.caller.tenant, queued.caller.whose)


class Line:
    """The three queues, safe for several threads.

    At most ``waiting_max`` requests wait; tenants and users share this limit.
    """

    def __init__(self, waiting_max: int) -> None:
        self._shares = Shares(Share.of_all(waiting_max, "requests that wait for the ledger"))
        self._wake = Condition()
        self._submits = Turns()
        self._others = Turns()
        self._large = Turns()
        self._is_closed = False
        self._is_nudged = False

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._submits) + len(self._others) + len(self._large)

    @property
    def trouble(self) -> str:
        """Why no more requests may wait; empty while more may wait."""
        return self._shares.trouble

    def put(self, queued: QueuedRequest) -> None:
        """Add ``queued``; raises ``CommandError`` if too many wait or the queue is closed.

        A request without ``do`` is a submit.
        """
        small = self._submits if queued.do is None else self._others
        turns = self._large if queued.is_large else small
        with self._wake:
            if self._is_closed:
                raise unavailable("the service is stopping; ask again in a moment")
            try:
                self._shares.take(queued.caller)
            except CommandError:
                self._drop_gone()
                self._shares.take(queued.caller)
            turns.append(queued)
            self._wake.notify()

    def nudge(self) -> None:
        """Wake the ledger thread without a request."""
        with self._wake:
            self._is_nudged = True
            self._wake.notify()

    def wake(self) -> None:
        """Make the ledger thread compute again how long it may sleep; there is no new work."""
        with self._wake:
            self._wake.notify()

    def was_nudged(self) -> bool:
        """Return whether ``nudge`` was called since ``was_nudged`` was last called."""
        with self._wake:
            nudged, self._is_nudged = self._is_nudged, False
            return nudged

    def close(self) -> None:
        """Accept no more requests; the waiting requests are still answered."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()

    def wait(self, sleep_s: float) -> bool:
        """Sleep until there is work; return False once the queue is closed and empty."""
        with self._wake:
            if sleep_s > 0 and not (len(self) or self._is_closed or self._is_nudged):
                self._wake.wait(sleep_s)
            return not self._is_closed or len(self) > 0

    def submits(self, most: int) -> list[QueuedRequest]:
        """Remove and return the first submits, with about ``most`` runs together."""
        return self._take(self._submits, most)

    def put_back(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Put back submits that were taken and not handled, in front of later submits.

        Tenants and users still take turns: if a tenant or user has several submits, only the first
        of these comes before the submits of others.
        """
        with self._wake:
            for queued in reversed(queued_requests):
                self._shares.count(queued.caller)
                self._submits.appendleft(queued)

    def other(self) -> QueuedRequest | None:
        """Remove and return the next small request that is not a submit; None if none waits."""
        return next(iter(self._take(self._others, 1)), None)

    def large(self) -> QueuedRequest | None:
        """Remove and return the next large request; None if none waits."""
        return next(iter(self._take(self._large, 1)), None)

    def rest(self) -> list[QueuedRequest]:
        """Remove and return all waiting requests."""
        return [
            *self._take(self._submits, inf),
            *self._take(self._others, inf),
            *self._take(self._large, inf),
        ]

    def _take(self, turns: Turns, most: float) -> list[QueuedRequest]:
        """Remove and return the first requests of ``turns``, with ``most`` runs or a few more.

        Requests whose callers have disconnected are removed and not returned.
        """
        with self._wake:
            found: list[QueuedRequest] = []
            taken = 0
            while turns and taken < most:
                queued = turns.popleft()
                self._shares.give_back(queued.caller)
                if not queued.done.cancelled():
                    found.append(queued)
                    taken += _size(queued)
            return found

    def _drop_gone(self) -> None:
        """Drop the requests whose callers have disconnected."""
        for turns in (self._submits, self._others, self._large):
            queued_requests = [turns.popleft() for _ in range(len(turns))]
            for queued in queued_requests:
                if queued.done.cancelled():
                    self._shares.give_back(queued.caller)
                else:
                    turns.append(queued)


def unavailable(text: str) -> CommandError:
    """Return the error for callers that have to ask again later."""
    return CommandError(Exit.UNUSABLE, text, fault=UNAVAILABLE)


def unsure(why: str) -> CommandError:
    """Return the error for a command that may or may not be recorded."""
    return CommandError(Exit.UNUSABLE, f"{why}; {_UNSURE}", fault=TIMED_OUT)
