"""``calc pack``: the nodes, the remaining GPUs, and the shortages."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run
from tests.unit.calc.drawn import fleet, node


def packed(world: dict[str, Any], gpus: int, **more: object) -> dict[str, Any]:
    return run("pack", {**world, "pack": {"totalGPUs": gpus, **more}})


def sizes(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(group["domain"][-1], group["size"]) for group in answer["groups"]]


def test_whole_answer_of_a_group_with_spares() -> None:
    world = {"flavor": "H100", "nodes": [node("a1", 8), node("a2", 4), node("b1", 4, "B")]}
    assert packed(world, 6, groupGPUs=6, sparesPerGroup=3) == {
        "groups": [
            {
                "index": 0,
                "size": 6,
                "domain": "west/c/A",
                "nodes": [("a1", 6)],
                "spareNodes": [("a2", 3)],
            }
        ],
        "residual": {"west/c/A": 3, "west/c/B": 4},
        "totalSpares": 3,
    }


def test_last_group_may_be_smaller() -> None:
    answer = packed(fleet(A=72, B=48), 96, groupGPUs=64)
    assert sizes(answer) == [("A", 64), ("B", 32)]
    assert answer["residual"] == {"west/c/A": 8, "west/c/B": 16}


def test_what_does_not_fit_is_refused_with_the_deficit_per_domain() -> None:
    answer = packed(fleet(A=72, B=48), 128, groupGPUs=64)
    assert answer["error"] == "InsufficientCapacity"
    refusal = answer["refusal"]
    assert (refusal["code"], refusal["wanted"], refusal["short"]) == (
        "insufficient-capacity",
        128,
        16,
    )
    assert [
        (s["where"], s["wanted"], s["available"], s["short"]) for s in refusal["shortages"]
    ] == [
        ("west/c/A", 64, 72, 0),
        ("west/c/B", 64, 48, 16),
    ]


def test_without_groups_one_domain_is_emptied_before_the_next() -> None:
    answer = packed(fleet(A=32, B=16), 40)
    assert sizes(answer) == [("A", 32), ("B", 8)]
    assert answer["residual"] == {"west/c/A": 0, "west/c/B": 8}


def test_group_goes_to_a_domain_in_use_before_a_freer_one() -> None:
    # After one group A has 8 free GPUs and B 16, but the second group stays in A.
    answer = packed(fleet(A=24, B=16), 16 + 8, groupGPUs=16)
    assert sizes(answer) == [("A", 16), ("A", 8)]


def test_classic_takes_the_most_free_node_and_tight_the_fullest_that_holds() -> None:
    world = {
        "flavor": "H100",
        "nodes": [node("a1"), node("a2"), node("a3")],
        "usage": {"a2": 6},
    }
    assert packed(world, 2)["groups"][0]["nodes"] == [("a1", 2)]
    assert packed({**world, "placement": "tight"}, 2)["groups"][0]["nodes"] == [("a2", 2)]
    assert packed(world, 2, placement="tight")["groups"][0]["nodes"] == [("a2", 2)]


def test_one_domain_takes_the_most_free_that_holds_it() -> None:
    answer = packed(fleet(A=16, B=24), 12, groupGPUs=8, allowCrossGroupSpread=False)
    assert sizes(answer) == [("B", 8), ("B", 4)]


def test_one_domain_that_nobody_has_is_insufficient_topology() -> None:
    answer = packed(fleet(A=16, B=24), 32, allowCrossGroupSpread=False)
    assert answer["error"] == "InsufficientTopology"
    assert answer["refusal"]["code"] == "no-single-domain"
    assert answer["refusal"]["short"] == 8


def test_one_domain_counts_the_spares() -> None:
    answer = packed(fleet(A=16), 16, allowCrossGroupSpread=False, sparesPerGroup=1)
    assert answer["error"] == "InsufficientTopology"


def test_spares_stay_in_their_groups_domain() -> None:
    answer = packed(fleet(A=16, B=8), 16, groupGPUs=16, sparesPerGroup=4)
    assert answer["error"] == "InsufficientCapacity"
    assert answer["refusal"]["short"] == 4


def test_flavor_nobody_has_is_insufficient_capacity() -> None:
    answer = packed({**fleet(A=8), "flavor": "TPU"}, 1)
    assert (answer["error"], answer["refusal"]["code"]) == ("InsufficientCapacity", "no-nodes")


def test_selector_and_whole_nodes_are_respected() -> None:
    world = {**fleet(A=16, B=16), "usage": {"b00": 1}}
    answer = packed(world, 8, selector={"fabric.domain": "B"}, wholeNodes=True)
    assert answer["groups"][0]["nodes"] == [("b01", 8)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"totalGPUs": 0}, "totalGPUs must be positive, got 0"),
        ({"totalGPUs": -4}, "totalGPUs must be positive, got -4"),
        ({"totalGPUs": 4, "groupGPUs": 0}, "groupGPUs must be positive when set, got 0"),
        ({"totalGPUs": 4, "sparesPerGroup": -1}, "sparesPerGroup must not be negative, got -1"),
    ],
)
def test_question_without_an_answer_is_an_invalid_request(
    asked: dict[str, int], message: str
) -> None:
    answer = run("pack", {**fleet(A=8), "pack": asked})
    assert answer == {"error": "InvalidRequest", "message": message}


def test_nodes_that_make_no_topology_are_answered_with_an_error() -> None:
    answer = packed({"flavor": "H100", "nodes": [node("n", 4)], "usage": {"n": 5}}, 1)
    assert answer == {"error": True, "message": 'node "n" uses 5 of 4 GPUs'}


@pytest.mark.parametrize(
    ("world", "path"),
    [
        (fleet(A=8), "pack"),
        ({**fleet(A=8), "pack": {}}, "pack.totalGPUs"),
        ({**fleet(A=8), "pack": {"totalGPUs": True}}, "pack.totalGPUs"),
        ({**fleet(A=8), "pack": {"totalGPUs": 1, "groups": 2}}, "pack.groups"),
        ({**fleet(A=8), "pack": {"totalGPUs": 1}, "placement": "loose"}, "placement"),
    ],
)
def test_world_that_cannot_be_read_is_refused_by_path(world: object, path: str) -> None:
    with pytest.raises(CalcInputError) as raised:
        run("pack", world)
    assert raised.value.path == path
