"""``quorate squeue`` and ``scancel``: list and cancel jobs in the form of Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, ledger_options, writer
from quorate.cli.settings import Settings
from quorate.cli.slurm.choice_options import choice_options
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from quorate.cli.slurm.job_rows import JobRow
    from quorate.cli.slurm.slurm_format import Field


@click.command(
    epilog=examples(
        "quorate squeue",
        "quorate squeue --me -t PD --start",
        "quorate squeue -A rai -o '%.18i %.9P %.20j %.8u %.2t %.10M %.6D %R'",
        "quorate squeue -h -o %i -n resnet",
    )
)
@click.option("-j", "--jobs", "jobs", metavar="JOB", multiple=True, help="Only these jobs.")
@click.option("-o", "--format", "template", metavar="FORMAT", help="Columns: such as '%i %T %R'.")
@click.option("-h", "--noheader", "no_head", is_flag=True, help="Print no header.")
@click.option(
    "-r", "--array", "each_task", is_flag=True, help="Print one line per task of an array."
)
@click.option(
    "-l", "--long", "is_long", is_flag=True, help="Also print full state names and time limits."
)
@click.option("--start", "is_start", is_flag=True, help="Show when waiting jobs start.")
@choice_options
@ledger_options
@click.pass_obj
def squeue(
    settings: Settings,
    /,
    *,
    jobs: tuple[str, ...],
    template: str | None,
    no_head: bool,
    each_task: bool,
    is_long: bool,
    is_start: bool,
    **which: Any,
) -> None:
    """List jobs that wait or run, as Slurm's squeue does.

    A job is a run, its account is its owner, and its partition is its pool. Tasks of an array that
    wait for the same reason share a line. FORMAT is as in Slurm: % with a width and a letter.
    """
    from quorate.cli.slurm.asked_jobs import LIVE, asked_jobs, chosen, now_of
    from quorate.cli.slurm.job_rows import grouped
    from quorate.cli.slurm.slurm_format import FormatError, field_table, percent_lines

    phases: tuple[str | None, ...] = LIVE
    if which["states"] is not None or jobs:
        phases = (None,)
    rows = asked_jobs(settings, phases, chosen(settings, jobs=jobs, **which))
    missing = [] if rows else _missing(settings, jobs)
    if missing:
        raise CommandError(
            Exit.REFUSED, f"there is no job {missing[0]!r}; list them: quorate sacct"
        )
    if which["states"] is None:
        rows = [row for row in rows if row.state in ("PENDING", "RUNNING")]
    rows = rows if each_task else grouped(rows)
    fields = _fields(now_of(settings))
    if template is None:
        letters = "iPjuTMlDR" if is_long else "iPjutSDR" if is_start else "iPjutMDR"
        lines = field_table([fields[each] for each in letters], rows, has_head=not no_head)
    else:
        try:
            lines = percent_lines(template, fields, rows, has_head=not no_head)
        except FormatError as error:
            raise click.UsageError(f"-o: {error}") from None
    for line in lines:
        click.echo(line)


def _fields(now: datetime) -> dict[str, Field[JobRow]]:
    """Return a map from letters to columns of squeue."""
    from quorate.cli.slurm.job_rows import COMPACT, node_list, span
    from quorate.cli.slurm.slurm_format import Field

    def place(row: JobRow) -> str:
        return f"({row.reason})" if row.state == "PENDING" else node_list(row.nodes)

    def left(row: JobRow) -> str:
        if row.limit_s is None:
            return "UNLIMITED"
        return span(max(0, row.limit_s - row.elapsed_s(now)))

    return {
        "i": Field("JOBID", lambda row: row.job_id),
        "A": Field("JOBID", lambda row: row.run),
        "F": Field("ARRAY_JOB_ID", lambda row: row.array or row.run),
        "K": Field("ARRAY_TASK_ID", lambda row: str(row.tasks[0]) if row.tasks else "N/A"),
        "P": Field("PARTITION", lambda row: row.partition),
        "j": Field("NAME", lambda row: row.name),
        "u": Field("USER", lambda row: row.user),
        "a": Field("ACCOUNT", lambda row: row.account),
        "t": Field("ST", lambda row: COMPACT[row.state]),
        "T": Field("STATE", lambda row: row.state),
        "M": Field("TIME", lambda row: span(row.elapsed_s(now))),
        "l": Field(
            "TIME_LIMIT", lambda row: "UNLIMITED" if row.limit_s is None else span(row.limit_s)
        ),
        "L": Field("TIME_LEFT", left),
        "D": Field("NODES", lambda row: str(len(row.nodes)) if row.nodes else "-"),
        "b": Field("GRES", lambda row: f"gres/gpu:{row.flavor}:{row.gpus}"),
        "R": Field("NODELIST(REASON)", place),
        "r": Field("REASON", lambda row: row.reason),
        "N": Field("NODELIST", lambda row: node_list(row.nodes)),
        "S": Field("START_TIME", lambda row: _time(row.started or row.start_expected)),
        "V": Field("SUBMIT_TIME", lambda row: _time(row.submitted)),
        "e": Field("END_TIME", lambda row: _time(row.ended)),
        "o": Field("COMMAND", lambda row: row.command),
        "Z": Field("WORK_DIR", lambda row: row.folder),
    }


def _time(at: datetime | None) -> str:
    return "N/A" if at is None else at.strftime("%Y-%m-%dT%H:%M:%S")


_KILL: Final = ("KILL", "9")


@click.command(
    epilog=examples(
        "quorate scancel train-1",
        "quorate scancel sweep                 # every task of the array",
        "quorate scancel 'sweep_[3-5]'",
        "quorate scancel --me -t PENDING --dry-run",
    )
)
@click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=names_of("run"))
@choice_options
@click.option(
    "-s",
    "--signal",
    metavar="KILL",
    help="KILL stops the work at once, without a grace period; other signals are refused.",
)
@click.option("-v", "--verbose", "is_long", is_flag=True, help="Print every recorded change.")
@writer
@click.pass_obj
def scancel(
    settings: Settings,
    /,
    *,
    jobs: tuple[str, ...],
    signal: str | None,
    is_long: bool,
    dry_run: bool,
    **which: Any,
) -> None:
    """Cancel jobs, as Slurm's scancel does.

    JOB is a run, an array, or tasks of an array, as in sweep_[3-5]. The options select among the
    jobs that wait or run. Waiting jobs are cancelled first, the newest of them first, so that no
    job starts because another job is cancelled. Jobs that are over are skipped silently.
    """
    from quorate.cli.ask_and_print import ask_each
    from quorate.cli.slurm.asked_jobs import LIVE, asked_jobs, chosen
    from quorate.operations.resources.run_operations import CancelRun

    if signal is not None and signal.upper().removeprefix("SIG") not in _KILL:
        raise click.UsageError(
            f"--signal {signal}: only KILL is supported; without --signal the work gets SIGTERM "
            "and its grace period"
        )
    found = chosen(settings, jobs=jobs, to_cancel=True, **which)
    if found.is_all:
        raise click.UsageError("name the jobs, or choose them: quorate scancel --me")
    names = [row.run for phase in LIVE for row in reversed(asked_jobs(settings, (phase,), found))]
    # Jobs that do not exist are requested last, and refused as in other commands.
    names += _missing(settings, jobs)
    if not names:
        if any(which.values()):
            click.echo("no job matches", err=True)
        return
    done = "would be cancelled (dry run)" if dry_run else "cancelled"
    ask_each(
        settings,
        "cancel-run",
        [CancelRun(run=name, dry_run=dry_run, now=signal is not None) for name in names],
        None if is_long else lambda asked: f"run/{asked.run} {done}",
    )


def _missing(settings: Settings, jobs: Sequence[str]) -> list[str]:
    """Return the ``jobs`` that name no present or past run or array."""
    from quorate.cli.slurm.asked_jobs import Chosen, asked_jobs, job_words
    from quorate.cli.typed_names import run_names

    named = {word: run_names(word) for job in jobs for word in job_words(job)}
    if not named:
        return []
    wanted = frozenset(name for names in named.values() for name in names)
    there: set[str | None] = set()
    for row in asked_jobs(settings, (None,), Chosen(jobs=wanted)):
        there |= {row.run, row.array}
    return [names[0] for names in named.values() if there.isdisjoint(names)]
