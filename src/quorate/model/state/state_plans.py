"""The state of plans: firm starts, conflicts and loans, and cached results of planning."""

from __future__ import annotations

from collections.abc import Hashable

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
from quorate.model.state.tables import Table


class PlanState:
    """Firm starts and announcements, and caches of planning, which are dropped when outdated."""

    __slots__ = (
        "_line_ranks",
        "announced",
        "ask_cache",
        "backfilled",
        "barred",
        "conflicts",
        "deferred",
        "disruption",
        "ends_cache",
        "lifted",
        "lottery",
        "open_conflicts",
        "recalls",
        "reservations",
        "room_index",
    )

    def __init__(self) -> None:
        self.lottery = Lottery()
        self.reservations: Table[str, ReservationRecord] = Table()
        self.conflicts: Table[str, ConflictRecord] = Table()
        self.open_conflicts: Table[str, None] = Table()
        self.disruption: Table[tuple[str, str], tuple[int, int]] = Table()
        self.deferred: Table[str, ConflictDeferred] = Table()
        self.announced: Table[str, AnnouncedConflict] = Table()
        self.barred: Table[str, int] = Table()
        self.backfilled: Table[str, None] = Table()
        self.recalls: Table[tuple[str, int], LoanRecalled] = Table()
        # The leases that a trial has removed for its duration; always empty in the owned state.
        self.lifted: dict[str, Lease] = {}
        self.ends_cache = Ends()
        self.room_index = RoomIndex()
        self.ask_cache: dict[Hashable, object] = {}
        self._line_ranks = LineRanks()

    def ends_changed(self) -> None:
        """Forget the cached expected ends, and the results about room that depend on them."""
        self.ends_cache = Ends()
        self.room_index = RoomIndex()
        self.ask_cache = {}

    def ranks_changed(self) -> None:
        """Forget the ranks of all lines, because values that they depend on have changed."""
        self._line_ranks = LineRanks()
