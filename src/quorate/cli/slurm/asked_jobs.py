"""Requests runs as jobs, and filters them by the options of squeue, scancel and sacct."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from quorate.adapters.clock_system import SystemClock
from quorate.cli.ask_and_print import OwnRuns, own_runs, tree_asked
from quorate.cli.settings import Settings
from quorate.cli.slurm.job_rows import COMPACT, JobRow, job_rows
from quorate.cli.slurm.sbatch_words import split_outside
from quorate.cli.typed_names import run_names
from quorate.operations.resources.resource_operations import ListRuns, ListThings

LIVE: Final = ("Pending", "Running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The filters of jobs; an empty filter matches every job."""

    jobs: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    mine: OwnRuns | None = None

    @property
    def is_all(self) -> bool:
        """Whether there are no filters."""
        parts = (self.jobs, self.users, self.accounts, self.partitions, self.names, self.states)
        return not any(parts) and self.mine is None

    def has(self, row: JobRow) -> bool:
        """Return whether ``row`` matches every filter; ``jobs`` may name the row's run or array."""
        return (
            (not self.jobs or row.run in self.jobs or row.array in self.jobs)
            and (not self.users or row.user in self.users)
            and (self.mine is None or self.mine.has(row.user, row.account))
            and (not self.accounts or row.account in self.accounts)
            and (not self.partitions or row.partition in self.partitions)
            and (not self.names or row.name in self.names)
            and (not self.states or row.state in self.states)
        )


def chosen(
    settings: Settings,
    *,
    jobs: Sequence[str] = (),
    users: str | None = None,
    is_mine: bool = False,
    to_cancel: bool = False,
    accounts: str | None = None,
    partitions: str | None = None,
    names: str | None = None,
    states: str | None = None,
) -> Chosen:
    """Return the filters of the options; raises ``UsageError`` for an unknown state."""
    runs = {name for word in jobs for each in job_words(word) for name in run_names(each)}
    return Chosen(
        jobs=frozenset(runs),
        users=frozenset(_words(users)),
        mine=own_runs(settings, to_cancel=to_cancel) if is_mine else None,
        accounts=frozenset(_words(accounts)),
        partitions=frozenset(_words(partitions)),
        names=frozenset(_words(names)),
        states=frozenset(_state(word) for word in _words(states) if word.lower() != "all"),
    )


def job_words(text: str) -> list[str]:
    """Return the jobs in a list with commas; empty items are ignored."""
    return [part for part in split_outside(text, ",") if part]


def _words(text: str | None) -> set[str]:
    return {word for word in (text or "").split(",") if word}


def _state(word: str) -> str:
    long = {short: state for state, short in COMPACT.items()} | {state: state for state in COMPACT}
    if word.upper() not in long:
        raise click.UsageError(f"unknown state {word!r}; use one of {', '.join(COMPACT)}")
    return long[word.upper()]


def now_of(settings: Settings) -> datetime:
    """Return the current time."""
    clock = SystemClock() if settings.clock is None else settings.clock
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)


def asked_jobs(settings: Settings, phases: Iterable[str | None], which: Chosen) -> list[JobRow]:
    """Return the matching jobs of ``phases``: phase by phase, and in each phase oldest first.

    If a phase is None, it means all phases. The row of a running job includes the job's nodes.
    """
    runs: list[Any] = []
    for phase in phases:
        runs += tree_asked(settings, "list-runs", ListRuns(phase=phase))["items"]
    nodes: dict[str, dict[str, None]] = {}
    if any(run["status"]["phase"] == "Running" for run in runs):
        for lease in tree_asked(settings, "list-leases", ListThings())["items"]:
            found = nodes.setdefault(lease["status"]["run"], {})
            found |= dict.fromkeys(slot["node"] for slot in lease["status"]["slots"])
    rows = job_rows(runs, {run: tuple(found) for run, found in nodes.items()})
    return [row for row in rows if which.has(row)]
