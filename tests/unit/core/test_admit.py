"""Admission: a search for more that is given up does not cost a run what it is content with."""

from __future__ import annotations

import pytest

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.search_budget import SearchBudget
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Malleable
from quorate.testing.builders import NOW_MS, budget, envelope, node, run, world


@pytest.mark.heavy
def test_however_long_the_search_for_more_was_the_least_width_is_searched_in_full() -> None:
    # Eight racks, and money for the last alone: where it is is found after all other ways.
    there = (("region", "r"), ("rack", "r7"))
    state = world(
        nodes=[node(f"n{number}", 8, rack=f"r{number}") for number in range(8)],
        budgets=[budget("b", "team", envelope("e", 64, selector=there))],
    )
    wide = admit(state, run("wide", 32), NOW_MS)
    assert isinstance(wide, Refusal)
    assert wide.code is RefusalCode.SEARCH_LIMIT
    grid = Malleable(gpus_min=2, gpus_max=32, gpus_step=30, gpus_desired=32)
    elastic = run("elastic", 32, malleable=grid)
    found = admit(state, elastic, NOW_MS)
    assert isinstance(found, Admitted)
    assert found.plan.nodes == {"n7"}
    # A budget of steps that several attempts share is not renewed.
    assert isinstance(admit(state, elastic, NOW_MS, steps=SearchBudget()), Refusal)
