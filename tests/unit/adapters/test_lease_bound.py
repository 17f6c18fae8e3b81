"""Calls of a leader to etcd: none lasts longer than its lease, and none is sent after it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from quorate.adapters.etcd.etcd_client import CALL_S, REPEAT_S
from quorate.adapters.etcd.etcd_requests import Get, Row, Txn, TxnAnswer
from quorate.adapters.etcd.lease_bound import LeaseBound
from quorate.ports.errors import NotLeaderError, StoreDownError

ASKED = Get(b"key")
TXN = Txn(compare=(), then=())
ROW = Row(b"key", b"value", 1, 1)
LEASE, TTL_S = 7, 3


@dataclass
class HungEtcd:
    """An etcd whose members all hang from call number ``hangs_from`` on.

    A call takes all of its time limit, by ``now_s``; ``limits`` has the limit of each call.
    """

    now_s: float = 0.0
    until_s: float = 2.5
    hangs_from: int = 0
    limits: list[float | None] = field(default_factory=list)

    def get(self, asked: Get, *, within_s: float | None = None) -> tuple[Row, ...]:
        assert asked == ASKED
        self._wait(within_s)
        return (ROW,)

    def commit(self, txn: Txn, *, within_s: float | None = None) -> TxnAnswer:
        assert txn == TXN
        self._wait(within_s)
        return TxnAnswer(held=True, revision=2, rows=())

    def grant(self, ttl_s: int, *, within_s: float | None = None) -> int:
        assert ttl_s == TTL_S
        self._wait(within_s)
        return LEASE

    def keep_alive(self, lease: int, within_s: float) -> int:
        assert lease == LEASE
        self._wait(within_s)
        return TTL_S

    def left_s(self) -> float:
        return max(0.0, self.until_s - self.now_s)

    def _wait(self, within_s: float | None) -> None:
        self.limits.append(within_s)
        if len(self.limits) > self.hangs_from:
            self.now_s += REPEAT_S if within_s is None else within_s
            raise StoreDownError("played: no answer")


def bound(etcd: HungEtcd) -> LeaseBound:
    made = LeaseBound(etcd, lambda: etcd.now_s)
    made.bind(etcd.left_s)
    return made


def test_a_read_ends_with_the_lease_and_the_next_ones_are_not_sent() -> None:
    etcd = HungEtcd()
    calls = bound(etcd)
    with pytest.raises(NotLeaderError):
        calls.get(ASKED)
    assert (etcd.limits, etcd.now_s) == ([2.5], 2.5)
    with pytest.raises(NotLeaderError):
        calls.get(ASKED, within_s=2.0)
    with pytest.raises(NotLeaderError):
        calls.commit(TXN)
    with pytest.raises(NotLeaderError):
        calls.grant(TTL_S)
    with pytest.raises(NotLeaderError):
        calls.keep_alive(LEASE, 1.0)
    assert len(etcd.limits) == 1


def test_a_transaction_ends_with_the_lease_and_may_be_recorded() -> None:
    etcd = HungEtcd(now_s=1.0)
    with pytest.raises(StoreDownError):
        bound(etcd).commit(TXN)
    assert etcd.limits == [1.5]


def test_a_read_goes_on_at_another_member_while_the_lease_is_renewed() -> None:
    etcd = HungEtcd(until_s=1e6)
    with pytest.raises(StoreDownError):
        bound(etcd).get(ASKED)
    assert etcd.limits == [CALL_S] * 2
    assert etcd.now_s == REPEAT_S


def test_a_program_that_does_not_lead_waits_as_long_as_it_needs() -> None:
    etcd = HungEtcd(until_s=0.0, hangs_from=4)
    calls = bound(etcd)
    calls.bind(None)
    assert calls.get(ASKED) == (ROW,)
    assert calls.get(ASKED, within_s=7.0) == (ROW,)
    assert calls.commit(TXN).held
    assert etcd.limits == [None, 7.0, CALL_S]


def test_a_lease_is_granted_and_renewed_within_the_shorter_of_two_limits() -> None:
    etcd = HungEtcd(hangs_from=3)
    calls = bound(etcd)
    assert calls.grant(TTL_S) == LEASE
    assert calls.keep_alive(LEASE, 1.0) == TTL_S
    assert calls.keep_alive(LEASE, 9.0) == TTL_S
    assert etcd.limits == [2.5, 1.0, 2.5]
