"""Names of runs as people type them: NAME, run/NAME, and tasks of an array, NAME[1-3]."""

from __future__ import annotations

import click


def run_names(word: str) -> tuple[str, ...]:
    """Return the runs that ``word`` names; raises ``UsageError``."""
    word = word.removeprefix("run/")
    if "[" not in word:
        return (word,)
    from quorate.model.task_arrays import named_runs

    try:
        return named_runs(word)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def run_name(word: str) -> str:
    """Return the one run that ``word`` names; raises ``UsageError`` where it names several."""
    names = run_names(word)
    if len(names) > 1:
        raise click.UsageError(f"{word}: names {len(names)} runs; name one, such as {names[0]}")
    return names[0]
