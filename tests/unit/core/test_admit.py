"""Admission: if the search for a larger width is abandoned, a run still gets its least width."""

from __future__ import annotations

import pytest

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.layout import bundles_of
from quorate.core.admission.search_budget import SearchBudget
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Malleable
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run, world
from tests.oracles.counting import counting


@pytest.mark.heavy
def test_however_long_the_search_for_more_was_the_least_width_is_searched_in_full() -> None:
    # Eight racks, and money for the last one only, which is found after all other ways.
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
    # Several attempts share one budget of steps, which is not renewed.
    assert isinstance(admit(state, elastic, NOW_MS, steps=SearchBudget()), Refusal)


def test_widths_for_which_too_few_gpus_are_free_are_not_laid_out() -> None:
    """One such run in the queue made each decision take seconds."""
    flavors = ("H100", "A100", "L40")
    state = world(nodes=fleet({"A": 24}), budgets=[budget("b", "team", envelope("e", 999))])
    wide = Malleable(gpus_min=20, gpus_max=120, gpus_step=1, gpus_desired=120)
    spec = run("r", 120, malleable=wide, flavors=flavors, group_gpus=3)
    with counting(bundles_of) as laid_out:
        admitted = admit(state, spec, NOW_MS)
    assert isinstance(admitted, Admitted)
    assert admitted.width == 24
    assert laid_out[0] == 1
