"""Cover: who pays. Design section 5; docs/adr/0006-cover.md.

The answer is a partition of the demand into legs, each paid by one envelope, lexicographically
first: for each place in the order given, from each payer in cover order, the most that leaves the
rest payable. Greedy first, which is exact when it succeeds; else an exact search within ``Steps``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.core.payment import PaymentSearch, Relaxation, choices_of, shared_bounds
from quorate.core.purse import (
    CoverRequest,
    Demand,
    Leg,
    Purse,
    family_payers,
    sponsor_payers,
)
from quorate.core.steps import Steps
from quorate.model.events import Tier
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode, Shortage
from quorate.model.specs import EnvelopeId
from quorate.model.view import Payers, StateView


@dataclass(frozen=True, slots=True)
class Covered:
    """Every GPU of the demand has a payer."""

    legs: tuple[Leg, ...]


def plan_cover(
    view: StateView, request: CoverRequest, demands: Sequence[Demand], steps: Steps | None = None
) -> Covered | Refusal:
    """Return the legs that pay for ``demands`` in full, or what was short, where, by how much.

    Family money first; sponsors join only when the family cannot pay alone.
    """
    steps = Steps() if steps is None else steps
    phases = payer_phases(view, request)
    for payers in phases:
        legs = pay(Purse(view, request, payers), demands, steps)
        if legs is not None:
            return Covered(tuple(legs))
    return explain_uncovered(Purse(view, request, phases[-1]), demands, steps)


def payer_phases(view: StateView, request: CoverRequest) -> tuple[Payers, ...]:
    """Return whose money is tried: the family's, then the family's and the sponsors'."""
    family = family_payers(view, request.owner, request.flavor)
    sponsors = sponsor_payers(view, request)
    return (family, family + sponsors) if sponsors else (family,)


def pay(purse: Purse, demands: Sequence[Demand], steps: Steps) -> list[Leg] | None:
    """Return the lexicographically first legs that pay for ``demands``, or None.

    None is a proof unless ``steps`` ran out. The purse must be empty, and is left so.
    """
    legs = purse.greedy(demands)
    if legs is None:
        legs = PaymentSearch(purse, demands, steps).run()
    purse.reset()
    return legs


def payable(purse: Purse, demands: Sequence[Demand]) -> list[int]:
    """Return how many GPUs of each demand can be paid at most, earlier demands first.

    An upper bound, and exact where no envelope is under two bounds.
    """
    wanted = [gpus for _, gpus in demands]
    return Relaxation.build(purse, choices_of(purse, demands), wanted).fill(wanted)


def explain_uncovered(purse: Purse, demands: Sequence[Demand], steps: Steps) -> Refusal:
    """Return why nobody pays for ``demands``: per place what is short, per payer what limits it."""
    request = purse.request
    wanted = sum(gpus for _, gpus in demands)
    usable = tuple(
        (key, tier)
        for key, tier in purse.payers
        if any(purse.pays_at(key, place.labels) for place, _ in demands)
    )
    if not usable:
        return Refusal(
            code=RefusalCode.NO_ENVELOPE, subject=request.owner, wanted=wanted, short=wanted
        )
    paid = payable(purse, demands)
    places = [
        Shortage(where=place.where, wanted=gpus, available=got)
        for (place, gpus), got in zip(demands, paid, strict=True)
        if got < gpus
    ]
    short = wanted - sum(paid)
    if short == 0:
        code = RefusalCode.SEARCH_LIMIT if steps.exhausted else RefusalCode.INSUFFICIENT_FUNDS
        return Refusal(
            code=code,
            subject=request.owner,
            wanted=wanted,
            short=1,
            shortages=_limits(purse, usable),
        )
    limits = _limits(purse, usable)
    lifted = _without_borrow_limit(purse, demands)
    if lifted > sum(paid):
        return Refusal(
            code=RefusalCode.BORROW_LIMIT,
            subject=str(request.borrow_gpus_left),
            wanted=wanted,
            short=short,
            shortages=(*places, *limits)[:SHORTAGES_MAX],
        )
    return Refusal(
        code=RefusalCode.INSUFFICIENT_FUNDS,
        subject=request.owner,
        wanted=wanted,
        short=short,
        shortages=(*places, *limits)[:SHORTAGES_MAX],
    )


def _without_borrow_limit(purse: Purse, demands: Sequence[Demand]) -> int:
    """Return how much could be paid were the run's own borrow limit not there."""
    request = purse.request
    if request.borrow_gpus_left is None:
        return sum(payable(purse, demands))
    free = CoverRequest(
        owner=request.owner,
        flavor=request.flavor,
        now_ms=request.now_ms,
        duration_ms=request.duration_ms,
        allow_borrow=request.allow_borrow,
        borrow_gpus_left=None,
        sponsors=request.sponsors,
    )
    return sum(payable(Purse(purse.view, free, purse.payers), demands))


def _limits(purse: Purse, payers: Payers) -> tuple[Shortage, ...]:
    """Return, for each payer that could serve, how much it has left and what holds it there."""
    return tuple(
        Shortage(where=key, available=purse.room(key, tier), limit=limit_of(purse, key, tier))
        for key, tier in payers[:SHORTAGES_MAX]
    )


def limit_of(purse: Purse, key: EnvelopeId, tier: Tier) -> str:
    """Return the limit that decides how much the envelope can pay, in a few words."""
    account = purse.view.envelopes[key]
    spec = account.spec
    if purse.request.now_ms >= spec.end_ms:
        return "window has ended"
    if not purse.is_open(account):
        return "window has not begun"
    per = purse.hold_ms(account)
    limits = [
        (
            spec.concurrency - account.gpus_active - account.gpus_reserved,
            f"concurrency {spec.concurrency}, {account.gpus_active + account.gpus_reserved} in use",
        ),
        ((spec.gpu_ms_granted - account.committed_gpu_ms) // per, "GPU-hours spent or held"),
    ]
    limits += [(gpus, name) for gpus, name in shared_bounds(purse, (key, tier))]
    for cap_key in account.caps:
        cap = purse.view.caps[cap_key]
        if cap.spec.gpu_ms_max is not None:
            gpus = (cap.spec.gpu_ms_max - cap.committed_gpu_ms) // per
            limits.append((gpus, f"GPU-hours of cap {cap_key}"))
    if tier is Tier.BORROWED:
        lending = spec.lending
        if lending.concurrency_max is not None:
            gpus = lending.concurrency_max - account.lent_gpus_active
            limits.append((gpus, f"lends at most {lending.concurrency_max} GPUs"))
        if lending.gpu_ms_max is not None:
            gpus = (lending.gpu_ms_max - account.lent_committed_gpu_ms) // per
            limits.append((gpus, "GPU-hours it lends"))
    return min(limits, key=lambda found: found[0])[1]
