"""Arrays of runs: their indexes, the names of their tasks, and which tasks wait for which. Pure.

One document declares an array. Task 3 of the array ``train`` is the run ``train_3``. Tasks differ
only in name and index; all other fields are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from quorate.model.specs import Follow, Run, TaskArray, UpstreamFailure

TASKS_MAX: Final = 1_000
"""The most tasks that an array can have."""
INDEX_MAX: Final = 4_000_000
_RANGE: Final = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?")
_PARTS: Final = re.compile(r"(?P<array>[^\[\]]+?)_?\[(?P<tasks>[^\[\]]*)\]")


class Upstream(NamedTuple):
    """A run or an array that another run follows; ``any_end`` says that any end is enough."""

    name: str
    any_end: bool


def read_array(text: str) -> TaskArray:
    """Return an array without a name, with tasks such as ``0-9``, ``1,5,7`` or ``0-99%4``.

    Raises ``ValueError`` for any other text.
    """
    listed, percent, limit = text.partition("%")
    if percent and (not limit.isdecimal() or not 1 <= int(limit) <= TASKS_MAX):
        raise ValueError(f"after % must be a number from 1 to {TASKS_MAX}, got {limit!r}")
    tasks = indexes_text(_indexes(listed))
    return TaskArray(name="", tasks=tasks, at_once_max=int(limit) if percent else None)


def tasks_text(array: TaskArray) -> str:
    """Return the tasks of ``array`` as ``read_array`` reads them, such as ``0-9%4``."""
    return array.tasks if array.at_once_max is None else f"{array.tasks}%{array.at_once_max}"


@lru_cache(maxsize=256)
def indexes_of(tasks: str) -> tuple[int, ...]:
    """Return the indexes that ``tasks`` lists, such as ``0-9,20``, ascending."""
    return _indexes(tasks)


def _indexes(text: str) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for each in text.split(","):
        matched = _RANGE.fullmatch(each.strip())
        if matched is None:
            raise ValueError(f"must be such as 0-9, 1,5,7 or 0-99%4, got {text!r}")
        low, high, step = int(matched[1]), int(matched[2] or matched[1]), int(matched[3] or 1)
        if high < low or step == 0:
            raise ValueError(f"{each}: must go up, in steps of 1 or more")
        if high > INDEX_MAX:
            raise ValueError(f"{each}: must be {INDEX_MAX} at most")
        if (high - low) // step >= TASKS_MAX:
            raise ValueError(f"{each}: has more than {TASKS_MAX} tasks; submit several arrays")
        found.update(dict.fromkeys(range(low, high + 1, step)))
    if len(found) > TASKS_MAX:
        raise ValueError(f"has {len(found)} tasks, more than {TASKS_MAX}; submit several arrays")
    return tuple(sorted(found))


def indexes_text(indexes: Sequence[int]) -> str:
    """Return the ascending ``indexes`` as Slurm writes them: ``1-3,7``."""
    parts: list[list[int]] = []
    for index in indexes:
        if parts and index == parts[-1][-1] + 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)


def task_name(array: str, index: int) -> str:
    """Return the name of the run of a task."""
    return f"{array}_{index}"


def task_names(array: TaskArray) -> Iterator[str]:
    """Yield the names of the runs of ``array``, by their index."""
    return (task_name(array.name, index) for index in indexes_of(array.tasks))


def task_run(run: Run, index: int) -> Run:
    """Return the task ``index`` of an array.

    ``run`` is the document of the array, or one of its tasks.
    """
    array = run.array
    assert array is not None, run
    return replace(run, name=task_name(array.name, index), task=index)


def task_runs(run: Run) -> tuple[Run, ...]:
    """Return the runs that a document asks for: the tasks of its array, or the run alone.

    If the array has a limit (``at_once_max``), its tasks may have to wait for each other, so each
    task has a ``follow``.
    """
    array = run.array
    if array is None:
        return (run,)
    if array.at_once_max is not None and run.follow is None:
        run = replace(run, follow=Follow(after=()))
    if run.task is not None:
        return (run,)
    return tuple(task_run(run, index) for index in indexes_of(array.tasks))


def document_of(run: Run) -> Run:
    """Return the document of the array of ``run``, without the fields that ``task_runs`` adds."""
    assert run.array is not None, run
    follow = None if run.follow == Follow(after=()) else run.follow
    return replace(run, name=run.array.name, task=None, follow=follow)


def alone(run: Run) -> Run:
    """Return ``run`` as a run that belongs to no array, but follows the same upstreams."""
    follow, task = run.follow, run.task
    if follow is not None and task is not None:
        tasks = tuple(task_name(name, task) for name in follow.after_task)
        follow = replace(follow, after=(*follow.after, *tasks), after_task=())
    if follow is not None and not (follow.after or follow.after_any):
        follow = None
    return replace(run, array=None, task=None, follow=follow)


def is_alike(first: Run, run: Run) -> bool:
    """Return whether ``first`` and ``run`` are tasks of one array, submitted with one document."""
    return (
        run.task is not None
        and first.array is not None
        and first.array == run.array
        and task_run(first, run.task) == run
    )


def upstreams_of(run: Run) -> tuple[Upstream, ...]:
    """Return the upstreams that the document of ``run`` states.

    In each array of ``after_task``, the run follows the task that has the same index as the run.
    """
    follow = run.follow
    if follow is None:
        return ()
    any_end = follow.on_upstream_failure is UpstreamFailure.START
    found = [Upstream(name, any_end) for name in follow.after]
    found += [Upstream(name, any_end=True) for name in follow.after_any]
    if run.task is None:
        return tuple(found)
    found += [Upstream(task_name(name, run.task), any_end) for name in follow.after_task]
    return tuple(found)


def array_variables(run: Run) -> dict[str, str]:
    """Return the environment variables that name the task of ``run``; empty if it is no task."""
    if run.array is None or run.task is None:
        return {}
    indexes = indexes_of(run.array.tasks)
    return {
        "QUORATE_ARRAY": run.array.name,
        "QUORATE_ARRAY_TASK_ID": str(run.task),
        "QUORATE_ARRAY_TASK_COUNT": str(len(indexes)),
        "QUORATE_ARRAY_TASK_MIN": str(indexes[0]),
        "QUORATE_ARRAY_TASK_MAX": str(indexes[-1]),
    }


def split_tasks(word: str) -> tuple[str, tuple[int, ...]] | None:
    """Return the array and the indexes of ``train[1-3]``; None if ``word`` names no tasks.

    Raises ``ValueError`` for wrong indexes.
    """
    matched = _PARTS.fullmatch(word)
    if matched is None:
        return None
    try:
        return matched["array"], _indexes(matched["tasks"])
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None


def named_runs(word: str) -> tuple[str, ...]:
    """Return the runs that ``word`` names: one run, or each task of ``train[1-3]``.

    Raises ``ValueError`` for wrong indexes.
    """
    found = split_tasks(word)
    if found is None:
        return (word,)
    array, indexes = found
    return tuple(task_name(array, index) for index in indexes)
