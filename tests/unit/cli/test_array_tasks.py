"""Arrays of jobs: what their expressions mean, and which tasks may run together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.slurm.array_tasks import (
    Tasks,
    indexes_text,
    named_runs,
    read_tasks,
    task_name,
    task_of,
)

indexes = st.sets(st.integers(0, 500), min_size=1, max_size=60).map(lambda s: tuple(sorted(s)))


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("0-3", Tasks((0, 1, 2, 3))),
        ("1-10:3", Tasks((1, 4, 7, 10))),
        ("7,1,5-6", Tasks((1, 5, 6, 7))),
        ("1,1-2", Tasks((1, 2))),
        ("0-99%4", Tasks(tuple(range(100)), 4)),
    ],
)
def test_an_expression_names_tasks_as_slurm_does(text: str, tasks: Tasks) -> None:
    assert read_tasks(text) == tasks


@given(indexes)
def test_the_text_of_indexes_is_read_back(found: tuple[int, ...]) -> None:
    assert read_tasks(indexes_text(found)).indexes == found


@given(indexes, st.integers(1, 70), st.randoms(use_true_random=False))
def test_no_more_tasks_run_at_once_than_the_limit_says(
    found: tuple[int, ...], limit: int, chance: object
) -> None:
    """Whatever ends first: a task starts as soon as the one before it in its lane is over."""
    tasks, over, most = Tasks(found, limit), set[int](), 0
    while len(over) < len(found):
        running = [
            index
            for position, index in enumerate(found)
            if index not in over and tasks.before(position) in (None, *over)
        ]
        assert running, "a task can always go on"
        most = max(most, len(running))
        over.add(chance.choice(running))  # type: ignore[attr-defined]
    assert most == min(limit, len(found))


@pytest.mark.parametrize(
    ("word", "runs"),
    [
        ("train", ("train",)),
        ("train_3", ("train_3",)),
        ("train[3]", ("train_3",)),
        ("train_[1-3]", ("train_3", "train_2", "train_1")),
        ("train[1,9]", ("train_9", "train_1")),
    ],
)
def test_parts_of_an_array_are_named_last_first(word: str, runs: tuple[str, ...]) -> None:
    assert named_runs(word) == runs


@pytest.mark.parametrize("word", ["train[]", "train[x]", "train[3-1]"])
def test_a_part_that_is_none_is_refused_by_name(word: str) -> None:
    with pytest.raises(ValueError, match=r"train\["):
        named_runs(word)


@given(st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), st.integers(0, 4_000_000))
def test_the_name_of_a_task_says_its_array_and_its_index(array: str, index: int) -> None:
    assert task_of(task_name(array, index)) == (array, index)
