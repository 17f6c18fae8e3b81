"""Arrays of jobs: their tasks, how many run at once, and what their runs are called. Pure.

Task 3 of the array ``train`` is the run ``train_3``, as Slurm calls it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TASKS_MAX: Final = 1_000
"""How many tasks one array has at most."""
INDEX_MAX: Final = 4_000_000
_RANGE: Final = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?")
_PARTS: Final = re.compile(r"(?P<array>[^\[\]]+?)_?\[(?P<tasks>[^\[\]]*)\]")
_TASK: Final = re.compile(r"(?P<array>.+)_(?P<task>\d+)")


@dataclass(frozen=True, slots=True)
class Tasks:
    """The indexes of an array in their order; ``at_once_max`` None is as many as have room."""

    indexes: tuple[int, ...]
    at_once_max: int | None = None

    def before(self, position: int) -> int | None:
        """Return the index whose task must be over before that at ``position`` starts, if any.

        The tasks go in as many lanes as may run at once, one after another in each.
        """
        limit = self.at_once_max
        return None if limit is None or position < limit else self.indexes[position - limit]


def read_tasks(text: str) -> Tasks:
    """Return the tasks of ``0-9``, ``1-10:2``, ``1,5,7`` or ``0-99%4``; raises ``ValueError``."""
    listed, percent, limit = text.partition("%")
    if percent and (not limit.isdecimal() or not 1 <= int(limit) <= TASKS_MAX):
        raise ValueError(f"after % must be a number from 1 to {TASKS_MAX}, got {limit!r}")
    return Tasks(_indexes(listed), int(limit) if percent else None)


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


def task_name(array: str, index: int) -> str:
    """Return what the run of a task is called."""
    return f"{array}_{index}"


def task_of(run: str) -> tuple[str, int] | None:
    """Return the array and the index that the name of a run says; None where it says neither."""
    matched = _TASK.fullmatch(run)
    return None if matched is None else (matched["array"], int(matched["task"]))


def named_runs(word: str) -> tuple[str, ...]:
    """Return the runs that ``word`` names: itself, or of ``train[1-3]`` each of these tasks.

    Those of an array come last first: a later task may be waiting for an earlier one to be over,
    and must not start when that is cancelled. Raises ``ValueError``.
    """
    matched = _PARTS.fullmatch(word)
    if matched is None:
        return (word,)
    try:
        indexes = _indexes(matched["tasks"])
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None
    return tuple(task_name(matched["array"], index) for index in reversed(indexes))


def indexes_text(indexes: Sequence[int]) -> str:
    """Return ``indexes``, which go up, as Slurm writes them: ``1-3,7``."""
    parts: list[list[int]] = []
    for index in indexes:
        if parts and index == parts[-1][-1] + 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)


def split_outside(text: str, mark: str) -> list[str]:
    """Return the parts of ``text`` between each ``mark`` that is outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
