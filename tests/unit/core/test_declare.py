"""What ``Apply`` does against what is there."""

from __future__ import annotations

from quorate.core.commands import Applied, Apply, Change, Submit
from quorate.core.decide import decide
from quorate.model.apply import apply_all
from quorate.model.specs import Follow, Owner, Pool
from quorate.model.state import State
from quorate.testing.world import NOW_MS, budget, envelope, fleet, node, run, world


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


def after(*names: str) -> Follow:
    return Follow(after=names)


def test_a_run_may_stand_before_the_one_it_follows() -> None:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    specs = (run("second", 1, follow=after("first")), run("first", 1))
    decision = decide(state, Apply(specs), now_ms=NOW_MS, actor="t")
    assert not decision.refusals
    apply_all(state, decision.events)
    assert state.runs["first"].seq < state.runs["second"].seq


def test_runs_that_follow_each_other_in_a_circle_are_refused_once() -> None:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    specs = tuple(
        run(name, 1, follow=after(other)) for name, other in (("a", "b"), ("b", "c"), ("c", "a"))
    )
    (refusal,) = decide(state, Apply(specs), now_ms=NOW_MS, actor="t").refusals
    assert "makes a cycle: a -> b -> c -> a" in refusal.subject


def test_parents_in_a_circle_are_refused_once() -> None:
    specs = tuple(
        Owner(name=name, parents=(other,)) for name, other in (("a", "b"), ("b", "c"), ("c", "a"))
    )
    (refusal,) = decide(State(), Apply(specs), now_ms=NOW_MS, actor="t").refusals
    assert "makes a cycle: a -> b -> c -> a" in refusal.subject


def test_what_waited_is_tried_before_a_run_of_the_same_file_takes_its_room() -> None:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 16))])
    for name in ("first", "waits"):
        events = decide(state, Submit(run(name, 8)), now_ms=NOW_MS, actor="t").events
        apply_all(state, events)
    specs = (node("extra", 8, "A"), run("new", 8))
    apply_all(state, decide(state, Apply(specs), now_ms=NOW_MS, actor="t").events)
    assert state.runs["waits"].leases
    assert not state.runs["new"].leases
