"""Limits the time of the leader's calls to etcd: no call lasts longer than the leader's lease.

A leader that cannot reach etcd must release resources that the next leader needs, such as the work
folder, before the next leader wins. The leader's thread cannot do this while it waits for etcd.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from quorate.adapters.etcd.etcd_client import CALL_S, REPEAT_S
from quorate.adapters.etcd.etcd_requests import Get, KeyValues, Row, Txn, TxnAnswer
from quorate.ports.errors import NotLeaderError, StoreDownError

LEASE_OVER: Final = "etcd did not answer before the leader's lease expired"


class TimedCalls(KeyValues, Protocol):
    """The calls of etcd, each with its own time limit."""

    def commit(self, txn: Txn, *, within_s: float | None = None) -> TxnAnswer:
        """Send ``txn`` once, with the time limit ``within_s``, and return etcd's answer."""
        ...

    def grant(self, ttl_s: int, *, within_s: float | None = None) -> int:
        """Return the id of a new lease; if ``within_s`` is given, ask only one member, once."""
        ...

    def keep_alive(self, lease: int, within_s: float) -> int:
        """Renew ``lease``; raises ``NotLeaderError`` if the lease has ended."""
        ...


class LeaseBound:
    """Passes calls on to ``etcd``. After ``bind``, no call lasts longer than the leader's lease.

    While the leader still has its lease, a read that gets no answer is repeated at other members.
    When the lease is over, each call raises ``NotLeaderError`` at once, and sends nothing.
    """

    def __init__(self, etcd: TimedCalls, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._etcd = etcd
        self._clock_s = clock_s
        self._left_s: Callable[[], float] | None = None

    def bind(self, left_s: Callable[[], float] | None) -> None:
        """Limit calls from now on to the time that ``left_s`` returns; None removes the limit."""
        self._left_s = left_s

    def get(self, asked: Get, *, within_s: float | None = None) -> tuple[Row, ...]:
        """Return the rows of the range ``asked``; see ``KeyValues``."""
        if self._left_s is None:
            return self._etcd.get(asked, within_s=within_s)
        end_s = self._clock_s() + (REPEAT_S if within_s is None else 0.0)
        while True:
            limit_s = self._limit_s(CALL_S if within_s is None else within_s)
            try:
                return self._etcd.get(asked, within_s=limit_s)
            except StoreDownError:
                # The client asks another member next time.
                if self._clock_s() >= end_s:
                    raise

    def commit(self, txn: Txn) -> TxnAnswer:
        """Send ``txn`` once; see ``KeyValues``."""
        return self._etcd.commit(txn, within_s=self._limit_s(CALL_S))

    def grant(self, ttl_s: int) -> int:
        """Return the id of a new lease of etcd; see ``TurnCalls``."""
        return self._etcd.grant(ttl_s, within_s=self._limit_s(CALL_S))

    def keep_alive(self, lease: int, within_s: float) -> int:
        """Renew ``lease``; return its time to live in seconds; see ``TurnCalls``."""
        return self._etcd.keep_alive(lease, self._limit_s(within_s))

    def _limit_s(self, most_s: float) -> float:
        """Return how long a call may last; raises ``NotLeaderError`` if the lease is over."""
        if self._left_s is None:
            return most_s
        left_s = self._left_s()
        if left_s <= 0:
            raise NotLeaderError(LEASE_OVER)
        return min(most_s, left_s)
