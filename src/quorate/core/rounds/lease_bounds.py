"""How long and how many steps a lease of a round is for."""

from __future__ import annotations

from typing import NamedTuple

from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.events import LeaseStarted, RoundShare, RoundShared
from quorate.model.state.state_view import StateView


class LeaseBound(NamedTuple):
    """The bound of a lease of a round: a number of steps, an instant and a duration."""

    steps: int
    length_ms: int
    until_ms: int


class LeaseBounds:
    """The bounds of leases in the rounds that the pools of a view are in."""

    def __init__(self, view: StateView) -> None:
        self._view = view
        self._shares: dict[str, dict[str, RoundShare]] = {}

    def shared(self, run: str) -> tuple[RoundShared, RoundShare] | None:
        """Return the present round of the pool of ``run``, and the run's share in it.

        None if the run shares in no rounds, or was not there when the round began.
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
        """Return the bound of ``run`` under a lease; None outside pools that share in rounds.

        The steps are those that the run does alone in that time at the rate that the round was
        shared out with, and no more than it has left to do.
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
