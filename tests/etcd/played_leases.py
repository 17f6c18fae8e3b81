"""An etcd in memory with leases, by a clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quorate.adapters.etcd.etcd_requests import Put, Txn, TxnAnswer
from quorate.ports.errors import NotLeaderError, StoreDownError
from tests.etcd.played_etcd import Fate, PlayedEtcd


@dataclass(slots=True)
class PlayedLeases(PlayedEtcd):
    """A ``PlayedEtcd`` with leases, by a clock that all its callers share."""

    now_s: float = 0.0
    leases: dict[int, float] = field(default_factory=dict)
    leased: dict[bytes, int] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)

    def carry_out(self, txn: Txn) -> TxnAnswer:
        self.expire()
        wanted = [each.lease for each in txn.then if isinstance(each, Put) and each.lease]
        if any(lease not in self.leases for lease in wanted):
            raise NotLeaderError("played: no such lease")
        answer = PlayedEtcd.carry_out(self, txn)
        if answer.held:
            for each in txn.then:
                if isinstance(each, Put) and each.lease:
                    self.leased[each.key] = each.lease
        return answer

    def grant(self, ttl_s: int, *, within_s: float | None = None) -> int:
        del within_s
        lease = len(self.lengths) + 1
        self.lengths[lease] = ttl_s
        self._heard(lambda: self.leases.update({lease: self.now_s + ttl_s}))
        return lease

    def keep_alive(self, lease: int, within_s: float) -> int:
        assert within_s > 0
        self.expire()
        if lease not in self.leases:
            raise NotLeaderError("played: the lease has run out")
        ttl_s = self.lengths[lease]
        self._heard(lambda: self.leases.update({lease: self.now_s + ttl_s}))
        return ttl_s

    def revoke(self, lease: int) -> None:
        self._heard(lambda: self.leases.update({lease: self.now_s}))
        self.expire()

    def expire(self) -> None:
        for lease in [each for each, end_s in self.leases.items() if end_s <= self.now_s]:
            del self.leases[lease]
            for key in [each for each, of in self.leased.items() if of == lease]:
                del self.leased[key]
                self.rows.pop(key, None)
                self.revision += 1

    def _heard(self, do: Callable[[], object]) -> None:
        fate = next(self.fates, Fate.ANSWERED)
        if fate in (Fate.ANSWERED, Fate.ANSWER_LOST):
            do()
        if fate is not Fate.ANSWERED:
            raise StoreDownError("played: no answer")
