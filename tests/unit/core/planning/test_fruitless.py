"""Runs that nothing can start do not keep others of their owner from starting."""

from __future__ import annotations

from quorate.core.commands import Submit
from quorate.core.decide import decide
from quorate.core.planning.walk import FRUITLESS_MAX
from quorate.model.apply import apply_all
from quorate.model.events import RunRefused
from quorate.model.records import Phase
from quorate.testing.world import NOW_MS, budget, envelope, fleet, run, world


def test_a_run_starts_behind_many_of_its_owner_that_nothing_can_start() -> None:
    money = budget("b", "o", envelope("e", 16))
    state = world(nodes=fleet({"A": 16}), budgets=[money])
    for number in range(FRUITLESS_MAX + 2):
        submitted = Submit(run(f"huge{number}", 17, "o"))
        decision = decide(state, submitted, now_ms=NOW_MS, actor="test")
        apply_all(state, decision.events)
        refused = [each.run for each in decision.events if isinstance(each, RunRefused)]
        assert refused == [f"huge{number}"]
    apply_all(state, decide(state, Submit(run("small", 1, "o")), now_ms=NOW_MS, actor="t").events)
    assert state.runs["small"].phase is Phase.RUNNING
