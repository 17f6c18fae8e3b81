"""Parses names of runs: NAME, run/NAME, and tasks of an array, NAME[1-3]."""

from __future__ import annotations

import click


def typed_run(word: str) -> str:
    """Return ``word`` with the name of the run or array replaced by its name in the ledger.

    Raises ``CommandError`` if the custom resource of the run does not state this name.
    """
    from quorate.cli.resource_names import name_in_ledger

    name, bracket, tasks = word.removeprefix("run/").partition("[")
    return name_in_ledger(name) + bracket + tasks


def run_names(word: str) -> tuple[str, ...]:
    """Return the runs that ``word`` names; raises ``UsageError`` and ``CommandError``."""
    return names_of_typed(typed_run(word))


def names_of_typed(word: str) -> tuple[str, ...]:
    """Return the runs that ``word``, a result of ``typed_run``, names; raises ``UsageError``."""
    if "[" not in word:
        return (word,)
    from quorate.model.task_arrays import named_runs

    try:
        return named_runs(word)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def run_name(word: str) -> str:
    """Return the run that ``word`` names; raises ``UsageError`` if it names several."""
    names = run_names(word)
    if len(names) > 1:
        raise click.UsageError(
            f"{word}: names {len(names)} runs; name one of them, such as {names[0]}"
        )
    return names[0]
