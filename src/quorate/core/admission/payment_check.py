"""Checks whether payers could pay for demands, for many sets of demands in the same places.

The search for a placement asks this for every division of a run that it tries. Most of these
divisions differ only in how many GPUs they take in each place. So what the payers can pay together
in a set of places is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from quorate.core.admission.cover_search import payable
from quorate.core.admission.payer_limits import LimitsTogether, PayerLimits
from quorate.core.admission.payers import Demand, PayerList, Place

PLACES_MAX: Final = 6
"""The most places for which every set is examined; for more, a maximum flow is computed."""

_Limit = tuple[tuple[int, ...], int]
"""The numbers of some demands, and the most GPUs that can be paid for these demands together."""


class PaymentCheck:
    """The check for one list of payers, from which nothing is taken."""

    __slots__ = ("_limits", "_payer_list", "_payers")

    def __init__(self, payer_list: PayerList) -> None:
        self._payer_list = payer_list
        payers = (PayerLimits.of(payer_list, key, tier) for key, tier in payer_list.payers)
        self._payers = [limits for limits in payers if limits.room(payer_list)]
        self._limits: dict[tuple[str, ...], list[_Limit]] = {}

    def could_pay(self, demands: Sequence[Demand]) -> bool:
        """Return whether the bounds of ``payable`` are enough for all of ``demands``."""
        if len(demands) > PLACES_MAX:
            return sum(payable(self._payer_list, demands)) == sum(gpus for _, gpus in demands)
        where = tuple(place.where for place, _ in demands)
        limits = self._limits.get(where)
        if limits is None:
            limits = self._limits[where] = self._limits_in([place for place, _ in demands])
        return all(sum(demands[at][1] for at in some) <= most for some, most in limits)

    def _limits_in(self, places: Sequence[Place]) -> list[_Limit]:
        """Return the most GPUs that can be paid in each set of ``places``, the largest set first.

        Demands can be paid if no set of them exceeds its limit (Hall's theorem).
        """
        pays_at = self._payer_list.pays_at
        served = [
            (
                limits,
                sum(
                    1 << at for at, place in enumerate(places) if pays_at(limits.key, place.labels)
                ),
            )
            for limits in self._payers
        ]
        together = LimitsTogether.of(self._payer_list, served, (1 << len(places)) - 1)
        return [
            (some, together.most_paid(sum(1 << at for at in some)))
            for size in range(len(places), 0, -1)
            for some in combinations(range(len(places)), size)
        ]
