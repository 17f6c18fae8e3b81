"""Limits the requests for the ledger by how many are answered per second.

Requests above the limit are rejected before they are read, which costs little, so that an
overloaded service keeps its throughput. The rate of answers is measured in intervals in which
requests wait all the time. The highest rate of the last few intervals counts, so that one long
commit changes nothing. The limit is the number of requests that are answered at this rate in
``ANSWER_S_MAX``; while the event loop is behind, the limit is half as high. The measurements are
dropped when no request has been under way for ``FORGET_S``.

One tenant may have half of the limit at most, and one caller a quarter. So during a burst of one
tenant, requests of other tenants are still admitted, and tenants take turns. While the loop is
behind, at most half of a tenant's share counts towards the limit, so that other tenants are still
admitted.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Final

from quorate.operations.caller import Caller, Role
from quorate.service.limits.loop_rests import LoopRests
from quorate.service.limits.tenant_shares import OF_TENANT_PART, Share, Shares
from quorate.service.metrics.metric_table import READ, UNREAD
from quorate.service.problem_json import problem
from quorate.views.exits import CommandError
from quorate.views.statuses import UNAVAILABLE

_LOG = logging.getLogger(__name__)

ANSWER_S_MAX: Final = 1.0
"""How long an answer may take: the limit is the number of requests answered in this time."""
INTERVAL_S: Final = 0.5
"""The shortest interval in which responses are counted."""
INTERVALS: Final = 3
"""How many intervals are remembered; the highest of their rates counts.

