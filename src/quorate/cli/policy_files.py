"""The files and Python packages that ``quorate policy`` and ``quorate throughputs`` need."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from quorate.policy.parts import PARTS, install_text
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.policy.files.cluster_file import Cluster
    from quorate.policy.files.file_faults import Faulty
    from quorate.policy.files.throughputs_file import ThroughputTable
    from quorate.policy.policy_type import Policy
    from quorate.policy.problem import Problem

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


def needs_rounds(command: Callable[P, R]) -> Callable[P, R]:
    """Return ``command``, which says what to install if a Python package is missing."""

    @wraps(command)
    def told(*args: P.args, **given: P.kwargs) -> R:
        try:
            return command(*args, **given)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in PARTS:
                raise
            raise CommandError(Exit.UNUSABLE, install_text(error.name)) from None

    return told


def problem_options(command: F) -> F:
    """Return ``command`` with the options that name the problem."""
    for option in (
        click.option(
            "--cluster",
            metavar="GPUS",
            help="The GPUs of the cluster: v100=8,p100=16, or 8:16:24 for v100:p100:k80; or a "
            ".json file with one such cluster.",
        ),
        click.option("--jobs", metavar="FILE", help="The jobs, as JSON; - is standard input."),
        click.option(
            "--throughputs",
            metavar="FILE",
            help="The throughput of each type of job on each flavor.",
        ),
        click.option(
            "--problem",
            metavar="FILE",
            help="A file with cluster, jobs and rates; - is standard input.",
        ),
    ):
        command = option(command)
    return command


def problem_of_options(
    problem: str | None,
    throughputs: str | None,
    jobs: str | None,
    cluster: str | None,
    *,
    with_pairs: bool,
) -> Problem:
    """Return the problem that the options name; raises ``CommandError`` with every fault.

    Pairs of jobs are added only if ``with_pairs`` is true, because a table of rates has many pairs.
    """
    from quorate.policy.files.problem_file import read_problem

    if problem is not None:
        if throughputs or jobs or cluster:
            raise click.UsageError("--problem contains all parts; remove the other files")
        return _read(problem, read_problem)
    if jobs is None or cluster is None:
        raise click.UsageError(
            "the problem is missing: give --problem FILE, or --jobs FILE --cluster GPUS, and "
            "--throughputs FILE if jobs have types"
        )
    return _made(throughputs, jobs, cluster, with_pairs=with_pairs)


def _made(throughputs: str | None, jobs: str, cluster: str, *, with_pairs: bool) -> Problem:
    from quorate.policy.files.file_faults import Faulty
    from quorate.policy.files.jobs_file import read_jobs
    from quorate.policy.files.table_problem import problem_from_jobs, problem_from_table

    there = _cluster(cluster)
    states = _read(jobs, read_jobs)
    if throughputs is None:
        found = problem_from_jobs(states, there)
    else:
        found = problem_from_table(table_in(throughputs), states, there, with_pairs=with_pairs)
    if isinstance(found, Faulty):
        raise CommandError(Exit.INVALID, *(fault.text() for fault in found.faults))
    return found


def _cluster(text: str) -> Cluster:
    """Return the cluster in ``text``, or in the file that ``text`` names."""
    from quorate.policy.files.cluster_file import read_cluster, read_clusters
    from quorate.policy.files.file_faults import Faulty

    if not text.endswith(".json"):
        found = read_cluster(text)
        if isinstance(found, Faulty):
            raise CommandError(Exit.USAGE, *_lines("--cluster", found))
        return found
    listed = [each for several in _read(text, read_clusters).values() for each in several]
    if len(listed) != 1:
        raise CommandError(
            Exit.INVALID,
            f"{text} has {len(listed)} clusters; name one of them: --cluster v100=8,...",
        )
    return listed[0]


def table_in(file: str) -> ThroughputTable:
    """Return the table of rates in ``file``; raises ``CommandError`` with every fault."""
    from quorate.policy.files.throughputs_file import read_throughputs

    return _read(file, read_throughputs)


def _read(file: str, read: Callable[[bytes], T | Faulty]) -> T:
    from quorate.cli.sources import STDIN, read_bytes
    from quorate.policy.files.file_faults import Faulty

    found = read(read_bytes(file))
    if isinstance(found, Faulty):
        source = "standard input" if file == STDIN else file
        raise CommandError(Exit.INVALID, *_lines(source, found))
    return found


def _lines(source: str, faulty: Faulty) -> tuple[str, ...]:
    return tuple(f"{source}{': ' if fault.place else ' '}{fault.text()}" for fault in faulty.faults)


def policy_called(name: str) -> Policy:
    """Return the policy ``name``; if it is unknown, raises ``UsageError`` with a similar name."""
    from difflib import get_close_matches

    from quorate.policy.plugin_policies import known_policies

    known = known_policies()
    if name in known.by_name:
        return known.by_name[name]
    near = get_close_matches(name, known.by_name, n=1)
    hint = f"did you mean {near[0]}?" if near else "list them: quorate policy list"
    raise click.UsageError(f"there is no policy {name!r}; {hint}{known.hint()}")
