"""Names of runs as people type them: NAME, run/NAME, and tasks of an array, NAME[1-3]."""

from __future__ import annotations

import click


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
