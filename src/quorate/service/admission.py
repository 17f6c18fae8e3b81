"""How many requests for the ledger are let in at once, by how long the last ones took.

More are turned away before they are read, which costs little, so that a service that is asked for
more than it can do goes on doing what it can. The limit falls by a little with each answer that
took too long, and rises by one with each that did not, while it is made use of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from quorate.operations.caller import Caller, Role
from quorate.operations.statuses import UNAVAILABLE
from quorate.service.problems import problem

_LOG = logging.getLogger(__name__)

ANSWER_S_MAX: Final = 2.0
"""How long an answer may take before fewer requests are let in."""
LIMIT_MIN: Final = 32
LIMIT_MAX: Final = 1_000
TOLD_S: Final = 1.0
_FALL_PART: Final = 0.98


class Admission:
    """For the event loop only; ``now_s`` never runs back."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._limit = float(LIMIT_MAX)
        self._under_way = 0
        self._turned_away = 0
        self._told_s = 0.0

    @property
    def trouble(self) -> str:
        """Why no request is let in; empty while some are."""
        if not self.is_full:
            return ""
        return f"{self._under_way} requests are under way, as many as are answered in time"

    @property
    def is_full(self) -> bool:
        """Whether only admins are let in."""
        return self._under_way >= self._limit

    def turned_away(self) -> None:
        """Count a request that was turned away unread; the log has how many, once a second."""
        self._turned_away += 1
        if self._now_s() >= self._told_s + TOLD_S:
            _LOG.warning("%d requests were turned away unread: %s", self._turned_away, self.trouble)
            self._turned_away, self._told_s = 0, self._now_s()

    @contextmanager
    def taken(self, caller: Caller) -> Iterator[None]:
        """Count a request of ``caller`` until it is answered; raises ``CommandError`` if too many.

        Admins are let in: it is they who put things right.
        """
        if self.is_full and caller.role is not Role.ADMIN:
            raise problem(UNAVAILABLE, f"{self.trouble}; ask again in a second")
        self._under_way += 1
        began_s = self._now_s()
        try:
            yield
            self._answered(self._now_s() - began_s)
        finally:
            self._under_way -= 1

    def _answered(self, took_s: float) -> None:
        if took_s > ANSWER_S_MAX:
            self._limit = max(float(LIMIT_MIN), self._limit * _FALL_PART)
        elif 2 * self._under_way >= self._limit:
            self._limit = min(float(LIMIT_MAX), self._limit + 1)
