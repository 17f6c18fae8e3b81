"""Limits: how much may be chosen for an owner in one round, by who pays and by quotas of runs.

What is chosen is counted as it is chosen, so that what is beyond goes to the next in turn. Whether
a grant is within them is decided where every start is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quorate.loop.round_floor import Member
from quorate.loop.round_funds import Funds, payable
from quorate.model.specs import EnvelopeId, Run
from quorate.model.view import StateView
from quorate.policy.round_choice import Candidate


class Limits:
    """What has been chosen of one round so far, by payer and by owner."""

    def __init__(self, view: StateView, members: Mapping[str, Member], funds: Funds) -> None:
        self._view = view
        self._members = members
        self._funds = funds
        self._paid: dict[EnvelopeId, int] = {}
        self._runs: dict[str, int] = {}

    def allow(self, chosen: Candidate) -> bool:
        """Return whether its payers, and the quotas above its owner, have room for one more."""
        spec = self._members[chosen.row[0]].record.spec
        if sum(gpus for _, gpus in self._payable(spec, chosen.flavor)) < chosen.gpus:
            return False
        begins = self._begins(chosen)
        bounds = self._bounds(spec.owner) if begins else ()
        return all(left is None or begins <= left for left in map(self._runs_left, bounds))

    def count(self, chosen: Candidate) -> None:
        """Count one that was chosen; who pays first by the order of cover pays."""
        spec, paid = self._members[chosen.row[0]].record.spec, self._paid
        left = chosen.gpus
        for payer, gpus in tuple(self._payable(spec, chosen.flavor)):
            taken = min(left, gpus)
            paid[payer] = paid.get(payer, 0) + taken
            left -= taken
        begins = self._begins(chosen)
        for tenant in self._bounds(spec.owner) if begins else ():
            self._runs[tenant] = self._runs.get(tenant, 0) + begins

    def _payable(self, run: Run, flavor: str) -> Iterator[tuple[EnvelopeId, int]]:
        """Return how many GPUs of ``run`` each payer could carry beside what it pays already."""
        payers, paid = self._funds.payers(run, flavor), self._paid
        return payable(run, ((p, max(0, p.gpus - paid.get(p.key, 0))) for p in payers))

    def _begins(self, chosen: Candidate) -> int:
        """Return how many runs count as running by this choice that did not before."""
        return sum(self._members[name].record.started_ms is None for name in chosen.row)

    def _bounds(self, owner: str) -> tuple[str, ...]:
        return self._view.holdings.bounds_of(owner)

    def _runs_left(self, tenant: str) -> int | None:
        """Return how many more runs may begin under ``tenant``; None where nothing limits them."""
        limit = self._view.owners[tenant].quota.concurrent_runs_max
        if limit is None:
            return None
        return limit - self._view.holdings.runs.get(tenant, 0) - self._runs.get(tenant, 0)
