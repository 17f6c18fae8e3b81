"""The options that filter jobs in squeue, scancel and sacct. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def choice_options(command: F) -> F:
    """Return ``command`` with the filters of squeue and scancel."""
    return _with(command, name=("-n",), partition=("-p",), state=("-t", "--states"))


def past_choice_options(command: F) -> F:
    """Return ``command`` with the filters of sacct: the same as of squeue, with other letters."""
    return _with(command, name=(), partition=("-r",), state=("-s",))


def _with(
    command: F, *, name: tuple[str, ...], partition: tuple[str, ...], state: tuple[str, ...]
) -> F:
    options = (
        click.option("-u", "--user", "users", metavar="USER", help="Only jobs of these users."),
        click.option("--me", "is_mine", is_flag=True, help="Only your own jobs."),
        click.option(
            "-A", "--account", "accounts", metavar="OWNER", help="Only jobs of these owners."
        ),
        click.option(
            *partition, "--partition", "partitions", metavar="POOL", help="Only in these pools."
        ),
        click.option(*name, "--name", "names", metavar="NAME", help="Only jobs of these names."),
        click.option(
            *state,
            "--state",
            "states",
            metavar="STATE",
            help="Only in these states: PD, R, CD, CA, F, TO, or their long names.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
