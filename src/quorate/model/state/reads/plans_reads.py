"""What a decision may read of plans: firm starts, conflicts, loans and what was derived."""

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
    """Firm starts and conflicts, and what planning has worked out."""

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
        """By owner and pool, what a disruption account lacked (GPU-ms) when last charged (ms)."""
        ...

    @property
    def deferred(self) -> Mapping[str, ConflictDeferred]:
        """The waiting runs that cannot be started by a conflict yet, and until when."""
        ...

    @property
    def announced(self) -> Mapping[str, AnnouncedConflict]:
        """By reservation, what was announced of the conflicts that are planned."""
        ...

    @property
    def barred(self) -> Mapping[str, int]:
        """Owners that may not call a conflict, and until when."""
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
        """Leases that a trial has lifted, and whose payers keep their promises."""
        ...

    @property
    def line_ranks(self) -> LineRanks:
        """The lines of waiting runs by their ranks, as far as they were read."""
        ...

    @property
    def ends_cache(self) -> Ends:
        """Expected ends found so far; what a lease has part in is dropped when it changes."""
        ...

    @property
    def room_index(self) -> RoomIndex:
        """Where runs may go, and when leases leave enough there, as far as it was read."""
        ...

    @property
    def ask_cache(self) -> dict[Hashable, object]:
        """What planning computed about waiting runs' requests, while its basis is unchanged.

        Dropped when a budget, an owner, a pool or a node changes.
        """
        ...
