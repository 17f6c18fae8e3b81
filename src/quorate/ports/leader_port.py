"""The leader port: one of the services of a ledger leads, and the other services know which one.

If several services share a store, each of them can become the leader. Only the leader appends: the
store refuses blocks from other services. The term is the number of a leader's period; every
election increases it by one.
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
    """The entry of a service in the list of its ledger's services; it stays until ``close``."""

    def close(self) -> None:
        """Remove the entry."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """The status of one service of a ledger; ``leader`` is the name of the leader.

    ``sequence`` is the last event that the service has read, and ``lag_ms`` is how far its state
    may be behind the ledger. ``is_alone`` is true if no other service can use the ledger.
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
    """The operations on a ledger's services that an operator may request.

    Only the ledger's thread may call them.
    """

    def status(self) -> QuorumStatus:
        """Return the status of this service."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return the services of the ledger that were alive lately, sorted by name.

        The result is empty if this service is the only one that can use the ledger.
        """
        ...

    def step_down(self) -> None:
        """Give up the leadership of this service, which becomes a candidate again after a while."""
        ...


class Candidacy(Protocol):
    """A candidate for the leadership. Any thread may use it."""

    @property
    def leader(self) -> LeaderRecord | None:
        """The leader as far as this candidate knows, which may be itself; None without a leader."""
        ...

    @property
    def term(self) -> int:
        """The term in which this candidate is the leader now; 0 if it is not the leader."""
        ...

    def left_s(self, term: int) -> float:
        """Return for how many seconds from now this candidate may act as the leader of ``term``.

        The result is 0 if the candidate is not the leader of this term.
        """
        ...

    def start(self) -> None:
        """Stand in elections from now on."""
        ...

    def step_down(self) -> None:
        """Give up the leadership, and become a candidate again after a while."""
        ...

    def close(self) -> None:
        """Withdraw from elections, so that another candidate can win at once."""
        ...


@runtime_checkable
class MovedStore(Protocol):
    """The methods of a store for several writers by which its ledger is moved to another store."""

    def check_unserved(self) -> None:
        """Raise ``LedgerServedError`` if services use this ledger at present."""
        ...

    def mark_moved(self, head: Head, target: str) -> None:
        """Refuse all appends from now on, because the ledger up to ``head`` is now at ``target``.

        The method raises a ``StoreError`` if the ledger does not end at ``head``, or if a service
        leads.
        """
        ...


@runtime_checkable
class LedStore(Protocol):
    """The additional methods of a store for several services with one leader."""

    def wait_for(self, seq: int, *, within_s: float) -> Head:
        """Return the head once the log has event ``seq``, but at the latest after ``within_s``.

        Any thread may call this method. It raises a ``StoreError`` if the head is not known.
        """
        ...

    def look_at_head(self, *, within_s: float) -> Head:
        """Return the present head; raise a ``StoreError`` if there is no answer in time.

        Any thread may call this method.
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
        """Return a candidate called ``name`` with the address ``service``; the caller starts it.

        From now on this store appends only while the candidate leads. When the leader has changed,
        a thread of the candidate calls ``on_change``.
        """
        ...

    def act_within(self, left_s: Callable[[], float] | None) -> None:
        """From now on, limit calls that read or append blocks to the time that ``left_s`` returns.

        If this time is 0, such a call raises ``NotLeaderError`` at once, without a request to the
        servers of the store. If ``left_s`` is None, there is no limit. ``wait_for`` and
        ``look_at_head`` are limited by their argument ``within_s`` instead.
        """
        ...

    def join(self, member: MemberRecord) -> Membership:
        """Add ``member`` to the services of this ledger, until the returned entry is closed."""
        ...

    def members(self) -> Sequence[MemberRecord]:
        """Return the services of this ledger that were alive lately, sorted by name."""
        ...
