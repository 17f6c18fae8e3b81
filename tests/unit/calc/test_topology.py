"""``calc topology``: domains in order, and invalid input."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run
from tests.unit.calc.drawn import fleet, node


def test_domains_are_listed_most_free_first_then_by_key() -> None:
    world = {
        "flavor": "H100",
        "nodes": [node("c1", 8, "C"), node("b1", 4, "B"), node("a1", 8, "A"), node("a0", 2, "A")],
        "usage": {"a1": 2},
    }
    answer = run("topology", world)
    assert answer == {
        "domains": [
            {"key": "west/c/A", "free": 8, "total": 10, "nodes": ["a0", "a1"]},
            {"key": "west/c/C", "free": 8, "total": 8, "nodes": ["c1"]},
            {"key": "west/c/B", "free": 4, "total": 4, "nodes": ["b1"]},
        ],
        "largest": "west/c/A",
        "totalFree": 20,
    }


def test_other_flavors_are_left_out_whatever_is_wrong_with_them() -> None:
    world = {
        "flavor": "H100",
        "nodes": [node("a"), node("old", 8, "B", "V100"), {"name": "bare", "gpus": 3}],
        "usage": {"old": 99},
    }
    assert run("topology", world)["totalFree"] == 8


def test_place_and_flavor_may_be_labels_and_a_field_wins() -> None:
    labels = {"region": "east", "cluster": "c", "fabric.domain": "D", "gpu.flavor": "H100"}
    world = {"nodes": [{"name": "n", "gpus": 8, "region": "west", "labels": labels}]}
    assert run("topology", world)["largest"] == "west/c/D"


def test_flavor_nobody_has_is_an_empty_topology() -> None:
    answer = run("topology", {**fleet(A=8), "flavor": "TPU"})
    assert answer == {"domains": [], "largest": None, "totalFree": 0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": [node("n") | {"domain": None}]}, 'node "n" missing topology labels'),
        ({"nodes": [node("n", 4)], "usage": {"n": 5}}, 'node "n" uses 5 of 4 GPUs'),
        ({"nodes": [node("n", 4)], "usage": {"n": -1}}, 'node "n" uses -1 of 4 GPUs'),
    ],
)
def test_nodes_that_make_no_topology_are_answered_with_an_error(
    changes: dict[str, Any], message: str
) -> None:
    answer = run("topology", {"flavor": "H100", **changes})
    assert answer["error"] is True
    assert str(answer["message"]).startswith(message)


@pytest.mark.parametrize(
    ("world", "path"),
    [
        ([], "world"),
        ({}, "nodes"),
        ({"nodes": {}}, "nodes"),
        ({"nodes": [node("n") | {"gpus": "8"}]}, "nodes[0].gpus"),
        ({"nodes": [node("n") | {"gpus": 8.5}]}, "nodes[0].gpus"),
        ({"nodes": [node("n") | {"gpus": 10**9}]}, "nodes[0].gpus"),
        ({"nodes": [{"gpus": 8}]}, "nodes[0].name"),
        ({"nodes": [node("n") | {"color": "red"}]}, "nodes[0].color"),
        ({"nodes": [node("n"), node("n")]}, "nodes[1].name"),
        ({"nodes": [node("n"), node("m", flavor="V100")]}, "flavor"),
        ({"nodes": [node("n")], "usage": {"other": 1}}, "usage.other"),
        ({"nodes": [node("n")], "noodles": 1}, "noodles"),
    ],
)
def test_world_that_cannot_be_read_is_refused_by_path(world: object, path: str) -> None:
    with pytest.raises(CalcInputError) as raised:
        run("topology", world)
    assert raised.value.path == path
    assert raised.value.message


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(CalcInputError, match="must be one of topology, pack, cover"):
        run("astrology", {})


def test_endless_nesting_is_refused() -> None:
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(CalcInputError, match="nest deeper"):
        run("topology", {"nodes": nested})