The rate is unknown until ``INTERVALS`` intervals were measured.
"""
WAITING_MIN: Final = 32
"""An interval counts only if at least ``WAITING_MIN`` requests were under way all the time."""
FORGET_S: Final = 10.0
"""The measurements are dropped when no request has been under way for ``FORGET_S``."""
LIMIT_MIN: Final = 128
"""The lowest limit, however long answers take."""
LIMIT_FIRST: Final = 512
"""The limit while the rate of answers is unknown."""
BEHIND_PART: Final = 2
"""The limit is divided by ``BEHIND_PART`` while the event loop is behind."""
LIMIT_MAX: Final = 4_096
"""The highest limit: as many requests as may wait for the ledger."""
TOLD_S: Final = 1.0


class Admission:
    """Admits requests for the ledger; for the event loop only. ``now_s`` is a monotonic clock.

    ``shed`` is called with the stage of each rejected request: unread, or read. ``rests`` has the
    pauses of the event loop.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = monotonic,
        *,
        shed: Callable[[str], None] = lambda _: None,
        rests: LoopRests | None = None,
    ) -> None:
        self._now_s = now_s
        self._shed = shed
        self._shares = Shares(_share(LIMIT_FIRST))
        self._least_under_way = 0
        self._began_s = 0.0
        self._answers = 0
        self._rates: deque[float] = deque(maxlen=INTERVALS)
        self._idle_s = 0.0
        self._coming = 0
        self._coming_of: Counter[str] = Counter()
        self._turned_away = 0
        self._told_s = 0.0
        self.rests = LoopRests() if rests is None else rests

    @property
    def trouble(self) -> str:
        """Why no tenant's request is admitted; empty while some tenant's requests are admitted."""
        if not self._shares.trouble:
            return ""
        return f"{self._shares.open} requests are under way, as many as can be answered in time"

    @property
    def is_crowded(self) -> bool:
        """Whether some callers may be rejected now."""
        return self._shares.open + self._coming >= self._shares.share.of_one_max

    @property
    def is_full(self) -> bool:
        """Whether the requests of all callers except admins are rejected now."""
        taken, most = self._shares.open + self._coming, self._shares.share.most
        if taken >= most:
            return True
        most //= BEHIND_PART
        if taken < most or not self.rests.is_behind:
            return False
        of_tenant = self._shares.most_of_tenant + max(self._coming_of.values(), default=0)
        beyond = max(0, of_tenant - most // OF_TENANT_PART)
        return taken - beyond >= most

    def turned_away(self, error: CommandError) -> None:
        """Count a request that was rejected unread; the number is logged at most once a second."""
        self._shed(UNREAD)
        self._turned_away += 1
        if self._now_s() >= self._told_s + TOLD_S:
            _LOG.warning("%d requests were rejected unread: %s", self._turned_away, error)
            self._turned_away, self._told_s = 0, self._now_s()

    def coming(self, tenant: str) -> Callable[[], None]:
        """Count a request that has fully arrived; return a function that ends the counting.

        Call that function when the request is ``taken`` or ends; further calls have no effect. Many
        requests may arrive before the first of them is taken, and all of them must fit into the
        limit. ``tenant`` is the tenant that the request claims, before authentication; it is empty
        if the tenant is unknown. Requests above one tenant's share are not counted, and are
        rejected after authentication.
        """
        of_tenant = self._shares.open_of(tenant) + self._coming_of[tenant]
        is_counted = of_tenant < self._shares.share.of_tenant_max
        if is_counted:
            self._coming += 1
            self._coming_of[tenant] += 1

        def over() -> None:
            nonlocal is_counted
            if is_counted:
                is_counted = False
                self._coming -= 1
                self._coming_of[tenant] -= 1
                if not self._coming_of[tenant]:
                    del self._coming_of[tenant]

        return over

    def unread_refusal(self, caller: Caller) -> CommandError | None:
        """Return why a request of ``caller`` is rejected unread; None if it is not rejected."""
        if caller.role is Role.ADMIN:
            return None
        if self.is_full:
            return _FULL
        try:
            self._shares.check(caller)
        except CommandError as error:
            return error
        return None

    def check(self, caller: Caller) -> None:
        """Raise ``CommandError`` if too many requests are under way to admit another of ``caller``.

        Admins are always admitted, so that they can repair the situation.
        """
        if caller.role is Role.ADMIN:
            return
        try:
            self._shares.check(caller)
        except CommandError:
            self._shed(READ)
            raise

    @contextmanager
    def taken(self, caller: Caller) -> Iterator[None]:
        """Count a request of ``caller`` until it is answered; raises like ``check``.

        Enter this context once the whole request has arrived: a request that a client sends slowly
        does not wait for the ledger. A refusal counts as an answer; a cancelled request does not.
        """
        self.check(caller)
        if not self._shares.open:
            if self._now_s() >= self._idle_s + FORGET_S:
                self._rates.clear()
                self._shares.share = _share(LIMIT_FIRST)
            self._begin_interval()
        self._shares.count(caller)
        is_answered = True
        try:
            yield
        except CancelledError:
            is_answered = False
            raise
        finally:
            if is_answered:
                self._answered()
            self._shares.give_back(caller)
            self._least_under_way = min(self._least_under_way, self._shares.open)
            self._idle_s = self._now_s()

    def _begin_interval(self) -> None:
        self._began_s = self._now_s()
        self._answers = 0
        self._least_under_way = self._shares.open

    def _answered(self) -> None:
        self._answers += 1
        seconds = self._now_s() - self._began_s
        if seconds < INTERVAL_S:
            return
        if self._least_under_way >= WAITING_MIN:
            self._rates.append(self._answers / seconds)
            if len(self._rates) == INTERVALS:
                in_time = int(ANSWER_S_MAX * max(self._rates))
                self._shares.share = _share(min(LIMIT_MAX, max(LIMIT_MIN, in_time)))
        self._begin_interval()


_FULL: Final = problem(UNAVAILABLE, "too many requests are under way; try again later")
"""The refusal is made once, because a rejection must be cheap."""


def _share(limit: int) -> Share:
    """Return the usual limits of callers if all together may have ``limit`` requests.

    Nothing is reserved for admins, because they may exceed the limit.
    """
    return replace(Share.of_all(limit, "requests for the ledger"), kept=0)
