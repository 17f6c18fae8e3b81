"""Plans, as a decision may read them: firm starts, conflicts, loans and caches of planning."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Protocol

from quorate.model.events import ConflictDeferred, LoanRecalled
from quorate.model.state.expected_ends import Ends
from quorate.model.state.line_ranks import LineRanks
from quorate.model.state.records import (
    AnnouncedConflict,
    ConflictRecord,
    Lease,
    Lottery,
    ReservationRecord,
)
from quorate.model.state.room_index import RoomIndex


class PlanView(Protocol):
    """Firm starts and conflicts, and cached results of planning."""

    @property
    def lottery(self) -> Lottery:
        """The committed hash chain, and how far it has been revealed."""
        ...

    @property
    def reservations(self) -> Mapping[str, ReservationRecord]:
        """The firm starts, in the order in which they were made."""
        ...

    @property
    def conflicts(self) -> Mapping[str, ConflictRecord]:
        """Every conflict ever declared, in order."""
        ...

    @property
    def open_conflicts(self) -> Mapping[str, None]:
        """The conflicts that are not settled yet."""
        ...

    @property
    def disruption(self) -> Mapping[tuple[str, str], tuple[int, int]]:
        """The last charge of the disruption account, by owner and pool.

        Each entry has the GPU-ms that the account lacked to be full after the charge, and the
        instant of the charge.
        """
        ...

    @property
    def deferred(self) -> Mapping[str, ConflictDeferred]:
        """The waiting runs that may not start by a conflict yet, and until when."""
        ...

    @property
    def announced(self) -> Mapping[str, AnnouncedConflict]:
        """The announcements of planned conflicts, by reservation."""
        ...

    @property
    def barred(self) -> Mapping[str, int]:
        """The owners that may not call a conflict, and until when."""
        ...

    @property
    def backfilled(self) -> Mapping[str, None]:
        """The runs with bundles that must end when a reservation needs their room."""
        ...

    @property
    def recalls(self) -> Mapping[tuple[str, int], LoanRecalled]:
        """The bundles, by run and number, that a lender has recalled and that still run."""
        ...

    @property
    def lifted(self) -> Mapping[str, Lease]:
        """The leases that a trial has removed; their payers' commitments stay."""
        ...

    @property
    def line_ranks(self) -> LineRanks:
        """Lines of waiting runs (pool, owner, flavors) in queue order.

        Lines are ranked when the order is read.
        """
        ...

    @property
    def ends_cache(self) -> Ends:
        """The ends of leases computed so far; if a lease changes, its ends are computed again."""
        ...

    @property
    def room_index(self) -> RoomIndex:
        """The domains that runs may use, and when leases leave enough GPUs free in each."""
        ...

    @property
    def ask_cache(self) -> dict[Hashable, object]:
        """Cached results of planning about the requests of waiting runs.

        The results are dropped when a budget, an owner, a pool or a node changes.
        """
        ...
