"""What a service reports about the age of its answers, and about the leader."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from msgspec import Struct

from quorate.operations.answered_by import Place, place_of
from quorate.operations.operation import Operation
from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.forwarding import LAG_MS, SEQUENCE

_MS = 1_000


def lag_ms(ledger_thread: LedgerThread) -> int:
    """Return the greatest possible age of the state in milliseconds; 0 if this service leads."""
    return round(ledger_thread.lag_s * _MS)


class KnownState(Protocol):
    """The state that answers are made from, as the event loop of a service knows it."""

    @property
    def recorded_seq(self) -> int:
        """The sequence number of the event up to which the state is complete."""
        ...

    @property
    def whole_s(self) -> float:
        """When the state last had all events of the ledger, by the monotonic clock."""
        ...

    @property
    def read_s(self) -> float:
        """When an answer of the store last showed that the state has all events of the ledger."""
        ...

    @property
    def held_term(self) -> int:
        """The term in which the service holds the leader's lease now; 0 if it has no lease."""
        ...

    @property
    def is_led(self) -> bool:
        """Whether the services of the ledger elect a leader."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """The freshness of the state when an answer was begun.

    The state had the events up to ``seq``; ``whole_s`` is when the state last had all events of the
    ledger. ``term`` is the term in which the service held the leader's lease at the beginning; 0 if
    it did not lead. For a read, ``term`` is also 0 if etcd did not confirm that the state is
    complete.
    """

    seq: int
    whole_s: float
    term: int


def begun(known: KnownState, *, is_confirmed: bool = True) -> Begun:
    """Return the present freshness, for an answer that is about to be made.

    For a read, ``is_confirmed`` says whether the state certainly has all events that were recorded
    before the read arrived.
    """
    if not is_confirmed:
        return Begun(seq=known.recorded_seq, whole_s=known.read_s, term=0)
    return Begun(seq=known.recorded_seq, whole_s=known.whole_s, term=known.held_term)


async def confirmed(ledger_thread: LedgerThread, operation: Operation, asked: Struct) -> bool:
    """Return whether etcd has confirmed the state, or ``asked`` needs no confirmation.

    A command needs no confirmation: it is recorded, or refused, at the end of the ledger.
    """
    is_read = place_of(operation, asked) not in (Place.AT_ONCE, Place.WRITER)
    return not is_read or await ledger_thread.is_confirmed()


def freshness(known: KnownState, before: Begun, *, is_order: bool) -> list[tuple[str, str]]:
    """Return the headers on the age of an answer; ``before`` is the freshness when it was begun.

    No lag is stated if the data is no older than the request. There are two such cases. In the
    first case, the service is the only service of its ledger. In the second case, the service has
    led since the answer was begun and, for a read, etcd has confirmed the state. In both cases the
    answer to a read includes all events recorded before the read began, and the answer to a command
    includes the command's own events.
    """
    found = [(SEQUENCE, str(known.recorded_seq if is_order else before.seq))]
    has_led = before.term and before.term == known.held_term
    if known.is_led and not has_led:
        lag_s = max(0.0, monotonic() - before.whole_s)
        found.append((LAG_MS, str(round(lag_s * _MS))))
    return found


def standing_tree(ledger_thread: LedgerThread) -> dict[str, object]:
    """Return the role of this service among the services of its ledger."""
    found, leads = ledger_thread.leadership, ledger_thread.may_decide
    # A service whose lease has expired, but which has not stepped down yet, knows of no leader.
    is_known = found.leader is not None and found.leads == leads
    return {
        "name": ledger_thread.own_name,
        "role": "leader" if leads else "follower",
        "term": found.term,
        "leader": found.leader.name if found.leader is not None and is_known else "",
        "lagMs": lag_ms(ledger_thread),
    }
