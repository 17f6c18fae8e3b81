"""Limits: how much may be chosen for an owner in one round, by who pays and by quotas of runs.

What is chosen is counted as it is chosen, so that what is beyond goes to the next in turn. Whether
a grant is within them is decided where every start is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from quorate.loop.round_floor import Member
from quorate.loop.round_funds import Bound, Funds, Part, carried
from quorate.model.view import StateView
from quorate.policy.round_choice import Candidate


class Bill(NamedTuple):
    """What one choice counts for: GPUs by payer, and runs that begin, under which quotas."""

    parts: list[Part]
    begins: int
    bounds: tuple[str, ...]


class Limits:
    """What has been chosen of one round so far, by payer and by owner."""

    def __init__(self, view: StateView, members: Mapping[str, Member], funds: Funds) -> None:
        self._view = view
        self._members = members
        self._funds = funds
        self._used: dict[Bound, int] = {}
        self._runs: dict[str, int] = {}

    def bill(self, chosen: Candidate) -> Bill | None:
        """Return what one more would count for; None where payers or quotas have no room for it.

        Who pays first by the order of cover pays.
        """
        spec = self._members[chosen.row[0]].record.spec
        parts = carried(spec, self._funds.payers(spec, chosen.flavor), self._used)
        if sum(part.gpus for part in parts) < spec.gpus:
            return None
        begins = self._begins(chosen)
        bounds = self._view.holdings.bounds_of(spec.owner) if begins else ()
        for tenant in bounds:
            runs_left = self._runs_left(tenant)
            if runs_left is not None and begins > runs_left:
                return None
        return Bill(parts, begins, bounds)

    def count(self, bill: Bill) -> None:
        """Count one that was chosen."""
        for part in bill.parts:
            for bound, _ in part.payer.bounds:
                self._used[bound] = self._used.get(bound, 0) + part.gpus
        for tenant in bill.bounds:
            self._runs[tenant] = self._runs.get(tenant, 0) + bill.begins

    def _begins(self, chosen: Candidate) -> int:
        """Return how many runs count as running by this choice that did not before."""
        return sum(self._members[name].record.started_ms is None for name in chosen.row)

    def _runs_left(self, tenant: str) -> int | None:
        """Return how many more runs may begin under ``tenant``; None where nothing limits them."""
        limit = self._view.owners[tenant].quota.concurrent_runs_max
        if limit is None:
            return None
        return limit - self._view.holdings.runs.get(tenant, 0) - self._runs.get(tenant, 0)
