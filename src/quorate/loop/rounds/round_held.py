"""What a row has of a flavor already, and would keep if it were chosen for it again."""

from __future__ import annotations

from quorate.core.rounds.round_placement import is_sound
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView
from quorate.policy.rounds.round_book import Row


def kept_leases(view: StateView, row: Row, flavor: str) -> list[Lease]:
    """Return the leases that a row keeps if it stays; empty where it has none that it can keep.

    Of a pair, the run that is first by name has the leases, and the pair must be the same as
    before.
    """
    record = view.runs[min(row)]
    if not record.leases or not is_sound(view, record, flavor):
        return []
    leases = [view.leases[name] for name in record.leases]
    partner = max(row) if len(row) > 1 else None
    return leases if all(lease.fact.partner == partner for lease in leases) else []
