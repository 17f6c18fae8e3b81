"""What an operator is shown of the services of one ledger, and has the leader do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.loop.engine import Engine
from quorate.ports.leader_port import LedStore, MemberRecord, QuorumStatus
from quorate.service.quorum.leader_role import LeaderRole


@dataclass(frozen=True, slots=True)
class QuorumDesk:
    """The ``QuorumControl`` of one service; ``role`` is None where it has its ledger to itself."""

    engine: Engine
    role: LeaderRole | None
    name: str
    lag_s: float

    def status(self) -> QuorumStatus:
        """Return what this service is among those of its ledger."""
        seq = self.engine.head.seq
        if self.role is None:
            return QuorumStatus(
                name="", leads=True, term=0, leader="", sequence=seq, lag_ms=0, is_alone=True
            )
        found = self.role.leadership
        return QuorumStatus(
            name=self.name,
            leads=found.leads,
            term=found.term,
            leader="" if found.leader is None else found.leader.name,
            sequence=seq,
            lag_ms=round(self.lag_s * 1_000),
            why_not=found.why_not,
        )

    def members(self) -> Sequence[MemberRecord]:
        """Return the services of the ledger, by name; none where it has only this one."""
        store = self.engine.store
        return store.members() if self.role is not None and isinstance(store, LedStore) else ()

    def step_down(self) -> None:
        """Leave the leadership to another service."""
        assert self.role is not None, "a service that is alone is refused before"
        self.role.resign()
