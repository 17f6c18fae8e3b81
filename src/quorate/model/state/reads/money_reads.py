"""What a decision may read about money: budgets, accounts and holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from quorate.model.events import Tier
from quorate.model.specs import (
    Budget,
    CapId,
    EnvelopeId,
)
from quorate.model.state.records import (
    CapAccount,
    EnvelopeAccount,
)

Payers = tuple[tuple[EnvelopeId, Tier], ...]
"""Envelopes that may pay for an owner's work in one flavor, in cover order."""


class Family(Struct, frozen=True, gc=False):
    """The payers of a family; ``by_rack`` is true if the selector of a payer names racks."""

    payers: Payers
    by_rack: bool


class MoneyView(Protocol):
    """Budgets, accounts of envelopes and caps, and holds."""

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """Budgets by name."""
        ...

    @property
    def owner_budgets(self) -> Mapping[str, tuple[str, ...]]:
        """The budgets of each owner, sorted."""
        ...

    @property
    def lenders(self) -> Mapping[str, tuple[EnvelopeId, ...]]:
        """The envelopes that lend, by flavor, in the order in which a cover tries them."""
        ...

    @property
    def envelopes(self) -> Mapping[EnvelopeId, EnvelopeAccount]:
        """Accounts of envelopes, retired ones included."""
        ...

    @property
    def caps(self) -> Mapping[CapId, CapAccount]:
        """Accounts of caps, retired ones included."""
        ...

    @property
    def family_cache(self) -> dict[tuple[str, str], Family]:
        """Cached families, by owner and flavor; dropped when a budget or an owner changes."""
        ...

    def window_opened(self, after_ms: int, now_ms: int) -> bool:
        """Return whether the window of some envelope began after ``after_ms``, up to ``now_ms``."""
        ...

    def next_opening_ms(self, after_ms: int) -> int | None:
        """Return when the first window after ``after_ms`` begins; None if none begins."""
        ...

    def may_hold_be_due(self, now_ms: int, *, has_executor: bool) -> bool:
        """Return False if no hold is due by ``now_ms``, and True if one may be due."""
        ...

    def holds_due(self) -> list[tuple[int, str]]:
        """Return the heap of (instant of the renewal, lease) for all holds.

        A hold has to be renewed one grace period before its end. The heap may have outdated
        entries.
        """
        ...

    def holds_ending(self) -> list[tuple[int, str]]:
        """Return the heap of (end of the hold, lease). A caller may drop outdated entries."""
        ...


def with_capped(view: MoneyView, payers: Collection[EnvelopeId]) -> Collection[EnvelopeId]:
    """Return ``payers``, and all other envelopes under the caps of these payers."""
    caps = {cap for payer in payers for cap in view.envelopes[payer].caps}
    if not caps:
        return payers
    return {*payers, *(key for cap in caps for key in cap_members(view, cap))}


def cap_members(view: MoneyView, cap: CapId) -> list[EnvelopeId]:
    """Return the envelopes under ``cap``."""
    budget = cap.partition("/")[0]
    return [
        key
        for line in view.budgets[budget].envelopes
        if cap in view.envelopes[key := EnvelopeId(f"{budget}/{line.name}")].caps
    ]
