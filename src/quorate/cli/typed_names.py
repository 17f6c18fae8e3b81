"""Names of runs as people type them: NAME, run/NAME, tasks of an array, NAME[1-3], and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import click

from quorate.cli.settings import Settings
from quorate.views.exits import UNKNOWN_NAME, CommandError


def run_names(word: str) -> tuple[str, ...]:
    """Return the runs that ``word`` names.

    Tasks of an array come last first, so that none starts because one before it is cancelled.
    """
    from quorate.cli.slurm.array_tasks import named_runs

    try:
        return named_runs(word.removeprefix("run/"))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def run_name(word: str) -> str:
    """Return the one run that ``word`` names; raises ``UsageError`` where it names several."""
    names = run_names(word)
    if len(names) > 1:
        raise click.UsageError(f"{word}: names {len(names)} runs; name one, such as {names[-1]}")
    return names[0]


class Task(NamedTuple):
    """A task of an array: its index, its run, and whether that waits or runs."""

    number: int
    run: str
    is_live: bool


def runs_named(
    settings: Settings, words: Sequence[str], *, is_ending: bool = False
) -> tuple[str, ...]:
    """Return the runs that ``words`` name; an array's name means all its tasks.

    ``is_ending``: tasks come last first, and of an array named so only those that wait or run. A
    word that names neither a run nor an array is returned as it is.
    """
    if not words:
        return ()
    arrays = _arrays_of(settings, words)
    found: dict[str, None] = {}
    for word in words:
        tasks = arrays.get(word.removeprefix("run/"))
        if tasks is None:
            names = run_names(word)[::-1]
        else:
            names = tuple(task.run for task in tasks if task.is_live or not is_ending)
        found |= dict.fromkeys(reversed(names) if is_ending else names)
    return tuple(found)


@contextmanager
def one_run(settings: Settings, word: str) -> Iterator[str]:
    """Yield the one run that ``word`` names; the error for an array says so, with its tasks."""
    try:
        yield run_name(word)
    except CommandError as error:
        name = word.removeprefix("run/")
        tasks = _arrays_of(settings, [word]).get(name) if error.fault == UNKNOWN_NAME else None
        if tasks is None:
            raise
        from quorate.cli.slurm.array_tasks import indexes_text

        tried = f"{name}[{indexes_text([task.number for task in tasks])}]"
        line = f"{name!r} is an array, {tried}; name one task, such as {tasks[0].run}"
        raise CommandError(error.code, line, fault=UNKNOWN_NAME) from None


def _arrays_of(settings: Settings, words: Sequence[str]) -> dict[str, list[Task]]:
    """Return those of ``words`` that name an array and no run, with its tasks by their index."""
    from quorate.cli.ask_and_print import tree_asked
    from quorate.cli.slurm.array_tasks import task_of
    from quorate.operations.resources.resource_operations import ListRuns

    plain = {word.removeprefix("run/") for word in words if "[" not in word}
    if _are_runs(settings, sorted(plain)):
        return {}
    arrays: dict[str, list[Task]] = {}
    for tree in tree_asked(settings, "list-runs", ListRuns())["items"]:
        name, is_live = tree["metadata"]["name"], tree["status"]["phase"] in ("Pending", "Running")
        plain.discard(name)
        task = task_of(name) if "SLURM_ARRAY_JOB_ID" in tree["spec"].get("env", {}) else None
        if task is not None:
            arrays.setdefault(task[0], []).append(Task(task[1], name, is_live))
    return {name: sorted(tasks) for name, tasks in arrays.items() if name in plain}


def _are_runs(settings: Settings, names: Sequence[str]) -> bool:
    """Return whether all ``names`` are those of runs that the caller may see."""
    from quorate.cli.ask_and_print import tree_asked
    from quorate.operations.resources.resource_operations import NAMES_MAX, ListRuns

    try:
        for at in range(0, len(names), NAMES_MAX):
            asked = ListRuns(names=tuple(names[at : at + NAMES_MAX]))
            tree_asked(settings, "list-runs", asked)
    except CommandError as error:
        if error.fault != UNKNOWN_NAME:
            raise
        return False
    return True
