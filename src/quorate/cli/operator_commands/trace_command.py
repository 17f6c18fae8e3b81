"""``quorate trace``: inspects, converts and generates traces of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.cli.global_options import examples, output_option
from quorate.cli.policy_files import needs_rounds
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.sim.traces.trace_job import Trace

FORMS: Final = ("gavel", "philly", "openb", "sacct", "quorate", "ledger")
_FORM: Final = click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="The format of FILE, if its first line does not show it; `ledger` means an export.",
)
_MAP: Final = click.option(
    "--map", "columns", metavar="MAP", help="Columns of a CSV: gpus=num_gpus,arrives_s=t,..."
)
_TO: Final = click.option(
    "--to", "target", metavar="FILE", help="Write to this file.  [default: standard output]"
)

_AS = click.option(
    "--as",
    "target_form",
    type=click.Choice(["quorate", "gavel"]),
    default="quorate",
    show_default=True,
    help="The format to write.",
)


@click.group(epilog=examples("quorate trace inspect jobs.csv"))
def trace() -> None:
    """Inspect, convert and generate traces of jobs."""


@trace.command(
    epilog=examples(
        "quorate trace inspect philly.csv",
        "quorate trace inspect ran.csv --map gpus=n,arrives_at=submitted,duration_s=ran -o json",
    )
)
@click.argument("file", metavar="FILE")
@_FORM
@_MAP
@output_option
@click.pass_obj
@needs_rounds
def inspect(settings: Settings, file: str, form: str | None, columns: str | None) -> None:
    """Show what a trace contains: jobs, owners, GPUs, time span, and lines that are left out."""
    from quorate.cli.printing import print_tree
    from quorate.views.reports.trace_view import trace_lines, trace_tree

    found = _read(file, form, columns)
    if settings.is_table:
        click.echo("\n".join(trace_lines(found)))
    else:
        print_tree(settings, trace_tree(found))


@trace.command(
    epilog=examples(
        "quorate trace convert philly.csv --to philly-jobs.csv",
        "quorate ledger export | quorate trace convert - --format ledger --to jobs.csv",
    )
)
@click.argument("file", metavar="FILE")
@_FORM
@_MAP
@_AS
@_TO
@needs_rounds
def convert(
    file: str, form: str | None, columns: str | None, target_form: str, target: str | None
) -> None:
    """Write a trace in Quorate's format or in Gavel's.

    Standard error lists how many lines of the trace were left out, for each reason.
    """
    from quorate.model.closed_words import counted

    found = _read(file, form, columns)
    _write(found, target_form, target)
    for each in found.skipped:
        where = f"line {each.first_line}"
        if each.count > 1:
            where = f"{counted(each.count, 'line')}, the first is {each.first_line}"
        click.echo(f"left out: {where}: {each.reason}", err=True)


@trace.command(
    epilog=examples(
        "quorate trace generate lam=4500,seed=42,jobs=1000 --throughputs rates.json --to jobs.csv",
    )
)
@click.argument("wishes", metavar="WISHES")
@click.option(
    "--throughputs", metavar="FILE", required=True, help="The types of jobs and their rates."
)
@_AS
@_TO
@needs_rounds
def generate(wishes: str, throughputs: str, target_form: str, target: str | None) -> None:
    """Generate Gavel's published jobs and write them as a trace.

    WISHES are lam=SECONDS,jobs=COUNT and optionally seed=N, multi=1, weights=1, slos=1 and
    arrivals=poisson|static|diurnal.
    """
    from quorate.cli.policy_files import table_in
    from quorate.cli.sources import read_bytes
    from quorate.sim.scenario import Scenario, ScenarioError
    from quorate.sim.scenario_play import trace_of

    try:
        asked = Scenario(generate=wishes, throughputs=throughputs)
        found = trace_of(asked, read_bytes, None, table_in(throughputs))
    except ScenarioError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    _write(found, target_form, target)


def _read(file: str, form: str | None, columns: str | None) -> Trace:
    from quorate.cli.ledger_import import export_blocks
    from quorate.cli.sources import read_bytes
    from quorate.ledger.chain import open_blocks
    from quorate.sim.scenario import Scenario
    from quorate.sim.scenario_play import trace_of
    from quorate.sim.traces.ledger_trace import ledger_trace
    from quorate.sim.traces.trace_job import TraceError

    if form is not None and columns is not None:
        raise click.UsageError("--map is only for CSV files of no known format; remove --format")
    try:
        if form == "ledger":
            blocks = open_blocks(export_blocks(file))
            return ledger_trace(event for _, events in blocks for event in events)
        asked = Scenario(trace=file, format=form, columns=columns)
        return trace_of(asked, read_bytes, None, None)
    except TraceError as error:
        raise CommandError(Exit.INVALID, f"{file}: {error}") from None


def _write(found: Trace, form: str, target: str | None) -> None:
    from quorate.cli.sources import write_new
    from quorate.sim.traces.trace_formats import WRITERS
    from quorate.sim.traces.trace_job import TraceError

    try:
        text = WRITERS[form](found)
    except TraceError as error:
        raise CommandError(Exit.INVALID, str(error)) from None
    if target is None:
        click.echo(text, nl=False)
        return
    write_new(target, [text])
