"""The bounds of leases in rounds: how long a run may work under a lease, and for how many steps."""

from __future__ import annotations

from typing import NamedTuple

from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.events import LeaseStarted, RoundShare, RoundShared
from quorate.model.state.state_view import StateView


class LeaseBound(NamedTuple):
    """The bounds of a lease in a round: a number of steps, a duration, and the end of the round."""

    steps: int
    length_ms: int
    until_ms: int


class LeaseBounds:
    """The bounds of leases in the present rounds of all pools."""

    def __init__(self, view: StateView) -> None:
        self._view = view
        self._shares: dict[str, dict[str, RoundShare]] = {}

    def shared(self, run: str) -> tuple[RoundShared, RoundShare] | None:
        """Return the present round of the pool of ``run``, and the run's share in this round.

        Return None if the pool has no rounds, or if the run was not in the pool when the round
        began.
        """
        known = self._view.in_rounds.get(run)
        record = None if known is None else self._view.rounds.get(known.pool)
        if record is None:
            return None
        shares = self._shares.get(record.shared.pool)
        if shares is None:
            shares = {share.run: share for share in record.shared.shares}
            self._shares[record.shared.pool] = shares
        share = shares.get(run)
        return None if share is None else (record.shared, share)

    def of(self, fact: LeaseStarted, run: str) -> LeaseBound | None:
        """Return the bound of ``run`` under a lease; None outside pools of discipline ``rounds``.

        ``steps`` is how many steps the run can do without a partner in the time of the lease in
        this round. The rate is the one with which the policy computed the round. The number is at
        most the number of steps that the run has left.
        """
        found = self.shared(run)
        if found is None:
            return None
        shared, share = found
        flavor = self._view.envelopes[fact.payer].spec.flavor
        length_ms = shared.until_ms - max(fact.start_ms, shared.at_ms)
        rate = dict(zip(shared.flavors, share.rates, strict=True)).get(flavor, 0)
        steps = rate * length_ms // (PPM * SECOND_MS)
        work = self._view.runs[run].spec.rounds
        if work is not None and work.total_steps is not None:
            steps = min(steps, max(0, work.total_steps - self._view.in_rounds[run].steps))
        return LeaseBound(steps, length_ms, shared.until_ms)
