"""The limits that a search of payers keeps agree with the accounts, and its check with a flow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.admission.cover import payer_phases
from quorate.core.admission.cover_search import Relaxation, choices_of, payable, rooms_of
from quorate.core.admission.payer_limits import DEMANDS_MAX, PayerLimits, can_pay
from quorate.core.admission.payers import PayerList
from quorate.core.admission.payment_check import PLACES_MAX, PaymentCheck
from quorate.model.specs import EnvelopeId
from tests.property.test_cover import Bill, bills, loans


@given(bill=st.one_of(bills(), loans()), data=st.data())
def test_kept_limits_are_those_of_the_accounts_whatever_is_taken(
    bill: Bill, data: st.DataObject
) -> None:
    state, request = bill.state, bill.request
    payers = PayerList(state, request, payer_phases(state, request)[-1])
    kept = [(key, tier, PayerLimits.of(payers, key, tier)) for key, tier in payers.payers]
    for key, tier, limits in kept:
        payers.take(key, tier, data.draw(st.integers(0, limits.room(payers)), f"taken of {key}"))
    assert [limits.room(payers) for *_, limits in kept] == [
        payers.room(key, tier) for key, tier, _ in kept
    ]


@given(bill=st.one_of(bills(), loans()), data=st.data())
def test_the_quick_check_agrees_with_a_maximum_flow(bill: Bill, data: st.DataObject) -> None:
    state, request = bill.state, bill.request
    payers = PayerList(state, request, payer_phases(state, request)[-1])
    demands = bill.asked()
    assert len(demands) <= DEMANDS_MAX
    choices = choices_of(payers, demands, rooms_of(payers))
    kept = {key: PayerLimits.of(payers, key, tier) for _, key, tier in choices}
    for _, key, tier in choices:
        payers.take(key, tier, data.draw(st.integers(0, kept[key].room(payers)), f"of {key}"))
    left = [data.draw(st.integers(0, gpus), "left") for _, gpus in demands]
    rest = choices[data.draw(st.integers(0, len(choices)), "from") :]
    served: dict[EnvelopeId, int] = {}
    for index, key, _ in rest:
        served[key] = served.get(key, 0) | 1 << index
    is_paid = can_pay(payers, left, [(kept[key], each) for key, each in served.items()])
    assert is_paid == (Relaxation.build(payers, rest, left).fill(left) == left)


@given(bill=st.one_of(bills(), loans()), data=st.data())
def test_the_check_of_many_divisions_agrees_with_a_maximum_flow(
    bill: Bill, data: st.DataObject
) -> None:
    state, request = bill.state, bill.request
    payers = PayerList(state, request, payer_phases(state, request)[-1])
    check, asked = PaymentCheck(payers), bill.asked()
    assert len(asked) <= PLACES_MAX
    for _ in range(3):
        places = data.draw(st.permutations([place for place, _ in asked]), "places")
        some = places[: data.draw(st.integers(1, len(places)), "how many")]
        demands = [(place, data.draw(st.integers(1, 12), "gpus")) for place in some]
        is_paid = payable(payers, demands) == [gpus for _, gpus in demands]
        assert check.could_pay(demands) == is_paid
