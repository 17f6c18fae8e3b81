"""The state of money: budgets, accounts of envelopes and caps, and the ends of holds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from operator import attrgetter
from typing import Final

from quorate.model.specs import (
    Budget,
    CapId,
    EnvelopeId,
)
from quorate.model.state.reads.money_reads import Family
from quorate.model.state.records import (
    CapAccount,
    EnvelopeAccount,
    Lease,
)
from quorate.model.state.state_work import WorkState
from quorate.model.state.tables import LayeredTable, Table


class MoneyState(WorkState):
    """The amounts that owners may spend and have spent, and when each hold has to be renewed."""

    __slots__ = (
        "_below",
        "_holds_due",
        "_holds_ending",
        "_listed_end_ms",
        "_listed_renew_ms",
        "_openings",
        "budgets",
        "caps",
        "envelopes",
        "family_cache",
        "lenders",
        "owner_budgets",
    )

    def __init__(self) -> None:
        super().__init__()
        self.budgets: Table[str, Budget] = Table()
        self.owner_budgets: Table[str, tuple[str, ...]] = Table()
        self.lenders: Table[str, tuple[EnvelopeId, ...]] = Table()
        self.envelopes: Table[EnvelopeId, EnvelopeAccount] = Table()
        self.caps: Table[CapId, CapAccount] = Table()
        self.family_cache: dict[tuple[str, str], Family] = {}
        self._openings: list[int] | None = None
        self._holds_due: list[tuple[int, str]] | None = None
        self._holds_ending: list[tuple[int, str]] | None = None
        # Only overlays have these: the state below, and the earliest renewal and end of the holds
        # that the overlay has listed.
        self._below: MoneyState | None = None
        self._listed_renew_ms = self._listed_end_ms = NEVER_MS

    def window_opened(self, after_ms: int, now_ms: int) -> bool:
        """Return whether the window of some envelope began after ``after_ms``, up to ``now_ms``."""
        openings = self.openings()
        at = bisect_right(openings, after_ms)
        return at < len(openings) and openings[at] <= now_ms

    def openings(self) -> list[int]:
        """Return the instants at which windows begin, in order; cached until a budget changes."""
        if self._openings is None:
            self._openings = sorted({account.spec.start_ms for account in self.envelopes.values()})
        return self._openings

    def next_opening_ms(self, after_ms: int) -> int | None:
        """Return when the first window after ``after_ms`` begins; None if none begins."""
        openings = self.openings()
        at = bisect_right(openings, after_ms)
        return openings[at] if at < len(openings) else None

    def holds_due(self) -> list[tuple[int, str]]:
        """Return the heap of (renewal, lease) of holds; built on first use, so not in a replay.

        An outdated entry is dropped when it reaches the top of the heap.
        """
        self._index_leases()  # From now on new leases are listed here, too.
        if self._holds_due is None and self._below is not None:
            self._holds_due = self._over(self._below.holds_due(), _RENEW)
        self._holds_due = self._upheld(self._holds_due, _RENEW)
        return self._holds_due

    def holds_ending(self) -> list[tuple[int, str]]:
        """Return the heap of (end, lease) of holds, built and updated like that of renewals."""
        self._index_leases()
        if self._holds_ending is None and self._below is not None:
            self._holds_ending = self._over(self._below.holds_ending(), _END)
        self._holds_ending = self._upheld(self._holds_ending, _END)
        return self._holds_ending

    def list_hold(self, name: str, lease: Lease) -> None:
        """Add the renewal and the end of the hold of ``lease`` to those heaps that are built."""
        if self._below is not None:
            end_ms = lease.hold_ends_ms
            self._listed_end_ms = min(self._listed_end_ms, end_ms)
            self._listed_renew_ms = min(self._listed_renew_ms, end_ms - lease.grace_ms)
        if self._holds_due is not None:
            heappush(self._holds_due, (lease.renew_ms, name))
        if self._holds_ending is not None:
            heappush(self._holds_ending, (lease.hold_ends_ms, name))

    def may_hold_be_due(self, now_ms: int, *, has_executor: bool) -> bool:
        """Return whether a hold may be due by ``now_ms``.

        With an executor a hold is due at its renewal; without an executor, at its end. An overlay
        needs no heap for this answer: it checks the earliest instant of the holds that it has
        listed, even if the lease has ended, and then asks the state below.
        """
        heap = self._holds_due if has_executor else self._holds_ending
        if heap is None and self._below is not None:
            listed_ms = self._listed_renew_ms if has_executor else self._listed_end_ms
            return listed_ms <= now_ms or self._below.may_hold_be_due(
                now_ms, has_executor=has_executor
            )
        heap = self.holds_due() if has_executor else self.holds_ending()
        return bool(heap) and heap[0][0] <= now_ms

    def _over(
        self, below: list[tuple[int, str]], at_ms: Callable[[Lease], int]
    ) -> list[tuple[int, str]]:
        """Return the heap of an overlay: a copy of the heap ``below``, with the overlay's changes.

        The heap below is copied, because reading all leases through the overlay would take a
        hundred times as long.
        """
        assert isinstance(self.leases, LayeredTable), "the tables of an overlay are layered"
        heap = below.copy()
        for name, lease, was in self.leases.changed():
            if was is None or at_ms(was) != at_ms(lease):
                heappush(heap, (at_ms(lease), name))
        return heap

    def _upheld(
        self, heap: list[tuple[int, str]] | None, at_ms: Callable[[Lease], int]
    ) -> list[tuple[int, str]]:
        """Return ``heap`` with a valid entry at its top; build the heap again if necessary."""
        if heap is None or len(heap) > 2 * len(self.leases) + _OUTDATED_MAX:
            heap = [(at_ms(lease), name) for name, lease in self.leases.items()]
            heapify(heap)
        while heap:
            listed_ms, name = heap[0]
            lease = self.leases.get(name)
            if lease is not None and at_ms(lease) == listed_ms:
                break
            heappop(heap)
        return heap


_RENEW = attrgetter("renew_ms")
_END = attrgetter("hold_ends_ms")
NEVER_MS: Final = inf
_OUTDATED_MAX = 1_024
"""The heap of holds is built again if its outdated entries outnumber the leases by more than this.
"""
