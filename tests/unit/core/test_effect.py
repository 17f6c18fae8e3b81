"""The effect of a change: what differs between the states before and after."""

from __future__ import annotations

from quorate.core.commands import Complete, Shrink, Submit
from quorate.core.explain.change_effect import Moved, Picture, effect_between
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Malleable
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.lives import Life


def test_a_change_is_told_by_whose_width_place_and_start_it_changes() -> None:
    life = Life(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 32))])
    elastic = Malleable(gpus_min=2, gpus_max=4, gpus_step=1, gpus_desired=4)
    life.do(Submit(run("m", 4, malleable=elastic, expected_duration_ms=9 * HOUR_MS)))
    for name in ("a", "b", "c"):
        life.do(Submit(run(name, 4, expected_duration_ms=HOUR_MS)))
    before = Picture.of(life.state, NOW_MS)
    assert (before.widths, before.places) == ({"m": 4, "a": 4}, {"b": 1, "c": 2})
    life.do(Shrink("m", 3))
    life.do(Complete("a"))
    after = Picture.of(life.state, NOW_MS)
    found = effect_between(before, after, life.state)
    assert found.shrunk == (Moved("m", 4, 3),)
    assert (found.grown, found.stopped, found.started) == ((), ("a",), ("b",))
    assert found.places == (Moved("c", 2, 1),)
    assert effect_between(after, before, life.state).grown == (Moved("m", 3, 4),)
    assert not effect_between(after, after, life.state)
