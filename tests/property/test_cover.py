"""Cover, compared with an oracle that tries every division of a demand among payers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from quorate.core.admission.cover import Covered, payer_phases, plan_cover
from quorate.core.admission.payers import CoverRequest, Demand, PayerList, Place
from quorate.model.amounts import HOUR_MS
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Budget, Cap, Lending, Owner
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, envelope
from tests.oracles import paying
from tests.oracles.choosing import chooser
from tests.oracles.effort import examples
from tests.oracles.paying import Bank, Purchase, Use
from tests.oracles.worlds import (
    Fleet,
    bank_of,
    choose_budgets,
    choose_family,
    choose_funding,
    choose_uses,
    state_of,
)

_PLACES = {
    "r/c/A": {"region": "r", "cluster": "c", "fabric.domain": "A"},
    "r/c/B": {"region": "r", "cluster": "c", "fabric.domain": "B"},
    "r/c/A/r1": {"region": "r", "cluster": "c", "fabric.domain": "A", "rack": "r1"},
}


@dataclass(frozen=True)
class Bill:
    """A demand to cover, and its world."""

    owners: dict[str, Owner]
    money: tuple[Budget, ...]
    used: tuple[Use, ...]
    request: CoverRequest
    demands: tuple[tuple[str, int], ...]

    @property
    def state(self) -> State:
        return state_of(
            Fleet((), ()), owners=self.owners.values(), money=self.money, used=self.used
        )

    @property
    def bank(self) -> Bank:
        return bank_of(self.owners, self.money, self.used)

    @property
    def purchase(self) -> Purchase:
        r = self.request
        return Purchase(
            r.owner,
            r.flavor,
            r.now_ms,
            r.duration_ms,
            r.allow_borrow,
            r.borrow_gpus_left,
            r.sponsors,
        )

    def asked(self) -> list[Demand]:
        return [(Place(where, _PLACES[where]), gpus) for where, gpus in self.demands]

    def asked_of_oracle(self) -> list[paying.Demand]:
        return [(_PLACES[where], gpus) for where, gpus in self.demands]


@st.composite
def bills(draw: st.DrawFn) -> Bill:
    choose = chooser(draw)
    owners = choose_family(choose)
    money = choose_budgets(choose, owners, gpus=4, racks=True)
    terms = choose_funding(choose, owners)
    where = choose.some(sorted(_PLACES), 1, 2)
    return Bill(
        owners=owners,
        money=money,
        used=choose_uses(choose, money) if choose.flip() else (),
        request=CoverRequest(
            owner=choose.one_of(sorted(owners)),
            flavor="H100",
            now_ms=NOW_MS,
            duration_ms=choose.one_of([HOUR_MS // 2, HOUR_MS, 2 * HOUR_MS]),
            allow_borrow=terms.allow_borrow,
            borrow_gpus_left=terms.borrow_gpus_max,
            sponsors=terms.sponsors,
        ),
        demands=tuple((name, choose.number(1, 4)) for name in where),
    )


@st.composite
def loans(draw: st.DrawFn) -> Bill:
    """Draw a run that has to borrow, and several lenders with separate limits."""
    choose = chooser(draw)
    owners = {name: Owner(name=name) for name in ("o0", "o1", "o2", "o3")}
    money = [Budget(name="b0", owner="o0", envelopes=(envelope("e", choose.number(1, 2)),))]
    for number in range(1, 4):
        terms = Lending(
            allow=True,
            to=choose.one_of([(), ("o0",), ("o*",), ("o1",)]),
            concurrency_max=choose.maybe(0, 3),
            gpu_ms_max=choose.one_of([None, None, HOUR_MS, 3 * HOUR_MS]),
        )
        line = envelope("e", choose.number(1, 4), lending=terms)
        money.append(Budget(name=f"b{number}", owner=f"o{4 - number}", envelopes=(line,)))
    request = CoverRequest(
        owner="o0",
        flavor="H100",
        now_ms=NOW_MS,
        duration_ms=HOUR_MS,
        allow_borrow=True,
        borrow_gpus_left=choose.maybe(1, 5),
        sponsors=tuple(choose.some(["o1", "o2", "o3"], 0, 3)),
    )
    used = choose_uses(choose, tuple(money)) if choose.flip() else ()
    where = choose.some(["r/c/A", "r/c/B"], 1, 2)
    demands = tuple((name, choose.number(1, 4)) for name in where)
    return Bill(owners, tuple(money), used, request, demands)


def _cells(covered: Covered) -> tuple[paying.Cell, ...]:
    return tuple((leg.place, str(leg.payer), str(leg.tier), leg.gpus) for leg in covered.legs)


def _check(bill: Bill) -> None:
    """Check that cover finds a payment exactly when the oracle does, and the same one."""
    answer = plan_cover(bill.state, bill.request, bill.asked())
    expected = paying.first_payment(bill.bank, bill.purchase, bill.asked_of_oracle())
    if expected is None:
        assert isinstance(answer, Refusal)
        assert answer.code is not RefusalCode.SEARCH_LIMIT
        event(f"refused: {answer.code}")
        return
    assert isinstance(answer, Covered), answer
    assert _cells(answer) == expected
    payer_list = PayerList(bill.state, bill.request, payer_phases(bill.state, bill.request)[-1])
    event("greedy" if payer_list.greedy(bill.asked()) else "searched")


@pytest.mark.heavy
@examples(10)
@given(bills())
def test_cover_pays_exactly_when_it_can_and_in_the_first_way(bill: Bill) -> None:
    _check(bill)


@pytest.mark.heavy
@examples(6)
@given(loans())
def test_sponsors_pay_what_they_lend_and_what_the_run_may_borrow(bill: Bill) -> None:
    _check(bill)


@st.composite
def kinships(draw: st.DrawFn) -> Bill:
    """Draw a larger family with a budget for each member, with names in random order."""
    choose = chooser(draw)
    owners = choose_family(choose, most=7)
    names = choose.some([f"b{i}" for i in range(len(owners))], len(owners), len(owners))
    money = tuple(
        Budget(name=name, owner=owner, envelopes=choose_budgets(choose, owners)[0].envelopes)
        for name, owner in zip(names, owners, strict=True)
    )
    terms = choose_funding(choose, owners)
    request = CoverRequest(
        owner=choose.one_of(sorted(owners)),
        flavor="H100",
        now_ms=NOW_MS,
        duration_ms=HOUR_MS,
        allow_borrow=terms.allow_borrow,
        sponsors=terms.sponsors,
    )
    return Bill(owners, money, (), request, ())


@pytest.mark.heavy
@given(kinships())
def test_payers_are_own_then_siblings_then_parents_then_sponsors(bill: Bill) -> None:
    found = payer_phases(bill.state, bill.request)
    expected = paying.phases(bill.bank, bill.purchase)
    assert [[(str(key), str(tier)) for key, tier in payers] for payers in found] == expected


@given(bills())
def test_no_limit_is_passed_counting_what_the_decision_takes(bill: Bill) -> None:
    answer = plan_cover(bill.state, bill.request, bill.asked())
    if isinstance(answer, Refusal):
        return
    assert paying.allowed(bill.bank, bill.purchase, _cells(answer))
    for index, (_, gpus) in enumerate(bill.demands):
        assert sum(leg.gpus for leg in answer.legs if leg.place == index) == gpus
    for leg in answer.legs:
        assert leg.gpus > 0
        assert leg.hold_ms == paying.hold_ms(bill.bank, bill.purchase, leg.payer)


def _bounds(bill: Bill) -> int:
    """Return the most shared limits over one payer; 2 if hours are limited."""
    bank, worst = bill.bank, 0
    for key, tier in paying.phases(bank, bill.purchase)[-1]:
        budget, line = bank.line(key)
        over = [cap for cap in budget.caps if line.name in cap.envelopes]
        if any(cap.gpu_ms_max is not None and len(cap.envelopes) > 1 for cap in over):
            return 2
        borrows = tier == paying.BORROWED and bill.purchase.borrow_max is not None
        worst = max(worst, sum(cap.concurrency_max is not None for cap in over) + borrows)
    return worst


@pytest.mark.heavy
@examples(5)
@given(bills())
def test_a_refusal_says_how_much_is_unpaid(bill: Bill) -> None:
    answer = plan_cover(bill.state, bill.request, bill.asked())
    if isinstance(answer, Covered):
        return
    wanted = sum(gpus for _, gpus in bill.demands)
    most = paying.most_payable(bill.bank, bill.purchase, bill.asked_of_oracle())
    assert answer.wanted == wanted
    assert 1 <= answer.short <= wanted
    if answer.code is RefusalCode.NO_ENVELOPE:
        assert most == 0
        return
    event(f"{answer.code}")
    missing = {s.where: s.short for s in answer.shortages if s.where in _PLACES}
    assert sum(missing.values()) == answer.short
    if _bounds(bill) > 1:
        # If limits overlap, the numbers are only a bound.
        return
    assert answer.short == wanted - most
    paid = [(_PLACES[where], gpus - missing.get(where, 0)) for where, gpus in bill.demands]
    payers = paying.phases(bill.bank, bill.purchase)[-1]
    assert next(paying.payments(bill.bank, bill.purchase, payers, paid), None) is not None
    lifted = replace(bill.purchase, borrow_max=None)
    unlimited = paying.most_payable(bill.bank, lifted, bill.asked_of_oracle())
    assert (answer.code is RefusalCode.BORROW_LIMIT) == (unlimited > most)


@given(bills())
def test_asking_changes_nothing_and_the_answer_is_the_same_again(bill: Bill) -> None:
    state = bill.state
    assert plan_cover(state, bill.request, bill.asked()) == plan_cover(
        state, bill.request, bill.asked()
    )
    assert plan_cover(state, bill.request, bill.asked()) == plan_cover(
        bill.state, bill.request, bill.asked()
    )


_SELECTORS = (
    (("region", "r"),),
    (("fabric.domain", "A"),),
    (("fabric.domain", "B"),),
    (("rack", "r1"),),
)


@st.composite
def knots(draw: st.DrawFn) -> Bill:
    """Draw one owner's open envelopes, most of them in several caps, and a demand that may fit.

    Envelopes that pay everywhere are first in the order, so taking the most from them is wrong if a
    later place has no other payer.
    """
    choose = chooser(draw)
    anywhere = choose.number(1, 2)
    lines = tuple(
        envelope(
            f"e{number}",
            choose.number(1, 4),
            selector=_SELECTORS[0] if number < anywhere else choose.one_of(_SELECTORS),
            end_ms=NOW_MS + choose.one_of([HOUR_MS // 2, 100 * HOUR_MS]),
        )
        for number in range(choose.number(2, 5))
    )
    caps = tuple(
        Cap(
            name=f"c{number}",
            flavor="H100",
            envelopes=tuple(choose.some([e.name for e in lines], 1, len(lines))),
            concurrency_max=choose.number(2, 6),
            gpu_ms_max=choose.one_of([None, None, None, HOUR_MS, 2 * HOUR_MS, 7 * HOUR_MS // 2]),
        )
        for number in range(choose.number(1, 4))
    )
    money = Budget(name="b0", owner="o0", envelopes=lines, caps=caps)
    request = CoverRequest(owner="o0", flavor="H100", now_ms=NOW_MS, duration_ms=HOUR_MS)
    where = choose.some(sorted(_PLACES), 2, 3)
    demands = tuple((name, choose.number(1, 3)) for name in where)
    return Bill({"o0": Owner(name="o0")}, (money,), (), request, demands)


@pytest.mark.heavy
@examples(10)
@given(knots())
def test_cover_unties_overlapping_caps(bill: Bill) -> None:
    _check(bill)
