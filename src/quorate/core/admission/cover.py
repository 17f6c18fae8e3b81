"""Cover: find out who pays. See docs/design/calculus.md and docs/adr/0006-cover.md.

The result divides the demand into legs, each paid by one envelope. The places are divided in the
given order. In each place, the payers pay in cover order. Each payer pays as much as possible, as
long as the remaining GPUs can still be paid for. So the result is the lexicographically first
division. A greedy pass is tried first; if it succeeds, its result is this division. If the greedy
pass fails, an exact search within a ``SearchBudget`` follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.core.admission.cover_search import pay
from quorate.core.admission.payers import (
    CoverRequest,
    Demand,
    Leg,
    PayerList,
    family_payers,
    sponsor_payers,
)
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.shortfall import explain_uncovered
from quorate.model.events import Tier
from quorate.model.refusal import Refusal
from quorate.model.state.reads.money_reads import Payers
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Covered:
    """The result of a cover in which every GPU of the demand has a payer."""

    legs: tuple[Leg, ...]


def plan_cover(
    view: StateView,
    request: CoverRequest,
    demands: Sequence[Demand],
) -> Covered | Refusal:
    """Return the legs that pay for ``demands`` in full, or a refusal with the shortages.

    The family's envelopes are tried first; sponsors join only when the family cannot pay alone.
    """
    steps = SearchBudget()
    phases = payer_phases(view, request)
    for payers in phases:
        legs = pay(PayerList(view, request, payers), demands, steps)
        if legs is not None:
            return Covered(tuple(legs))
    return explain_uncovered(PayerList(view, request, phases[-1]), demands, steps)


def payer_phases(view: StateView, request: CoverRequest) -> tuple[Payers, ...]:
    """Return the payers to try: the family's envelopes, then the family's and the sponsors'."""
    family = family_payers(view, request.owner, request.flavor)
    if request.own_only:
        return (tuple((key, tier) for key, tier in family if tier is Tier.OWNED),)
    sponsors = sponsor_payers(view, request)
    if request.barred:
        family = tuple(payer for payer in family if payer[0] not in request.barred)
        sponsors = tuple(payer for payer in sponsors if payer[0] not in request.barred)
    return (family, family + sponsors) if sponsors else (family,)
