"""What a service says about the age of its answers, and about who leads."""

from __future__ import annotations

from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.forwarding import LAG_MS, SEQUENCE

_MS = 1_000


def lag_ms(ledger_thread: LedgerThread) -> int:
    """Return how old the state may be, in whole milliseconds; 0 at a service that leads."""
    return round(ledger_thread.lag_s * _MS)


def freshness(ledger_thread: LedgerThread, seq: int) -> list[tuple[str, str]]:
    """Return the headers of an answer that includes all up to ``seq``."""
    found = [(SEQUENCE, str(seq))]
    if ledger_thread.is_led and not ledger_thread.leadership.leads:
        found.append((LAG_MS, str(lag_ms(ledger_thread))))
    return found


def standing_tree(ledger_thread: LedgerThread) -> dict[str, object]:
    """Return which part this service has beside the others of its ledger."""
    found = ledger_thread.leadership
    return {
        "name": ledger_thread.own_name,
        "role": "leader" if found.leads else "follower",
        "term": found.term,
        "leader": "" if found.leader is None else found.leader.name,
        "lagMs": lag_ms(ledger_thread),
    }
