"""``Apply`` with documents that are new, equal or different."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.commands import Applied, Apply, Change, Complete, Removable, Remove, Submit
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS
from quorate.model.events import NodeApplied, PoolApplied
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Follow, Owner, Pool, RoundsWork
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run, world
from tests.oracles.lives import Life


def test_nodes_of_the_same_file_count_when_promises_are_compared() -> None:
    specs: tuple[Applied, ...] = (
        *fleet({"A": 16}),
        Owner(name="team"),
        budget("b", "team", envelope("e", 24)),
    )
    decision = decide(State(), Apply(specs), now_ms=NOW_MS, actor="test")
    (warning,) = decision.warnings
    assert warning.startswith(
        "envelopes promise 24 H100 GPUs in region=r, but the nodes there have 16"
    )
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


def test_pools_are_written_before_the_nodes_that_may_be_theirs() -> None:
    specs: tuple[Applied, ...] = (node("n", 8), Pool(name="p", selector=(("region", "r"),)))
    decision = decide(State(), Apply(specs), now_ms=NOW_MS, actor="t")
    assert [type(event) for event in decision.events] == [PoolApplied, NodeApplied]


def test_what_is_said_of_rounds_is_refused_where_there_are_none() -> None:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    for pool, codes in (
        ("default", [RefusalCode.INVALID]),
        ("nowhere", [RefusalCode.UNKNOWN_NAME, RefusalCode.INVALID]),
    ):
        asked = Submit(run("r", 8, pool=pool, rounds=RoundsWork(weight=2.0)))
        decision = decide(state, asked, now_ms=NOW_MS, actor="t")
        assert [refusal.code for refusal in decision.refusals] == codes


def state_with_a_run() -> State:
    """Return a state in which a run of four GPUs is expected to take two hours."""
    state = world(nodes=[node("n", 8)], budgets=[budget("b", "team", envelope("e", 8))])
    asked = Submit(run("r", 4, expected_duration_ms=2 * HOUR_MS))
    apply_all(state, decide(state, asked, now_ms=NOW_MS, actor="t").events)
    assert state.runs["r"].leases
    return state


def test_a_node_in_use_that_a_second_pool_selects_too_is_refused_once() -> None:
    mine = Pool(name="p1", selector=(("region", "r"),))
    state = world(
        nodes=[node("n", 8)], budgets=[budget("b", "team", envelope("e", 8))], pools=[mine]
    )
    asked = Submit(run("r", 4, pool="p1"))
    apply_all(state, decide(state, asked, now_ms=NOW_MS, actor="t").events)
    assert state.runs["r"].leases
    other = Apply((replace(mine, name="p2"),))
    (refusal,) = decide(state, other, now_ms=NOW_MS, actor="t").refusals
    assert "pools 'p1' and 'p2' both select it" in refusal.subject


def test_an_envelope_keeps_what_it_has_spent_when_nothing_runs_any_more() -> None:
    state = state_with_a_run()
    done = decide(state, Complete("r"), now_ms=NOW_MS + HOUR_MS, actor="t")
    apply_all(state, done.events)
    for hours, said in ((4, []), (3, ["4 GPU-hours are spent or held already"])):
        lowered = budget("b", "team", envelope("e", 8, gpu_ms_max=hours * HOUR_MS))
        decision = decide(state, Apply((lowered,)), now_ms=NOW_MS + HOUR_MS, actor="t")
        assert [s for s, r in zip(said, decision.refusals, strict=True) if s in r.subject] == said


def test_a_window_does_not_begin_after_what_it_pays_for_unless_that_is_let_in_early() -> None:
    state = state_with_a_run()
    late = envelope("e", 8, start_ms=NOW_MS + 1)
    (refusal,) = decide(
        state, Apply((budget("b", "team", late),)), now_ms=NOW_MS, actor="t"
    ).refusals
    assert "the flavor, selector or window excludes them" in refusal.subject
    early = replace(late, allow_admission=True)
    assert not decide(
        state, Apply((budget("b", "team", early),)), now_ms=NOW_MS, actor="t"
    ).refusals


def test_a_budget_that_has_paid_is_not_given_to_another_owner() -> None:
    """Otherwise the new owner's statement would show the old owner's spending and its users."""
    owners = [Owner(name="team"), Owner(name="other")]
    life = Life(
        nodes=fleet({"A": 8}), owners=owners, budgets=[budget("b", "team", envelope("e", 8))]
    )
    moved = Apply((budget("b", "other", envelope("e", 8)),))
    assert not life.ask(moved).refusals  # It has not paid for anything yet.
    life.do(Submit(run("r", 8)))
    life.do(Complete("r"), NOW_MS + HOUR_MS)
    for _ in ("as it is", "deleted"):
        (refusal,) = life.ask(moved).refusals
        assert refusal.code is RefusalCode.CONFLICT
        assert refusal.subject == (
            "Budget/b: spec.owner: envelope 'e' has paid, or has reserved hours, for 'team'"
        )
        if "b" in life.state.budgets:
            life.do(Remove(Removable.BUDGET, "b"))
    life.do(Apply((budget("b", "other", envelope("new", 8)),)))
    life.do(Remove(Removable.BUDGET, "b"))
    life.do(Apply((budget("b", "team", envelope("e", 8)),)))
