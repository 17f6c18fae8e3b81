"""The leases that each row has on a flavor, and would keep if it were chosen for it again."""

from __future__ import annotations

from quorate.core.rounds.round_placement import is_sound
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView
from quorate.policy.rounds.round_book import Row


class HeldLeases:
    """The leases that rows of one round would keep; each row is examined once."""

    def __init__(self, view: StateView) -> None:
        self._view = view
        self._known: dict[tuple[Row, str], list[Lease]] = {}

    def of(self, row: Row, flavor: str) -> list[Lease]:
        """Return the leases that a row keeps if it stays; empty if it has none it can keep.

        In a pair, the run that is first by name has the leases, and the pair must be the same as
        before.
        """
        key = (row, flavor)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._kept(row, flavor)
        return found

    def may_stay_on(self, row: Row) -> str:
        """Return the flavor of which a row has GPUs that it gives back within a round; "" for none.

        A run whose grace is longer holds its GPUs for rounds that are no longer its own.
        """
        view = self._view
        record = view.runs[min(row)]
        if not record.leases:
            return ""
        flavor = view.envelopes[view.leases[next(iter(record.leases))].fact.payer].spec.flavor
        leases = self.of(row, flavor)
        round_ms = view.pools[record.spec.pool].round_ms
        return flavor if leases and all(each.grace_ms <= round_ms for each in leases) else ""

    def _kept(self, row: Row, flavor: str) -> list[Lease]:
        view = self._view
        record = view.runs[min(row)]
        if not record.leases or not is_sound(view, record, flavor):
            return []
        leases = [view.leases[name] for name in record.leases]
        partner = max(row) if len(row) > 1 else None
        return leases if all(lease.fact.partner == partner for lease in leases) else []
