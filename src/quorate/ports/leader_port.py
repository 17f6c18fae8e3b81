"""The leader port: one of the programs that serve a ledger leads, and the others know which one.

A store that several services share lets each of them stand for leader. The leader appends; what
the others send is refused. A term is a number that every victory raises by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from quorate.ledger.chain import Head


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """The leader's name, where it answers REST and gRPC, and its term.

    ``grpc`` is empty if it answers REST only.
    """

    name: str
    address: str
    term: int
    grpc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """A service of a ledger: its name, where it answers, and the version that it runs."""

    name: str
    address: str
    grpc: str = ""
    version: str = ""


class Membership(Protocol):
    """The entry of a service among those of its ledger, for as long as it is not closed."""

    def close(self) -> None:
        """Remove the entry."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """One service among those of its ledger: ``leader`` is the name of the one that leads.

    ``sequence`` is the last event that it has, and ``lag_ms`` how old its state may be. A service
    that has its ledger to itself ``is_alone``.
    """

    name: str
    leads: bool
    term: int
    leader: str
    sequence: int
    lag_ms: int
    why_not: str = ""
    is_alone: bool = False


class QuorumControl(Protocol):
    """What an operator reads of the services of one ledger, and does; for the ledger's thread."""

    def status(self) -> QuorumStatus:
        """Return what this service is among them."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return those that gave a sign of life lately, by name; none if it is alone."""
        ...

    def step_down(self) -> None:
        """Leave the leadership to another one; this one stands again after a while."""
        ...


class Candidacy(Protocol):
    """A program that stands for leader; safe from every thread."""

    @property
    def leader(self) -> LeaderRecord | None:
        """The leader as this candidate knows it, which may be itself; None while there is none."""
        ...

    @property
    def term(self) -> int:
        """The term in which this candidate may act as the leader now; 0 if it may not."""
        ...

    def start(self) -> None:
        """Stand for leader from now on."""
        ...

    def step_down(self) -> None:
        """Leave the leadership to another candidate, and stand again after a while."""
        ...

    def close(self) -> None:
        """Stand no longer; another candidate can win at once."""
        ...


@runtime_checkable
class LedStore(Protocol):
    """What a store offers, beside its blocks, if several services have one leader."""

    def wait_for(self, seq: int, *, within_s: float) -> Head:
        """Return the head as soon as the log has event ``seq``, or as it is after ``within_s``.

        Safe from every thread. Raises a ``StoreError`` if nothing is known of the head.
        """
        ...

    def look_at_head(self, *, within_s: float) -> Head:
        """Return the head as it is now; raises a ``StoreError`` without an answer in time.

        Safe from every thread.
        """
        ...

    def stand_for_leader(
        self,
        name: str,
        service: str,
        *,
        grpc: str = "",
        on_change: Callable[[object], None] = lambda _: None,
    ) -> Candidacy:
        """Return a candidate called ``name``, reached at ``service``; the caller starts it.

        From now on this store appends while the candidate leads, and at no other time.
        ``on_change`` is called, on a thread of the candidate, when the leader has changed.
        """
        ...

    def join(self, member: MemberRecord) -> Membership:
        """Enter ``member`` among the services of this ledger, until what is returned is closed."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return the services of this ledger that gave a sign of life lately, by name."""
        ...
