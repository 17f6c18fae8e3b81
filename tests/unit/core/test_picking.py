"""The nodes of a placement, with nodes of different sizes or whole nodes: ADR-0007."""

from __future__ import annotations

import pytest

from quorate.core.admission.layout import pack_request
from quorate.core.admission.pack import PackPlan, pack_gang
from quorate.core.commands import Submit
from quorate.core.decide import decide
from quorate.model.events import NodeApplied
from quorate.model.specs import DEFAULT_POOL, Placement, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run, world


def packed(
    state: State, asked: Run, **rules: object
) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Return, for each group, how many GPUs of which node it takes, and its spares."""
    pool = Pool(name=DEFAULT_POOL, **rules)  # type: ignore[arg-type]
    plan = pack_gang(state, pack_request(asked, pool, "H100", asked.gpus))
    assert isinstance(plan, PackPlan), plan
    return [
        (
            {name: mask.bit_count() for name, mask in group.slots},
            {name: mask.bit_count() for name, mask in group.spare_slots},
        )
        for group in plan.groups
    ]


def two_sizes(*, used: int = 3, eight: str = "b", four: str = "a") -> State:
    """Return a node of eight with some GPUs in use, and an unused one of four."""
    state = world(nodes=[node(eight, 8)], budgets=[budget("b", "team", envelope("e", 64))])
    apply_all(state, decide(state, Submit(run("r", used)), now_ms=NOW_MS, actor="test").events)
    apply_all(state, [NodeApplied(at_ms=NOW_MS, actor="test", node=node(four, 4))])
    return state


@pytest.mark.parametrize(
    ("gpus", "taken"),
    [
        (1, {"b": 1}),
        (3, {"b": 3}),
        (4, {"a": 4}),
        (5, {"b": 5}),
        (6, {"b": 5, "a": 1}),
        (9, {"b": 5, "a": 4}),
    ],
)
def test_tight_breaks_nothing_while_something_broken_will_do(
    gpus: int, taken: dict[str, int]
) -> None:
    assert packed(two_sizes(), run("q", gpus)) == [(taken, {})]


def test_tight_puts_a_smaller_group_on_the_fullest_node_and_not_beside_its_sibling() -> None:
    state = world(nodes=[node("a", 8)], budgets=[budget("b", "team", envelope("e", 64))])
    apply_all(state, decide(state, Submit(run("r", 5)), now_ms=NOW_MS, actor="test").events)
    apply_all(state, [NodeApplied(at_ms=NOW_MS, actor="test", node=node("b", 8))])
    assert packed(state, run("q", 6, group_gpus=4)) == [({"b": 4}, {}), ({"a": 2}, {})]


def test_tight_breaks_no_other_node_while_what_a_sibling_has_broken_will_do() -> None:
    state = world(nodes=[node("a", 2), node("b", 8)])
    assert packed(state, run("q", 6, group_gpus=5)) == [({"b": 5}, {}), ({"b": 1}, {})]


def test_tight_takes_an_untouched_node_whole_before_another_with_as_much_free() -> None:
    state = two_sizes(used=4, eight="a", four="b")
    assert packed(state, run("q", 6)) == [({"b": 4, "a": 2}, {})]


@pytest.mark.parametrize(("gpus", "taken"), [(1, {"b": 1}), (4, {"b": 4}), (6, {"b": 5, "a": 1})])
def test_classic_takes_the_node_with_the_most_free(gpus: int, taken: dict[str, int]) -> None:
    assert packed(two_sizes(), run("q", gpus), placement=Placement.CLASSIC) == [(taken, {})]


def test_groups_of_whole_nodes_share_a_domain_node_by_node() -> None:
    state = world(nodes=fleet({"A": 40}))
    asked = run("q", 24, group_gpus=16)
    assert packed(state, asked, whole_nodes=True) == [
        ({"a0000": 8, "a0001": 8}, {}),
        ({"a0002": 8}, {}),
    ]


def test_a_group_of_whole_nodes_fills_them_with_its_spares() -> None:
    state = world(nodes=fleet({"A": 40}))
    asked = run("q", 20, group_gpus=10, spares_per_group=6)
    groups = packed(state, asked, whole_nodes=True)
    assert [sum(working.values()) for working, _ in groups] == [10, 10]
    used: dict[str, int] = {}
    for working, spare in groups:
        for name, gpus in (*working.items(), *spare.items()):
            used[name] = used.get(name, 0) + gpus
    assert used == {"a0000": 8, "a0001": 8, "a0002": 8, "a0003": 8}
