"""What a row has of a flavor already, and would keep if it were chosen for it again."""

from __future__ import annotations

from quorate.core.round_place import is_sound
from quorate.model.records import Lease
from quorate.model.view import StateView
from quorate.policy.rounds import Row


def kept_leases(view: StateView, row: Row, flavor: str) -> list[Lease]:
    """Return the leases that a row keeps if it stays; none where it has nothing of the kind.

    The first of a pair has them, and both have to be the same as before.
    """
    run, *others = sorted(row)
    record = view.runs[run]
    if not record.leases or not is_sound(view, record, flavor):
        return []
    leases = [view.leases[name] for name in record.leases]
    partners = {lease.fact.partner for lease in leases}
    return leases if partners == {others[0] if others else None} else []
