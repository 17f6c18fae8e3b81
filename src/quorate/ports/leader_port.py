"""The leader port: one of the programs that serve a ledger leads, and the others know which one.

A store that several services share lets each of them become the leader. The leader appends; blocks
of the others are refused. A term is a number that every election raises by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from quorate.ledger.chain import Head


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """The leader's name, its addresses for REST and gRPC, and its term.

    ``grpc`` is empty if it serves REST only.
    """

    name: str
    address: str
    term: int
    grpc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """A service of a ledger: its name, its address, and its version."""

    name: str
    address: str
    grpc: str = ""
    version: str = ""


class Membership(Protocol):
    """The entry of a service in the list of its ledger's services, until it is closed."""

    def close(self) -> None:
        """Remove the entry."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """The status of one service of a ledger: ``leader`` is the name of the leader.

    ``sequence`` is the last event that the service has, and ``lag_ms`` how old its state may be. A
    service that has its ledger to itself ``is_alone``.
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
    """The operations of an operator on the services of one ledger; for the ledger's thread."""

    def status(self) -> QuorumStatus:
        """Return the status of this service."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return the services that gave a sign of life lately, by name; none if it is alone."""
        ...

    def step_down(self) -> None:
        """Give up the leadership; this service becomes a candidate again after a while."""
        ...


class Candidacy(Protocol):
    """A candidate for the leadership; safe to use from every thread."""

    @property
    def leader(self) -> LeaderRecord | None:
        """The leader as this candidate knows it, which may be itself; None while there is none."""
        ...

    @property
    def term(self) -> int:
        """The term in which this candidate may act as the leader now; 0 if it may not."""
        ...

    def left_s(self, term: int) -> float:
        """Return how long this candidate may act as the leader of ``term`` from now on, or 0."""
        ...

    def start(self) -> None:
        """Stand for leader from now on."""
        ...

    def step_down(self) -> None:
        """Give up the leadership, and become a candidate again after a while."""
        ...

    def close(self) -> None:
        """Stand no longer; another candidate can win at once."""
        ...


@runtime_checkable
class MovedStore(Protocol):
    """The methods of a store that several programs may write, for moving its ledger elsewhere."""

    def check_unserved(self) -> None:
        """Raise ``LedgerServedError`` if services have this ledger at present."""
        ...

    def mark_moved(self, head: Head, target: str) -> None:
        """Let no program append from now on: the ledger, up to ``head``, is at ``target``.

        Raises a ``StoreError`` if the ledger does not end at ``head``, or a service leads.
        """
        ...


@runtime_checkable
class LedStore(Protocol):
    """The methods of a store, other than those for blocks, for several services with one leader."""

    def wait_for(self, seq: int, *, within_s: float) -> Head:
        """Return the head as soon as the log has event ``seq``; at the latest after ``within_s``.

        Safe from every thread. Raises a ``StoreError`` if the head is not known.
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

    def act_within(self, left_s: Callable[[], float] | None) -> None:
        """From now on let calls for blocks last no longer than ``left_s`` returns.

        Once that is 0, they raise ``NotLeaderError`` at once, without asking the servers of the
        store. With None they last as long as they need. ``wait_for`` and ``look_at_head`` have
        limits of their own.
        """
        ...

    def join(self, member: MemberRecord) -> Membership:
        """Add ``member`` to the services of this ledger, until the returned entry is closed."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return the services of this ledger that gave a sign of life lately, by name."""
        ...
