"""The quorum commands of an operator: the status of the services of one ledger, and step-down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.loop.engine import Engine
from quorate.ports.leader_port import LedStore, MemberRecord, QuorumStatus
from quorate.service.quorum.leader_role import LeaderRole


@dataclass(frozen=True, slots=True)
class ServiceQuorumControl:
    """Implements ``QuorumControl``; ``role`` is None if no other service shares the ledger."""

    engine: Engine
    role: LeaderRole | None
    name: str
    lag_s: float

    def status(self) -> QuorumStatus:
        """Return the role of this service among the services of its ledger."""
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
        """Return the services of the ledger, by name; empty if this service is the only one."""
        store = self.engine.store
        return store.members() if self.role is not None and isinstance(store, LedStore) else ()

    def step_down(self) -> None:
        """Step down in favour of another service."""
        assert self.role is not None, "a service without others is refused earlier"
        self.role.resign()
