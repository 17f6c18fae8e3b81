"""Admit: a placement and a payment for one run, found together.

Widths from the widest, then family money before sponsors', then flavors in the run's order, then
placements in pack order: the first that fits and is paid. Within the search limit this is complete:
if any placement can be paid, one is found. docs/adr/0008-admission.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from quorate.core.cover import payer_phases
from quorate.core.holds import hold_duration_ms
from quorate.core.layout import PackRequest, pack_request
from quorate.core.pack import PackPlan, pick_slots
from quorate.core.payment import pay, payable
from quorate.core.purse import CoverRequest, Demand, Leg, Purse, family_of, names_racks
from quorate.core.shortfall import explain_uncovered
from quorate.core.slices import best_slice, no_placement
from quorate.core.spread import Spread, demands_of, spreads
from quorate.core.steps import Steps
from quorate.core.yard import Yards
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.view import Payers, StateView


@dataclass(frozen=True, slots=True)
class Admitted:
    """Where the run starts and who pays."""

    width: int
    flavor: str
    plan: PackPlan
    demands: Sequence[Demand]
    legs: Sequence[Leg]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One flavor at one width: the request, the first placement and whose money can be tried."""

    request: PackRequest
    yards: Yards
    first: Spread | None
    cover: CoverRequest
    phases: tuple[Payers, ...]


def admit(view: StateView, run: Run, now_ms: int) -> Admitted | Refusal:
    """Return how ``run`` starts now, or why it cannot; the refusal is that of its least width."""
    steps = Steps()
    refusal: Refusal | None = None
    for width in run.widths():
        attempts = [
            _attempt(view, run, cover_request(view, run, flavor, now_ms), width, steps)
            for flavor in run.flavors
        ]
        for phase in range(max(len(attempt.phases) for attempt in attempts)):
            for attempt in attempts:
                if phase < len(attempt.phases):
                    found = _place_and_pay(view, attempt, attempt.phases[phase], steps)
                    if found is not None:
                        return found
        refusal = _refusal(view, attempts[0], steps)
    assert refusal is not None, run
    return refusal


def cover_request(view: StateView, run: Run, flavor: str, now_ms: int) -> CoverRequest:
    """Return what covering a start of ``run`` now asks of its payers."""
    return CoverRequest(
        owner=run.owner,
        flavor=flavor,
        now_ms=now_ms,
        duration_ms=hold_duration_ms(run, view.pools[run.pool]),
        allow_borrow=run.funding.allow_borrow,
        borrow_gpus_left=run.funding.borrow_gpus_max,
        sponsors=run.funding.sponsors,
    )


def _attempt(view: StateView, run: Run, cover: CoverRequest, width: int, steps: Steps) -> _Attempt:
    request = pack_request(run, view.pools[run.pool], cover.flavor, width)
    phases = payer_phases(view, cover)
    sponsors = phases[-1][len(phases[0]) :]
    by_rack = family_of(view, cover.owner, cover.flavor).by_rack or names_racks(view, sponsors)
    yards = Yards(view, request, by_rack=by_rack)
    first = next(spreads(yards, None, steps), None)
    return _Attempt(request, yards, first, cover, phases)


def _place_and_pay(
    view: StateView, attempt: _Attempt, payers: Payers, steps: Steps
) -> Admitted | None:
    """Return the first placement in pack order that ``payers`` pay for."""
    if attempt.first is None:
        return None
    purse = Purse(view, attempt.cover, payers)
    demands = demands_of(attempt.first)
    legs = pay(purse, demands, steps)
    if legs is not None:
        return _admitted(attempt, attempt.first, demands, legs)
    if not _money_anywhere(purse, sum(gpus for _, gpus in demands)):
        return None
    return _search(attempt, purse, steps)


def _money_anywhere(purse: Purse, gpus: int) -> bool:
    """Return whether the payers could pay that many GPUs if place did not matter."""
    room = 0
    for key, tier in purse.payers:
        room += purse.room(key, tier)
        if room >= gpus:
            return True
    return False


def _search(attempt: _Attempt, purse: Purse, steps: Steps) -> Admitted | None:
    """Return the first payable placement after the first one, looking at each kind of bill once."""
    refused: set[tuple[object, ...]] = set()

    def may_be_paid(demands: Sequence[Demand]) -> bool:
        return sum(payable(purse, demands)) == sum(gpus for _, gpus in demands)

    for spread in spreads(attempt.yards, may_be_paid, steps):
        demands = demands_of(spread)
        bill = tuple(
            (tuple(key for key, _ in purse.payers if purse.pays_at(key, place.labels)), gpus)
            for place, gpus in demands
        )
        if bill in refused:
            continue
        refused.add(bill)
        legs = pay(purse, demands, steps)
        if legs is not None:
            return _admitted(attempt, spread, demands, legs)
    return None


def _admitted(
    attempt: _Attempt, spread: Spread, demands: Sequence[Demand], legs: Sequence[Leg]
) -> Admitted:
    plan = pick_slots(spread, attempt.request)
    return Admitted(plan.gpus, attempt.request.flavor, plan, demands, legs)


def _refusal(view: StateView, attempt: _Attempt, steps: Steps) -> Refusal:
    """Return what holds the run: money first, then room, and the other where both are short."""
    purse = Purse(view, attempt.cover, attempt.phases[-1])
    if attempt.first is not None:
        return _unpaid(purse, demands_of(attempt.first), steps)
    if steps.exhausted:
        return Refusal(code=RefusalCode.SEARCH_LIMIT, wanted=attempt.request.gpus)
    no_room = no_placement(attempt.yards)
    parts, _ = best_slice(attempt.yards)
    places = [(attempt.yards.at(part.domain), part.wanted) for part in parts]
    demands = [(yard.lots[0].place, gpus) for yard, gpus in places if yard is not None]
    if not demands or pay(purse, demands, steps) is not None:
        return no_room
    return replace(explain_uncovered(purse, demands, steps), also=no_room)


def _unpaid(purse: Purse, demands: Sequence[Demand], steps: Steps) -> Refusal:
    """Return why nobody pays for the first placement, nor for any other."""
    found = explain_uncovered(purse, demands, steps)
    if steps.exhausted:
        return replace(found, code=RefusalCode.SEARCH_LIMIT)
    wanted = sum(gpus for _, gpus in demands)
    if found.code is RefusalCode.INSUFFICIENT_FUNDS and _money_anywhere(purse, wanted):
        return replace(found, code=RefusalCode.FUNDS_ELSEWHERE)
    return found
