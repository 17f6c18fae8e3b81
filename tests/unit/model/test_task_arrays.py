"""Arrays of runs: what their expressions mean, and which tasks may run together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.model.specs import Follow, Run, TaskArray, UpstreamFailure
from quorate.model.task_arrays import (
    Upstream,
    alone,
    array_variables,
    document_of,
    indexes_of,
    indexes_text,
    is_alike,
    named_runs,
    read_array,
    task_run,
    task_runs,
    tasks_text,
    upstreams_of,
)

indexes = st.sets(st.integers(0, 500), min_size=1, max_size=60).map(lambda s: tuple(sorted(s)))


def array_run(tasks: str, follow: Follow | None = None) -> Run:
    """Return the document of an array called ``train``."""
    return Run(
        name="train",
        owner="rai",
        flavors=("H100",),
        gpus=1,
        array=replace(read_array(tasks), name="train"),
        follow=follow,
    )


@pytest.mark.parametrize(
    ("text", "found", "at_once_max"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("1-10:3", (1, 4, 7, 10), None),
        ("7,1,5-6", (1, 5, 6, 7), None),
        ("1,1-2", (1, 2), None),
        ("0-99%4", tuple(range(100)), 4),
    ],
)
def test_an_expression_names_tasks_as_slurm_does(
    text: str, found: tuple[int, ...], at_once_max: int | None
) -> None:
    array = read_array(text)
    assert (indexes_of(array.tasks), array.at_once_max) == (found, at_once_max)


@pytest.mark.parametrize("text", ["", "x", "3-1", "0-9:0", "0-9%0", "0-9%x", "0-1000", "-1", "9%"])
def test_an_expression_that_names_no_tasks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_array(text)


@given(indexes, st.none() | st.integers(1, 70))
def test_the_text_of_an_array_is_read_back(found: tuple[int, ...], limit: int | None) -> None:
    array = TaskArray(name="", tasks=indexes_text(found), at_once_max=limit)
    assert read_array(tasks_text(array)) == array
    assert indexes_of(array.tasks) == found


@given(indexes, st.none() | st.integers(1, 5))
def test_one_task_has_what_all_have(found: tuple[int, ...], limit: int | None) -> None:
    document = array_run(indexes_text(found) + ("" if limit is None else f"%{limit}"))
    tasks = task_runs(document)
    assert [run.task for run in tasks] == list(found)
    assert all(is_alike(tasks[0], run) and document_of(run) == document for run in tasks)
    assert tuple(task_run(tasks[-1], index) for index in found) == tasks
    assert task_runs(tasks[0]) == (tasks[0],)


def test_a_run_without_an_array_is_its_own_only_run() -> None:
    run = alone(array_run("0-3"))
    assert task_runs(run) == (run,)
    assert array_variables(run) == {}


def test_a_task_follows_what_its_document_says() -> None:
    follow = Follow(
        after=("data",),
        after_any=("old",),
        after_task=("prep",),
        on_upstream_failure=UpstreamFailure.FAIL,
    )
    tasks = task_runs(array_run("0,2,5%2", follow))
    assert upstreams_of(tasks[2]) == (
        Upstream("data", any_end=False),
        Upstream("old", any_end=True),
        Upstream("prep_5", any_end=False),
    )
    assert upstreams_of(alone(tasks[2])) == (
        Upstream("data", any_end=False),
        Upstream("prep_5", any_end=False),
        Upstream("old", any_end=True),
    )


def test_a_task_knows_its_place_by_variables() -> None:
    assert array_variables(task_runs(array_run("2-8:2"))[1]) == {
        "QUORATE_ARRAY": "train",
        "QUORATE_ARRAY_TASK_ID": "4",
        "QUORATE_ARRAY_TASK_COUNT": "4",
        "QUORATE_ARRAY_TASK_MIN": "2",
        "QUORATE_ARRAY_TASK_MAX": "8",
    }


@pytest.mark.parametrize(
    ("word", "runs"),
    [
        ("train", ("train",)),
        ("train_3", ("train_3",)),
        ("train[3]", ("train_3",)),
        ("train_[1-3]", ("train_1", "train_2", "train_3")),
        ("train[9,1]", ("train_1", "train_9")),
    ],
)
def test_parts_of_an_array_are_named_by_their_indexes(word: str, runs: tuple[str, ...]) -> None:
    assert named_runs(word) == runs


@pytest.mark.parametrize("word", ["train[]", "train[x]", "train[3-1]"])
def test_a_part_that_is_none_is_refused_by_name(word: str) -> None:
    with pytest.raises(ValueError, match=r"train\["):
        named_runs(word)
