"""``calc cover``: the payers of a number of GPUs of a flavor at a place.

If the GPUs cannot be paid for, the answer has the refusal with its numbers, and a short name. The
name is ``NoEnvelope`` if no envelope can pay for any GPU. The name is ``BorrowLimit`` if the run's
own limit on borrowing is reached. The name is ``SearchLimit`` if the search took too many steps. In
all other cases, the name is ``InsufficientCapacity``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.calc.world_funds import Funds, read_funds, without_hours, without_places
from quorate.calc.world_leases import WorldLease, read_leases, record, tier_of
from quorate.calc.world_reader import any_whole, open_world, settle
from quorate.core.admission.cover import payer_phases, plan_cover
from quorate.core.admission.cover_search import payable
from quorate.core.admission.payers import CoverRequest, Demand, Leg, PayerList, Place
from quorate.documents import values
from quorate.documents.field_reader import At, complete, fields_of, listed, mapped
from quorate.documents.labels import label_key, label_value
from quorate.documents.times import positive_duration, time_ms
from quorate.model.amounts import DURATION_MS_MAX, HOUR_MS
from quorate.model.events import BudgetApplied, OwnerApplied, Tier
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.apply_event import apply
from quorate.model.state.state import State
from quorate.views.refusal_answer import error, invalid_request

_COVER: Final = frozenset(
    {
        "owner",
        "flavor",
        "quantity",
        "location",
        "allowBorrow",
        "maxBorrowGPUs",
        "sponsors",
        "run",
        "expectedDuration",
        "expectedHours",
        "admitted",
    }
)
_ACTOR: Final = "calc"
_hours = values.decimal_of(factor=HOUR_MS, unit="millisecond", low=1, high=DURATION_MS_MAX)
_HOLD_MS: Final = 1
"""The hold of one GPU if the world states no duration.

In that case, limits on GPU-hours are ignored.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The GPUs that need payers. ``location`` is None if the world states no place."""

    owner: str
    flavor: str
    quantity: int
    location: dict[str, str] | None
    allow_borrow: bool
    borrow_gpus_max: int | None
    sponsors: tuple[str, ...]
    run: str | None
    duration_ms: int | None

    def fault(self) -> str | None:
        """Return the first invalid field as a text; None if all fields are valid."""
        if not self.owner:
            return "owner is required"
        if not self.flavor:
            return "flavor is required"
        if self.quantity <= 0:
            return f"quantity must be positive, got {self.quantity}"
        if self.borrow_gpus_max is not None and self.borrow_gpus_max < 0:
            return f"maxBorrowGPUs must not be negative, got {self.borrow_gpus_max}"
        return None


def cover(world: object) -> dict[str, object]:
    """Return the segments that pay for the quantity together, in cover order; or ``error``."""
    fields, at = open_world(world, ["now", "budgets", "cover"])
    now_ms = fields.required("now", time_ms)
    question = fields.required("cover", _question)
    settle(at)
    assert now_ms is not None, world
    assert question is not None, world
    funds = read_funds(fields, at)
    leases = read_leases(fields, at, funds, now_ms)
    fault = question.fault()
    if fault is not None:
        return invalid_request(fault)
    state = _state(funds, leases, question, now_ms)
    request = _request(state, leases, question, now_ms)
    demands: list[Demand] = [
        (Place(_where(question.location), question.location or {}), question.quantity)
    ]
    answer = plan_cover(state, request, demands)
    if isinstance(answer, Refusal):
        return error(_error_name(state, request, demands, answer), answer)
    return {"segments": [_segment(funds, state, leg) for leg in answer.legs]}


def _where(location: dict[str, str] | None) -> str:
    return "anywhere" if location is None else "/".join(location.values()) or "nowhere"


def _state(funds: Funds, leases: tuple[WorldLease, ...], question: _Question, now_ms: int) -> State:
    """Return a state that has the budgets and the leases of the world."""
    state = State()
    for owner in funds.owners:
        apply(state, OwnerApplied(at_ms=now_ms, actor=_ACTOR, owner=owner))
    for budget in funds.budgets:
        spec = budget.spec
        if question.duration_ms is None:
            spec = without_hours(spec)
        if question.location is None:
            spec = without_places(spec)
        apply(state, BudgetApplied(at_ms=now_ms, actor=_ACTOR, budget=spec))
    record(state, leases, now_ms)
    return state


def _request(
    state: State, leases: tuple[WorldLease, ...], question: _Question, now_ms: int
) -> CoverRequest:
    left = question.borrow_gpus_max
    if left is not None and question.run is not None:
        # The limit is for all GPUs that the run borrows at one time, so the GPUs that it already
        # borrows are counted.
        left -= sum(
            lease.gpus
            for lease in leases
            if lease.run == question.run
            and (lease.end_ms is None or lease.end_ms > now_ms)
            and tier_of(state, lease) is Tier.BORROWED
        )
    return CoverRequest(
        owner=question.owner,
        flavor=question.flavor,
        now_ms=now_ms,
        duration_ms=_HOLD_MS if question.duration_ms is None else question.duration_ms,
        allow_borrow=question.allow_borrow,
        borrow_gpus_left=None if left is None else max(0, left),
        sponsors=question.sponsors,
    )


def _error_name(
    state: State, request: CoverRequest, demands: list[Demand], refusal: Refusal
) -> str:
    """Return the short name of ``refusal``."""
    payer_list = PayerList(state, request, payer_phases(state, request)[-1])
    if sum(payable(payer_list, demands)) == 0:
        return "NoEnvelope"
    if refusal.code is RefusalCode.BORROW_LIMIT:
        return "BorrowLimit"
    if refusal.code is RefusalCode.SEARCH_LIMIT:
        return "SearchLimit"
    return "InsufficientCapacity"


def _segment(funds: Funds, state: State, leg: Leg) -> dict[str, object]:
    account = state.envelopes[leg.payer]
    names = {budget.spec.name: budget.name for budget in funds.budgets}
    return {
        "budget": names[account.budget],
        "envelope": account.spec.name,
        "owner": account.owner,
        "quantity": leg.gpus,
        "borrowed": leg.tier is Tier.BORROWED,
        "tier": leg.tier.value,
    }


def _question(value: object, at: At) -> _Question | None:
    fields = fields_of(value, at, _COVER)
    if fields is None:
        return None
    location = fields.maybe("location", _labels)
    fields.maybe("admitted", time_ms)
    return _Question(
        owner=fields.optional("owner", values.text, ""),
        flavor=fields.optional("flavor", values.text, ""),
        quantity=fields.optional("quantity", any_whole, 0),
        location=None if location is None else dict(location),
        allow_borrow=fields.optional("allowBorrow", values.truth, default=False),
        borrow_gpus_max=fields.maybe("maxBorrowGPUs", any_whole),
        sponsors=fields.optional("sponsors", _sponsors, ()),
        run=fields.maybe("run", values.line),
        duration_ms=fields.maybe("expectedDuration", positive_duration)
        or fields.maybe("expectedHours", _hours),
    )


def _labels(value: object, at: At) -> tuple[tuple[str, str], ...] | None:
    return mapped(value, at, key=label_key, read=label_value)


def _sponsors(value: object, at: At) -> tuple[str, ...] | None:
    return complete(listed(value, at, values.line))
