"""The leader port: one of the services of a ledger leads, and the others know which one.

If several services share a store, each of these services can become the leader. Only the leader
appends: the store refuses the blocks of other services. A term is a number that every election
increases by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from quorate.ledger.chain import Head


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """The leader's name, its addresses for REST and gRPC, and its term.

    ``grpc`` is empty if the leader serves REST only.
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
    """The status of one service of a ledger; ``leader`` is the name of the leader.

    ``sequence`` is the last event that the service has, and ``lag_ms`` is how old its state may be.
    ``is_alone`` is true for a service that has its ledger to itself.
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
    """The operations of an operator on the services of one ledger; for the ledger's thread only."""

    def status(self) -> QuorumStatus:
        """Return the status of this service."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return the services that were alive lately, by name; empty if this service is alone."""
        ...

    def step_down(self) -> None:
        """Give up the leadership; this service becomes a candidate again after a while."""
        ...


class Candidacy(Protocol):
    """A candidate for the leadership; safe to use from every thread."""

    @property
    def leader(self) -> LeaderRecord | None:
        """The leader that this candidate knows, which may be itself; None while there is none."""
        ...

    @property
    def term(self) -> int:
        """The term in which this candidate may act as the leader now; 0 if it may not."""
        ...

    def left_s(self, term: int) -> float:
        """Return for how many seconds from now this candidate may act as the leader of ``term``.

        The result is 0 if it may not.
        """
        ...

    def start(self) -> None:
        """Take part in elections from now on."""
        ...

    def step_down(self) -> None:
        """Give up the leadership, and become a candidate again after a while."""
        ...

    def close(self) -> None:
        """Withdraw from elections, so that another candidate can win at once."""
        ...


@runtime_checkable
class MovedStore(Protocol):
    """The methods that move a ledger elsewhere, in a store for several writers."""

    def check_unserved(self) -> None:
        """Raise ``LedgerServedError`` if services use this ledger at present."""
        ...

    def mark_moved(self, head: Head, target: str) -> None:
        """Refuse all appends from now on: the ledger, up to ``head``, is now at ``target``.

        Raises a ``StoreError`` if the ledger does not end at ``head``, or a service leads.
        """
        ...


@runtime_checkable
class LedStore(Protocol):
    """The additional methods of a store for several services with one leader."""

    def wait_for(self, seq: int, *, within_s: float) -> Head:
        """Return the head when the log has event ``seq``, at the latest after ``within_s`` seconds.

        Safe from every thread. Raises a ``StoreError`` if the head is not known.
        """
        ...

    def look_at_head(self, *, within_s: float) -> Head:
        """Return the present head; raises a ``StoreError`` if there is no answer in time.

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

        From now on this store appends only while the candidate leads. ``on_change`` is called, on a
        thread of the candidate, when the leader has changed.
        """
        ...

    def act_within(self, left_s: Callable[[], float] | None) -> None:
        """From now on, limit each call for blocks to the time that ``left_s`` returns.

        When that time is 0, the calls raise ``NotLeaderError`` at once, without a request to the
        servers of the store. If ``left_s`` is None, the calls have no limit. ``wait_for`` and
        ``look_at_head`` have limits of their own.
        """
        ...

    def join(self, member: MemberRecord) -> Membership:
        """Add ``member`` to the services of this ledger, until the returned entry is closed."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return the services of this ledger that were alive lately, by name."""
        ...
