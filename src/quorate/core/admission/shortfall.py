"""Shortfall: explain why the envelopes cannot pay for a start.

The explanation has the number of missing GPUs in each place, and the limit of each payer.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from quorate.core.admission.cover_search import pay, payable, shared_bounds
from quorate.core.admission.payers import Demand, PayerList
from quorate.core.admission.search_budget import SearchBudget
from quorate.model.events import Tier
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode, Shortage
from quorate.model.specs import EnvelopeId
from quorate.model.state.reads.money_reads import Payers


def explain_uncovered(
    payer_list: PayerList, demands: Sequence[Demand], steps: SearchBudget
) -> Refusal:
    """Return a refusal with the unpaid GPUs of each place, and with each payer's limit."""
    request = payer_list.request
    wanted = sum(gpus for _, gpus in demands)
    usable = tuple(
        (key, tier)
        for key, tier in payer_list.payers
        if any(payer_list.pays_at(key, place.labels) for place, _ in demands)
    )
    if not usable:
        return Refusal(
            code=RefusalCode.NO_ENVELOPE, subject=request.owner, wanted=wanted, short=wanted
        )
    code, subject = RefusalCode.INSUFFICIENT_FUNDS, request.owner
    paid = payable(payer_list, demands)
    if sum(paid) == wanted:
        if steps.exhausted:
            code = RefusalCode.SEARCH_LIMIT
        paid = _paid_in_order(payer_list, demands)
    elif _without_borrow_limit(payer_list, demands) > sum(paid):
        code, subject = RefusalCode.BORROW_LIMIT, str(request.borrow_gpus_left)
    places = [
        Shortage(where=place.where, wanted=gpus, available=got)
        for (place, gpus), got in zip(demands, paid, strict=True)
        if got < gpus
    ]
    shortages = (*places, *_caps(payer_list, usable), *_payers(payer_list, usable))
    return Refusal(
        code=code,
        subject=subject,
        wanted=wanted,
        short=wanted - sum(paid),
        shortages=shortages[:SHORTAGES_MAX],
    )


def _paid_in_order(payer_list: PayerList, demands: Sequence[Demand]) -> list[int]:
    """Return how many GPUs of each demand can be paid for, if earlier demands are served first.

    This function is used if shared limits overlap, because then the upper bound that ``payable``
    returns may be too high. If an amount can be paid, every smaller amount can be paid, too. So the
    largest amount is found by bisection.
    """
    kept: list[Demand] = []
    paid: list[int] = []
    steps = SearchBudget()
    for place, gpus in demands:
        most, impossible = 0, gpus + 1
        while impossible - most > 1:
            middle = (most + impossible) // 2
            if pay(payer_list, [*kept, (place, middle)], steps) is None:
                impossible = middle
            else:
                most = middle
        paid.append(most)
        if most:
            kept.append((place, most))
    return paid


def _without_borrow_limit(payer_list: PayerList, demands: Sequence[Demand]) -> int:
    """Return how many GPUs could be paid for if the run had no limit on borrowed GPUs."""
    unlimited = replace(payer_list.request, borrow_gpus_left=None)
    return sum(payable(PayerList(payer_list.view, unlimited, payer_list.payers), demands))


def _payers(payer_list: PayerList, payers: Payers) -> list[Shortage]:
    """Return, for each payer, how many more GPUs it can pay for, and which limit allows no more."""
    return [
        Shortage(
            where=key, available=payer_list.room(key, tier), limit=limit_of(payer_list, key, tier)
        )
        for key, tier in payers[:SHORTAGES_MAX]
    ]


def _caps(payer_list: PayerList, payers: Payers) -> list[Shortage]:
    """Return the shared bounds that allow fewer GPUs than their payers could pay for separately."""
    rooms: dict[str, int] = {}
    left: dict[str, int] = {}
    for key, tier in payers:
        for gpus, name in shared_bounds(payer_list, (key, tier)):
            rooms[name] = rooms.get(name, 0) + payer_list.room(key, tier)
            left[name] = gpus
    return [
        Shortage(where=name, available=left[name], limit="shared by its envelopes")
        for name, room in rooms.items()
        if room > left[name]
    ]


def limit_of(payer_list: PayerList, key: EnvelopeId, tier: Tier) -> str:
    """Return, in a few words, the tightest limit on the GPUs that the envelope can pay for."""
    account = payer_list.view.envelopes[key]
    spec = account.spec
    if payer_list.request.now_ms >= spec.end_ms:
        return "window has ended"
    if not payer_list.is_open(account):
        return "window has not begun"
    per = payer_list.hold_ms(account)
    limits = [
        (
            spec.concurrency - account.gpus_active - account.gpus_reserved,
            f"concurrency {spec.concurrency}, {account.gpus_active + account.gpus_reserved} in use",
        ),
        ((spec.gpu_ms_granted - account.committed_gpu_ms) // per, "GPU-hours spent or held"),
    ]
    limits += [(gpus, name) for gpus, name in shared_bounds(payer_list, (key, tier))]
    if tier is Tier.BORROWED:
        lending = spec.lending
        if lending.concurrency_max is not None:
            gpus = lending.concurrency_max - account.lent_gpus_active
            limits.append((gpus, f"lends at most {lending.concurrency_max} GPUs"))
        if lending.gpu_ms_max is not None:
            gpus = (lending.gpu_ms_max - account.lent_committed_gpu_ms) // per
            limits.append((gpus, "GPU-hours it lends"))
    return min(limits, key=lambda found: found[0])[1]
