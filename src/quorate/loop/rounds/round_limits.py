"""Limits of a choice: how many GPUs payers can pay for, and how many runs may begin under quotas.

Each chosen run is counted at once. If a run would exceed a limit, it is skipped, and the next run
in order is considered. The decision later checks the limits of each grant, as for every start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from quorate.loop.rounds.round_funds import Bound, Funds, Part, carried, fit
from quorate.loop.rounds.round_held import HeldLeases
from quorate.loop.rounds.round_snapshot import Member
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView
from quorate.policy.rounds.round_book import Row
from quorate.policy.rounds.row_choice import Candidate


class Bill(NamedTuple):
    """The cost of one choice: the GPUs of each payer, and the number of runs that begin.

    ``bounds`` are the owners whose quotas limit how many runs begin.

    ``is_moved`` is true if the run keeps its GPUs, but other payers have to pay for them, because a
    more deserving run needs the present payers.
    """

    parts: list[Part]
    begins: int
    bounds: tuple[str, ...]
    is_moved: bool = False


class Limits:
    """The GPUs and runs chosen in one round so far, by payer and by owner.

    ``kept`` are all candidates with a share. If a candidate would keep its leases, its present
    payers set GPUs aside for it. Runs that are chosen earlier use these GPUs only if the other GPUs
    of the payers are not enough.
    """

    def __init__(
        self,
        view: StateView,
        members: Mapping[str, Member],
        funds: Funds,
        held: HeldLeases,
        kept: Iterable[Candidate],
    ) -> None:
        self._view = view
        self._members = members
        self._funds = funds
        self._held = held
        self._used: dict[Bound, int] = {}
        self._runs: dict[str, int] = {}
        self._kept: dict[Bound, int] = {}
        self._waiting: dict[tuple[Row, str], list[Part]] = {}
        is_idle = held.holders.isdisjoint
        for each in kept:
            leases = () if is_idle(each.row) else held.of(each.row, each.flavor)
            parts = self._paid(leases, each.flavor) if leases else None
            if parts is not None:
                self._waiting[each.row, each.flavor] = parts
                _add(self._kept, parts, 1)

    def bill(self, chosen: Candidate) -> Bill | None:
        """Return the cost of ``chosen``; None if payers or quotas have no room for it.

        A run that keeps its leases keeps its payers, if the payers have room. Otherwise payers pay
        in cover order. They first use GPUs that are set aside for no run. If these are not enough,
        they also use GPUs that are set aside.
        """
        spec = self._members[chosen.row[0]].record.spec
        present = self._waiting.pop((chosen.row, chosen.flavor), None)
        if present is not None:
            _add(self._kept, present, -1)
        elif not chosen.share:
            leases = self._held.of(chosen.row, chosen.flavor)
            present = self._paid(leases, chosen.flavor) if leases else None
        is_moved = False
        if present is not None and fit(present, self._used):
            parts = present
        else:
            payers = self._funds.payers(spec, chosen.flavor)
            parts = carried(spec, payers, self._used, self._kept)
            gpus = sum([part.gpus for part in parts])
            if self._kept and gpus < spec.gpus:
                parts = carried(spec, payers, self._used)
                gpus = sum([part.gpus for part in parts])
            if gpus < spec.gpus:
                return None
            is_moved = present is not None
        begins = self._begins(chosen)
        bounds = self._view.holdings.bounds_of(spec.owner) if begins else ()
        for tenant in bounds:
            runs_left = self._runs_left(tenant)
            if runs_left is not None and begins > runs_left:
                return None
        return Bill(parts, begins, bounds, is_moved)

    def count(self, bill: Bill) -> None:
        """Count the ``bill`` of a run that was chosen."""
        _add(self._used, bill.parts, 1)
        for tenant in bill.bounds:
            self._runs[tenant] = self._runs.get(tenant, 0) + bill.begins

    def _paid(self, leases: Sequence[Lease], flavor: str) -> list[Part] | None:
        """Return the payers of a row's ``leases``; None if a payer cannot pay any longer."""
        spec = self._members[leases[0].fact.run].record.spec
        return self._funds.present(spec, leases, flavor)

    def _begins(self, chosen: Candidate) -> int:
        """Return how many more runs count as running if ``chosen`` is chosen."""
        members = self._members
        return sum([members[name].record.started_ms is None for name in chosen.row])

    def _runs_left(self, tenant: str) -> int | None:
        """Return how many more runs may begin under ``tenant``; None means any number."""
        limit = self._view.owners[tenant].quota.concurrent_runs_max
        if limit is None:
            return None
        return limit - self._view.holdings.runs.get(tenant, 0) - self._runs.get(tenant, 0)


def _add(sums: dict[Bound, int], parts: Iterable[Part], sign: int) -> None:
    for part in parts:
        for bound, _ in part.payer.bounds:
            sums[bound] = sums.get(bound, 0) + sign * part.gpus
