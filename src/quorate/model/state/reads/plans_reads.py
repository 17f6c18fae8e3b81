"""What a decision may read about plans: firm starts, conflicts, loans, cached results."""

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
        """The committed hash chain, and which links of the chain have been revealed."""
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

        An entry has two values: how many GPU-ms were missing from a full account after the charge,
        and the instant of the charge.
        """
        ...

    @property
    def deferred(self) -> Mapping[str, ConflictDeferred]:
        """The waiting runs that may not start by a conflict yet; each event says until when."""
        ...

    @property
    def announced(self) -> Mapping[str, AnnouncedConflict]:
        """The announcements of planned conflicts, by reservation."""
        ...

    @property
    def barred(self) -> Mapping[str, int]:
        """The owners that may not call a conflict, and until which instant."""
        ...

    @property
    def backfilled(self) -> Mapping[str, None]:
        """The runs that have bundles which started as backfill."""
        ...

    @property
    def recalls(self) -> Mapping[tuple[str, int], LoanRecalled]:
        """The recalled bundles that still run, by run and number of the bundle."""
        ...

    @property
    def lifted(self) -> Mapping[str, Lease]:
        """The leases that a trial has removed; the payers' commitments for these leases stay."""
        ...

    @property
    def line_ranks(self) -> LineRanks:
        """The lines of waiting runs, (pool, owner, flavors), in the order of the queue.

        Lines are ranked when the order is read.
        """
        ...

    @property
    def ends_cache(self) -> Ends:
        """Cached ends of leases; after a change of a lease, its ends are computed again."""
        ...

    @property
    def room_index(self) -> RoomIndex:
        """The domains that runs may use, and when leases leave enough GPUs in each domain."""
        ...

    @property
    def ask_cache(self) -> dict[Hashable, object]:
        """Cached results of planning that concern the requirements of waiting runs.

        The results are dropped when a budget, an owner, a pool or a node changes.
        """
        ...
