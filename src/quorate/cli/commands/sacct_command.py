"""``quorate sacct`` and ``sinfo``: past jobs and present nodes, in the form of Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.global_options import examples, ledger_options
from quorate.cli.settings import Settings
from quorate.cli.slurm.choice_options import past_choice_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from quorate.cli.slurm.job_rows import JobRow
    from quorate.cli.slurm.slurm_format import Field

_DEFAULT: Final = "JobID,JobName,Partition,Account,AllocGPUS,State,ExitCode"


@click.command(
    epilog=examples(
        "quorate sacct",
        "quorate sacct -S 2026-11-01 -E 2026-12-01 -A rai",
        "quorate sacct -j train-1 -o JobID%20,State,Elapsed,Start,End,ExitCode",
        "quorate sacct -n -P -o JobID,State > jobs.txt",
    )
)
@click.option("-j", "--jobs", "jobs", metavar="JOB", multiple=True, help="Only these jobs.")
@click.option("-o", "--format", "names_shown", metavar="LIST", help=f"Columns: {_DEFAULT}.")
@click.option(
    "-S",
    "--starttime",
    "since",
    metavar="TIME",
    help="Jobs that ended at this time or later, or have not ended.",
)
@click.option(
    "-E", "--endtime", "until", metavar="TIME", help="Jobs that were submitted before this time."
)
@click.option("-n", "--noheader", "no_head", is_flag=True, help="Print no header.")
@click.option("-P", "--parsable2", "is_bare", is_flag=True, help="Separate columns with |.")
@click.option(
    "-X",
    "--allocations",
    is_flag=True,
    expose_value=False,
    help="Accepted for compatibility; has no effect.",
)
@past_choice_options
@ledger_options
@click.pass_obj
def sacct(
    settings: Settings,
    /,
    *,
    jobs: tuple[str, ...],
    names_shown: str | None,
    since: str | None,
    until: str | None,
    no_head: bool,
    is_bare: bool,
    **which: Any,
) -> None:
    """List past and present jobs, as Slurm's sacct does.

    Without -S and without jobs, lists the jobs that ran or waited today (UTC). A job is a run, its
    account is its owner, and its partition is its pool. For the cost of jobs see `quorate usage`
    and `quorate statement`.
    """
    from quorate.cli.slurm.asked_jobs import asked_jobs, chosen, now_of
    from quorate.cli.slurm.slurm_format import FormatError, named_fields, named_lines

    now = now_of(settings)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = _instant(since, "-S") or (None if jobs else midnight)
    last = _instant(until, "-E")
    try:
        columns = named_fields(names_shown or _DEFAULT, _fields(now))
    except FormatError as error:
        raise click.UsageError(f"-o: {error}") from None
    rows = [
        row
        for row in asked_jobs(settings, (None,), chosen(settings, jobs=jobs, **which))
        if (first is None or row.ended is None or row.ended >= first)
        and (last is None or row.submitted < last)
    ]
    between = "|" if is_bare else None
    for line in named_lines(columns, rows, has_head=not no_head, between=between):
        click.echo(line.rstrip())


def _instant(text: str | None, option: str) -> datetime | None:
    """Return the instant of ``text``, a date or a time; a text without an offset means UTC."""
    from datetime import UTC, datetime

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{option}: write a time like 2026-11-01 or 2026-11-01T09:00:00, got {text!r}"
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _fields(now: datetime) -> dict[str, Field[JobRow]]:
    """Return a map from names to columns of sacct."""
    from quorate.cli.slurm.job_rows import full_span, node_list
    from quorate.cli.slurm.slurm_format import Field

    def time(at: datetime | None) -> str:
        return "Unknown" if at is None else at.strftime("%Y-%m-%dT%H:%M:%S")

    def limit(row: JobRow) -> str:
        return "UNLIMITED" if row.limit_s is None else full_span(row.limit_s)

    found: Mapping[str, Any] = {
        "JobID": lambda row: row.run,
        "JobName": lambda row: row.name,
        "Partition": lambda row: row.partition,
        "Account": lambda row: row.account,
        "User": lambda row: row.user,
        "AllocGPUS": lambda row: str(row.gpus),
        "AllocTRES": lambda row: f"gres/gpu:{row.flavor.lower()}={row.gpus}",
        "State": lambda row: row.state,
        "ExitCode": lambda row: f"{row.exit_code}:0",
        "Submit": lambda row: time(row.submitted),
        "Start": lambda row: time(row.started),
        "End": lambda row: time(row.ended),
        "Elapsed": lambda row: full_span(row.elapsed_s(now)),
        "Timelimit": limit,
        "NodeList": lambda row: node_list(row.nodes) or "None assigned",
        "WorkDir": lambda row: row.folder,
    }
    return {name: Field(name, value) for name, value in found.items()}


@click.command(
    epilog=examples(
        "quorate sinfo", "quorate sinfo -N", "quorate sinfo -p default -o '%P %.6D %.6t %G %N'"
    )
)
@click.option("-p", "--partition", "pool", metavar="POOL", help="Only this pool.")
@click.option("-N", "--Node", "each_node", is_flag=True, help="Print one line per node.")
@click.option("-o", "--format", "template", metavar="FORMAT", help="Columns: such as '%P %t %N'.")
@click.option("-h", "--noheader", "no_head", is_flag=True, help="Print no header.")
@ledger_options
@click.pass_obj
def sinfo(
    settings: Settings, *, pool: str | None, each_node: bool, template: str | None, no_head: bool
) -> None:
    """List pools and their nodes, as Slurm's sinfo does.

    A partition is a pool. Nodes with the same pool, state and flavor share a line. FORMAT is as in
    Slurm: % with a width and a letter.
    """
    from quorate.cli.ask_and_print import tree_asked
    from quorate.cli.slurm.node_rows import NODE_FIELDS, node_rows
    from quorate.cli.slurm.slurm_format import FormatError, field_table, percent_lines
    from quorate.operations.resources.resource_operations import ListThings

    nodes = tree_asked(settings, "list-nodes", ListThings())["items"]
    rows = [row for row in node_rows(nodes, each=each_node) if pool in (None, row.pool)]
    if template is None:
        letters = "NDPtG" if each_node else "PalDtN"
        lines = field_table([NODE_FIELDS[each] for each in letters], rows, has_head=not no_head)
    else:
        try:
            lines = percent_lines(template, NODE_FIELDS, rows, has_head=not no_head)
        except FormatError as error:
            raise click.UsageError(f"-o: {error}") from None
    for line in lines:
        click.echo(line)
