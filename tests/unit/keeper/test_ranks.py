"""The processes of a run, and the environment of each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.keeper.ranks import ranks_of
from quorate.keeper.wanted import Slot, Work

WORK = Work(run="r", command=("true",), env={}, working_dir="/", processes="gpu", grace_ms=1)
SLOTS: list[Slot] = [("a", 3), ("a", 1), ("b", 0), ("a", 2)]

KEYS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES")


@pytest.mark.parametrize(
    ("processes", "told"),
    [
        (
            "gpu",
            [
                ("a", "1,2,3", 0, 4, 0, 3, 0, 2),
                ("a", "1,2,3", 1, 4, 1, 3, 0, 2),
                ("a", "1,2,3", 2, 4, 2, 3, 0, 2),
                ("b", "0", 3, 4, 0, 1, 1, 2),
            ],
        ),
        ("node", [("a", "1,2,3", 0, 2, 0, 1, 0, 2), ("b", "0", 1, 2, 0, 1, 1, 2)]),
        ("run", [("a", "1,2,3", 0, 1, 0, 1, 0, 2)]),
    ],
)
def test_what_each_process_is_told(processes: str, told: list[tuple[object, ...]]) -> None:
    found = ranks_of(replace(WORK, processes=processes), SLOTS, 4711, 2)
    assert [
        (rank.node, rank.env["CUDA_VISIBLE_DEVICES"], *(int(rank.env[key]) for key in KEYS))
        for rank in found
    ] == told
    assert {rank.env["MASTER_PORT"] for rank in found} == {"4711"}
    assert {rank.env["QUORATE_GENERATION"] for rank in found} == {"2"}
    assert sorted(slot for rank in found for slot in rank.slots) == sorted(SLOTS)


@pytest.mark.parametrize(
    ("processes", "lost", "hit"),
    [
        ("gpu", [("a", 1), ("a", 2), ("a", 3)], [0, 1, 2]),
        ("gpu", [("a", 2)], [1]),
        ("node", [("a", 2)], [0]),
        ("node", [("b", 0)], [1]),
        ("run", [("a", 2)], [0]),
        ("run", [("b", 0)], []),
        ("gpu", [("c", 1)], []),
    ],
)
def test_who_has_lost_what_it_works_on(processes: str, lost: list[Slot], hit: list[int]) -> None:
    found = ranks_of(replace(WORK, processes=processes), SLOTS, 4711, 2)
    assert [rank.number for rank in found if rank.is_hit(lost)] == hit


def test_a_process_of_a_round_is_told_for_how_many_steps_and_how_long() -> None:
    work = replace(WORK, round_steps=900, round_ms=359_500, round_until_ms=1_700_000_360_000)
    for rank in ranks_of(work, SLOTS, 4711, 2):
        assert rank.env["QUORATE_LEASE_STEPS"] == "900"
        assert rank.env["QUORATE_LEASE_SECONDS"] == "359.5"
        assert rank.env["QUORATE_LEASE_UNTIL_MS"] == "1700000360000"
    for rank in ranks_of(WORK, SLOTS, 4711, 2):
        assert not [name for name in rank.env if name.startswith("QUORATE_LEASE")]
