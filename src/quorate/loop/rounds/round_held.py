"""The leases that each row (a run or a pair) keeps if it is chosen again for its flavor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from quorate.core.rounds.round_placement import is_sound
from quorate.loop.rounds.round_snapshot import Member
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView
from quorate.policy.rounds.round_book import Row


class _Held(NamedTuple):
    """The flavor of the GPUs that a row has now, and the leases that the row would keep."""

    flavor: str
    leases: list[Lease]


_NOTHING: Final = _Held("", [])


class HeldLeases:
    """The leases that rows of one round would keep; the leases of each row are looked up once.

    ``members`` are all runs of the rows, by name; ``holders`` are the members that have leases.
    """

    def __init__(self, view: StateView, members: Mapping[str, Member]) -> None:
        self._view = view
        self._members = members
        self._known: dict[Row, _Held] = {}
        self.holders = frozenset(name for name, each in members.items() if each.record.leases)

    def of(self, row: Row, flavor: str) -> list[Lease]:
        """Return the leases that a row keeps if it gets ``flavor`` again; may be empty.

        In a pair, the run whose name comes first has the leases. A pair keeps leases only if the
        same two runs already share them.
        """
        found = self._held(row)
        return found.leases if found.flavor == flavor else _NOTHING.leases

    def may_stay_on(self, row: Row) -> str:
        """Return the flavor of a row's GPUs if the row can release them within one round; else "".

        A run whose grace is longer than a round would still keep its GPUs in a round that gives
        them to other runs.
        """
        found = self._held(row)
        if not found.leases:
            return ""
        round_ms = self._view.pools[self._members[row[0]].record.spec.pool].round_ms
        return found.flavor if all(each.grace_ms <= round_ms for each in found.leases) else ""

    def _held(self, row: Row) -> _Held:
        """Return the leases that ``row`` has and may keep."""
        record = self._members[min(row) if len(row) > 1 else row[0]].record
        if not record.leases:
            return _NOTHING
        found = self._known.get(row)
        if found is None:
            found = self._known[row] = self._found(row, record)
        return found

    def _found(self, row: Row, record: RunRecord) -> _Held:
        view = self._view
        leases = [view.leases[name] for name in record.leases]
        flavor = view.envelopes[leases[0].fact.payer].spec.flavor
        partner = max(row) if len(row) > 1 else None
        if not is_sound(view, record, flavor):
            return _NOTHING
        is_same = all(lease.fact.partner == partner for lease in leases)
        return _Held(flavor, leases) if is_same else _NOTHING
