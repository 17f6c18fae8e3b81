"""What ``Apply`` does against what is there."""

from __future__ import annotations

from quorate.core.commands import Applied, Apply, Change
from quorate.core.decide import decide
from quorate.model.apply import apply_all
from quorate.model.specs import Owner, Pool
from quorate.model.state import State
from quorate.testing.world import NOW_MS, budget, envelope, fleet, node, world


def test_nodes_of_the_same_file_count_when_promises_are_compared() -> None:
    specs: tuple[Applied, ...] = (
        *fleet({"A": 16}),
        Owner(name="team"),
        budget("b", "team", envelope("e", 24)),
    )
    decision = decide(State(), Apply(specs), now_ms=NOW_MS, actor="test")
    (warning,) = decision.warnings
    assert warning.startswith("envelopes promise 24 H100 GPUs where region=r, nodes have 16")
    fitting: tuple[Applied, ...] = (
        *fleet({"A": 24}),
        Owner(name="team"),
        budget("b", "team", envelope("e", 24)),
    )
    assert not decide(State(), Apply(fitting), now_ms=NOW_MS, actor="test").warnings


def test_nodes_can_be_read_as_soon_as_they_are_applied() -> None:
    state = world(nodes=fleet({"A": 16}))
    assert set(state.nodes) == {"a0000", "a0001"}
    assert set(state.overlay().nodes) == {"a0000", "a0001"}


def test_a_node_applied_again_with_more_gpus_keeps_what_is_taken() -> None:
    state = world(nodes=[node("n", 4)])
    state.occupy((("n", 0b0011),))
    apply_all(state, decide(state, Apply((node("n", 8),)), now_ms=NOW_MS, actor="t").events)
    assert [-free for free, _ in state.domain_order("default", "H100")] == [6]


def test_applying_the_same_again_changes_nothing() -> None:
    specs: tuple[Applied, ...] = (
        *fleet({"A": 8}),
        Owner(name="team"),
        Pool(name="p", selector=(("region", "x"),)),
    )
    state = State()
    first = decide(state, Apply(specs), now_ms=NOW_MS, actor="t")
    apply_all(state, first.events)
    again = decide(state, Apply(specs), now_ms=NOW_MS, actor="t")
    assert again.events == ()
    assert {change for _, _, change in again.changes} == {Change.UNCHANGED}
