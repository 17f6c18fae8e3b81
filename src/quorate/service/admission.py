"""How many requests for the ledger are let in at once, by how long the last ones took.

More are turned away before they are read, which costs little, so that a service that is asked for
more than it can do goes on doing what it can. Only a queue that lasts lowers the limit: answers are
looked at in intervals, and most of them must be slow in several intervals in a row, with requests
under way all the time. One long commit does not count, nor do a few callers that are answered
slowly. The limit then becomes what is answered in the time that an answer may take. It rises while
answers are in time, and is forgotten once nothing is under way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from quorate.operations.caller import Caller, Role
from quorate.operations.statuses import UNAVAILABLE
from quorate.service.metric_table import READ, UNREAD
from quorate.service.problems import problem

_LOG = logging.getLogger(__name__)

ANSWER_S_MAX: Final = 2.0
"""How long an answer may take; a queue in which most take longer is too long."""
INTERVAL_S: Final = 0.5
"""How long answers are gathered, at least, before they are looked at."""
SLOW_INTERVALS_MAX: Final = 3
"""In how many intervals in a row most answers are slow before fewer requests are let in."""
LIMIT_MIN: Final = 128
"""So many are let in, however long answers take."""
LIMIT_FIRST: Final = 512
"""So many are let in before it is known how long answers take, and once nothing is under way."""
LIMIT_MAX: Final = 4_096
"""So many are let in at most, however short answers take: as many as may wait for the ledger."""
TOLD_S: Final = 1.0
_RISE_PART: Final = 1.25


class Admission:
    """For the event loop only; ``now_s`` never runs back.

    ``shed`` is told the stage of each request that is turned away: unread, or read.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = monotonic,
        *,
        shed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._now_s = now_s
        self._shed = shed
        self._limit = float(LIMIT_FIRST)
        self._under_way = 0
        self._most_under_way = 0
        self._began_s = 0.0
        self._answers = 0
        self._slow_answers = 0
        self._slow_intervals = 0
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
        self._shed(UNREAD)
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
            self._shed(READ)
            raise problem(UNAVAILABLE, f"{self.trouble}; ask again in a second")
        if not self._under_way:
            # Nothing waits: whatever was slow before, there is no queue any more.
            self._limit, self._slow_intervals = float(LIMIT_FIRST), 0
            self._begin_interval()
        self._under_way += 1
        self._most_under_way = max(self._most_under_way, self._under_way)
        began_s = self._now_s()
        try:
            yield
            self._answered(self._now_s() - began_s)
        finally:
            self._under_way -= 1

    def _begin_interval(self) -> None:
        self._began_s = self._now_s()
        self._answers = self._slow_answers = 0
        self._most_under_way = self._under_way

    def _answered(self, took_s: float) -> None:
        self._answers += 1
        self._slow_answers += took_s > ANSWER_S_MAX
        seconds = self._now_s() - self._began_s
        if seconds < INTERVAL_S:
            return
        if 2 * self._slow_answers > self._answers:
            self._slow_intervals += 1
            if self._slow_intervals >= SLOW_INTERVALS_MAX:
                in_time = ANSWER_S_MAX * self._answers / seconds
                self._limit = max(float(LIMIT_MIN), min(self._limit, in_time))
        else:
            self._slow_intervals = 0
            if 2 * self._most_under_way >= self._limit:
                self._limit = min(float(LIMIT_MAX), _RISE_PART * self._limit)
        self._begin_interval()
