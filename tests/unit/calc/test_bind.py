"""``calc bind``: parts and payers joined, and errors if they do not add up."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run


def group(index: int, nodes: list[list[object]], **more: object) -> dict[str, Any]:
    size = sum(int(str(gpus)) for _, gpus in nodes)
    return {"index": index, "size": size, "nodes": nodes, **more}


def segment(payer: str, quantity: int, **more: object) -> dict[str, Any]:
    budget, envelope = payer.split("/")
    return {"budget": budget, "envelope": envelope, "owner": budget, "quantity": quantity, **more}


def bound(groups: list[dict[str, Any]], segments: list[dict[str, Any]]) -> Any:
    return run("bind", {"bind": {"groups": groups, "segments": segments}})


def slices(answer: Any) -> list[tuple[str, str, str, int, str]]:
    return [(s["group"], s["role"], s["node"], s["gpus"], s["budget"]) for s in answer["slices"]]


def test_whole_slice() -> None:
    answer = bound([group(3, [["n", 2]])], [segment("b/e", 2, borrowed=True)])
    assert answer == {
        "slices": [
            {
                "group": "3",
                "node": "n",
                "gpus": 2,
                "budget": "b",
                "envelope": "e",
                "owner": "b",
                "borrowed": True,
                "role": "Active",
                "reason": "Start",
            }
        ]
    }


def test_payers_are_used_up_in_order_across_chunks_and_groups() -> None:
    groups = [group(0, [["n1", 4], ["n2", 2]]), group(1, [["n2", 2], ["n3", 4]])]
    answer = bound(groups, [segment("a/e", 5), segment("b/e", 2), segment("c/e", 5)])
    assert slices(answer) == [
        ("0", "Active", "n1", 4, "a"),
        ("0", "Active", "n2", 1, "a"),
        ("0", "Active", "n2", 1, "b"),
        ("1", "Active", "n2", 1, "b"),
        ("1", "Active", "n2", 1, "c"),
        ("1", "Active", "n3", 4, "c"),
    ]


def test_spares_come_after_every_group() -> None:
    groups = [
        group(0, [["n1", 2]], spares=1, spareNodes=[["n3", 1]]),
        group(1, [["n2", 2]], spares=1, spareNodes=[["n4", 1]]),
    ]
    answer = bound(groups, [segment("a/e", 4), segment("b/e", 2)])
    assert slices(answer) == [
        ("0", "Active", "n1", 2, "a"),
        ("1", "Active", "n2", 2, "a"),
        ("0", "Spare", "n3", 1, "b"),
        ("1", "Spare", "n4", 1, "b"),
    ]


def test_two_segments_of_one_envelope_stay_two_slices() -> None:
    answer = bound([group(0, [["n", 3]])], [segment("a/e", 1), segment("a/e", 2)])
    assert [gpus for _, _, _, gpus, _ in slices(answer)] == [1, 2]


def test_nothing_to_bind_is_no_slices() -> None:
    assert bound([], []) == {"slices": []}
    assert bound([], [segment("a/e", 0)]) == {"slices": []}


@pytest.mark.parametrize(
    ("groups", "segments", "error"),
    [
        (
            [group(0, [["n", 4]])],
            [segment("a/e", 3)],
            "cover plan exhausted before assignments completed",
        ),
        ([group(0, [["n", 4]])], [], "cover plan exhausted before assignments completed"),
        (
            [group(0, [["n", 4]])],
            [segment("a/e", 5)],
            "unused cover quantity remains after placement",
        ),
        (
            [group(0, [["n", 4]]), group(7, [["m", 4], ["o", 0]])],
            [segment("a/e", 8)],
            "non-positive placement chunk (0 GPUs on o) for group 7",
        ),
        (
            [group(2, [["n", 4]], spares=1, spareNodes=[["m", -1], ["o", 2]])],
            [segment("a/e", 5)],
            "non-positive placement chunk (-1 GPUs on m) for group 2",
        ),
        (
            [group(1, [["n", 4]], spares=2)],
            [segment("a/e", 4)],
            "spare allocation mismatch for group 1",
        ),
        (
            [{"index": 1, "size": 5, "nodes": [["n", 4]]}],
            [segment("a/e", 4)],
            "active allocation mismatch for group 1",
        ),
        (
            [group(0, [["n", 4]])],
            [segment("a/e", 5), segment("b/e", -1)],
            "negative cover quantity (-1 GPUs of b/e)",
        ),
    ],
)
def test_what_does_not_add_up_is_the_answer(
    groups: list[dict[str, Any]], segments: list[dict[str, Any]], error: str
) -> None:
    assert bound(groups, segments) == {"error": error}


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({}, "bind.groups"),
        ({"groups": []}, "bind.segments"),
        ({"groups": [{"size": 1, "nodes": []}], "segments": []}, "bind.groups[0].index"),
        (
            {"groups": [{"index": 0, "size": 1, "nodes": [["n"]]}], "segments": []},
            "bind.groups[0].nodes[0]",
        ),
        (
            {"groups": [{"index": 0, "size": 1, "nodes": [["n", "1"]]}], "segments": []},
            "bind.groups[0].nodes[0][1]",
        ),
        ({"groups": [], "segments": [{"quantity": 1}]}, "bind.segments[0].budget"),
        ({"groups": [], "segments": [], "leases": []}, "bind.leases"),
    ],
)
def test_world_that_cannot_be_read_is_refused_by_path(asked: object, path: str) -> None:
    with pytest.raises(CalcInputError) as raised:
        run("bind", {"bind": asked})
    assert raised.value.path == path
