"""A run with different payers in several domains starts as soon as it can."""

from __future__ import annotations

import pytest

from quorate.core.commands import Submit
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, node
from tests.oracles.plans import alone, of, planned_life, start_ms_of


@pytest.mark.parametrize("others_wait", [False, True])
def test_run_is_divided_as_its_payers_can_pay_whether_others_wait_or_not(
    others_wait: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Domain A has room for the whole run, but its payers pay for only half of it there."""
    lines = [
        alone(envelope(name, 2, selector=(("fabric.domain", domain),)))
        for name, domain in (("here", "A"), ("there", "B"))
    ]
    life = planned_life(
        nodes=[node("a0", 4, "A"), node("b0", 4, "B")], budgets=[budget("b-two", "two", *lines)]
    )
    if others_wait:
        life.do(Submit(of("never", 64)))
        assert life.phase("never") is Phase.PENDING
    life.do(Submit(of("divided", 4, "two")))
    assert start_ms_of(life, "divided") == NOW_MS
    assert set(life.on("divided")) == {"a0", "b0"}
