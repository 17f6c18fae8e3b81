"""The refusal of a waiting run: the right reason, the right numbers, the right place."""

from __future__ import annotations

from quorate.core.admission.admit import Admitted, admit
from quorate.core.commands import Submit
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS
from quorate.model.refusal import Refusal, RefusalCode, sentence
from quorate.model.selector import Selector
from quorate.model.specs import Cap, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world


def at(domain: str) -> Selector:
    return (("fabric.domain", domain),)


def refusal_of(state: State, asked: Run) -> Refusal:
    answer = admit(state, asked, NOW_MS)
    assert not isinstance(answer, Admitted), answer
    return answer


def start(state: State, asked: Run) -> None:
    apply_all(state, decide(state, Submit(asked), now_ms=NOW_MS, actor="test").events)
    assert state.runs[asked.name].leases


def test_no_envelope_means_that_no_place_of_the_flavor_is_paid_for() -> None:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "other", envelope("e", 8))])
    assert refusal_of(state, run("r", 8)).code is RefusalCode.NO_ENVELOPE


def test_money_that_is_used_up_where_it_pays_is_short_and_not_absent() -> None:
    # E is free but has no payer; A has a payer, but is full.
    line = envelope("e", 16, selector=at("A"))
    state = world(nodes=fleet({"A": 16, "E": 8}), budgets=[budget("b", "team", line)])
    start(state, run("first", 16))
    refusal = refusal_of(state, run("r", 8))
    assert (refusal.code, refusal.wanted, refusal.short) == (RefusalCode.INSUFFICIENT_FUNDS, 8, 8)
    assert refusal.also is not None
    assert refusal.also.code is RefusalCode.INSUFFICIENT_CAPACITY


def test_room_where_nobody_pays_is_told_apart_from_no_room() -> None:
    line = envelope("e", 64, selector=at("A"))
    state = world(nodes=fleet({"A": 16, "E": 8}), budgets=[budget("b", "team", line)])
    start(state, run("first", 16))
    refusal = refusal_of(state, run("r", 8))
    assert (refusal.code, refusal.short) == (RefusalCode.FUNDS_ELSEWHERE, 8)
    assert [shortage.where for shortage in refusal.shortages] == ["r/c/A"]
    assert "short by 8 of 8" in sentence(refusal)


def test_too_few_hours_are_short_with_numbers() -> None:
    line = envelope("e", 8, gpu_ms_max=100 * HOUR_MS)
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", line)])
    refusal = refusal_of(state, run("r", 8, expected_duration_ms=20 * HOUR_MS))
    assert (refusal.code, refusal.short) == (RefusalCode.INSUFFICIENT_FUNDS, 4)
    assert [s.limit for s in refusal.shortages if s.where == "b/e"] == ["GPU-hours spent or held"]


def test_a_cap_that_is_the_only_obstacle_is_named() -> None:
    lines = (envelope("w", 16, selector=at("A")), envelope("wb", 4, selector=at("B")))
    cap = Cap(name="cap", flavor="H100", envelopes=("w", "wb"), concurrency_max=18)
    state = world(
        nodes=fleet({"A": 16, "B": 8, "E": 8}), budgets=[budget("b", "team", *lines, caps=[cap])]
    )
    refusal = refusal_of(state, run("r", 20))
    assert (refusal.code, refusal.short) == (RefusalCode.INSUFFICIENT_FUNDS, 2)
    assert [s.available for s in refusal.shortages if s.where == "cap b/cap"] == [18]


def test_the_deficit_counts_a_smaller_last_group_where_it_can_go() -> None:
    state = world(
        nodes=fleet({"A": 72, "B": 48}), budgets=[budget("b", "team", envelope("e", 200))]
    )
    refusal = refusal_of(state, run("r", 113, group_gpus=64))
    assert refusal.code is RefusalCode.INSUFFICIENT_CAPACITY
    assert [(s.where, s.wanted, s.available) for s in refusal.shortages] == [
        ("r/c/A", 64, 72),
        ("r/c/B", 49, 48),
    ]
    assert "empty fleet" in refusal.remedy


def test_of_several_flavors_the_least_short_is_told() -> None:
    nodes = [*fleet({"A": 16}), *fleet({"N": 4}, flavor="A100")]
    lines = (envelope("h", 64), envelope("a", 64, flavor="A100"))
    state = world(nodes=nodes, budgets=[budget("b", "team", *lines)])
    refusal = refusal_of(state, run("r", 24, flavors=("A100", "H100")))
    assert (refusal.subject, refusal.short) == ("H100", 8)
