"""What a service says about the age of its answers, and about who leads."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.forwarding import LAG_MS, SEQUENCE

_MS = 1_000


def lag_ms(ledger_thread: LedgerThread) -> int:
    """Return how old the state may be, in whole milliseconds; 0 at a service that leads."""
    return round(ledger_thread.lag_s * _MS)


class KnownState(Protocol):
    """What answers are made of, as the event loop of a service knows it."""

    @property
    def recorded_seq(self) -> int:
        """The sequence up to which the state has everything."""
        ...

    @property
    def whole_s(self) -> float:
        """When the state was all that the ledger had, by the steady clock."""
        ...

    @property
    def held_term(self) -> int:
        """The term in which the service leads at this instant, by its lease; 0 where it may not."""
        ...

    @property
    def is_led(self) -> bool:
        """Whether its ledger has a leader: other services may serve it, too."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """What a service knew when it began to answer: all up to ``seq``, which was all at ``whole_s``.

    ``term`` is the one in which it led then, by its lease; 0 where it did not.
    """

    seq: int
    whole_s: float
    term: int


def begun(known: KnownState) -> Begun:
    """Return what the service knows, for an answer that is made from now on."""
    return Begun(seq=known.recorded_seq, whole_s=known.whole_s, term=known.held_term)


def freshness(known: KnownState, before: Begun, *, is_order: bool) -> list[tuple[str, str]]:
    """Return the headers of an answer that has been made since ``before``.

    It lags, unless this service has led all the while: what the answer was made of is no older
    than the request, and no other service can have acknowledged anything meanwhile. A read includes
    what was recorded before it began, an order what it has recorded.
    """
    found = [(SEQUENCE, str(known.recorded_seq if is_order else before.seq))]
    has_led = before.term and before.term == known.held_term
    if known.is_led and not has_led:
        lag_s = max(0.0, monotonic() - before.whole_s)
        found.append((LAG_MS, str(round(lag_s * _MS))))
    return found


def standing_tree(ledger_thread: LedgerThread) -> dict[str, object]:
    """Return which part this service has beside the others of its ledger."""
    found, leads = ledger_thread.leadership, ledger_thread.may_decide
    # One whose lease is over, and which has not settled that yet, knows of no leader.
    is_known = found.leader is not None and found.leads == leads
    return {
        "name": ledger_thread.own_name,
        "role": "leader" if leads else "follower",
        "term": found.term,
        "leader": found.leader.name if found.leader is not None and is_known else "",
        "lagMs": lag_ms(ledger_thread),
    }
