"""Limits: how much may be chosen for an owner in one round, by who pays and by quotas of runs.

What is chosen is counted as it is chosen, so that what is beyond goes to the next in turn. Whether
a grant is within them is decided where every start is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quorate.loop.round_floor import Member
from quorate.loop.round_funds import Funds, payable
from quorate.model.specs import EnvelopeId, Run
from quorate.model.view import StateView
from quorate.policy.round_choice import Candidate


class Bill(NamedTuple):
    """What one choice counts for: GPUs by payer, and runs that begin, under which quotas."""

    paid: tuple[tuple[EnvelopeId, int], ...]
    begins: int
    bounds: tuple[str, ...]


class Limits:
    """What has been chosen of one round so far, by payer and by owner."""

    def __init__(self, view: StateView, members: Mapping[str, Member], funds: Funds) -> None:
        self._view = view
        self._members = members
        self._funds = funds
        self._paid: dict[EnvelopeId, int] = {}
        self._runs: dict[str, int] = {}

    def bill(self, chosen: Candidate) -> Bill | None:
        """Return what one more would count for; None where payers or quotas have no room for it.

        Who pays first by the order of cover pays.
        """
        spec = self._members[chosen.row[0]].record.spec
        left, paid = chosen.gpus, []
        for payer, gpus in self._payable(spec, chosen.flavor):
            if left <= 0:
                break
            paid.append((payer, min(left, gpus)))
            left -= gpus
        if left > 0:
            return None
        begins = self._begins(chosen)
        bounds = self._view.holdings.bounds_of(spec.owner) if begins else ()
        for tenant in bounds:
            runs_left = self._runs_left(tenant)
            if runs_left is not None and begins > runs_left:
                return None
        return Bill(tuple(paid), begins, bounds)

    def count(self, bill: Bill) -> None:
        """Count one that was chosen."""
        for payer, gpus in bill.paid:
            self._paid[payer] = self._paid.get(payer, 0) + gpus
        for tenant in bill.bounds:
            self._runs[tenant] = self._runs.get(tenant, 0) + bill.begins

    def _payable(self, run: Run, flavor: str) -> Iterator[tuple[EnvelopeId, int]]:
        """Return how many GPUs of ``run`` each payer could carry beside what it pays already."""
        payers, paid = self._funds.payers(run, flavor), self._paid
        return payable(run, ((p, max(0, p.gpus - paid.get(p.key, 0))) for p in payers))

    def _begins(self, chosen: Candidate) -> int:
        """Return how many runs count as running by this choice that did not before."""
        return sum(self._members[name].record.started_ms is None for name in chosen.row)

    def _runs_left(self, tenant: str) -> int | None:
        """Return how many more runs may begin under ``tenant``; None where nothing limits them."""
        limit = self._view.owners[tenant].quota.concurrent_runs_max
        if limit is None:
            return None
        return limit - self._view.holdings.runs.get(tenant, 0) - self._runs.get(tenant, 0)
