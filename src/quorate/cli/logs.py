"""``quorate logs``: what the work of a run has written."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.settings import Settings, examples, reader


@click.command(epilog=examples('quorate logs train-1 -f || echo "nobody keeps its output"'))
@click.argument("run", shell_complete=names_of("run"))
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over.")
@click.option(
    "--from", "first", metavar="N", type=click.IntRange(min=0), default=0, help="Begin at line N."
)
@reader
@click.pass_obj
def logs(settings: Settings, *, run: str, follow: bool, first: int) -> None:
    """Show what the work of a run has written.

    Output is kept by the executor that runs the work. On a ledger's file, and of a service without
    one, there is none, and this says so with exit code 1.
    """
    from quorate.cli.asking import ask
    from quorate.cli.finish import run_name
    from quorate.operations.asked_looking import RunLogs

    name, target = run_name(run), settings.service()
    if follow and not settings.is_table:
        raise click.UsageError("-f prints lines as they come; leave out -o, or -f")
    if target is None or not settings.is_table:
        ask(settings, "run-logs", RunLogs(run=name, from_=first))
        return
    from quorate.cli.remote import service

    with service(settings, target) as client:
        for line in client.log_lines(name, first=first, follow=follow):
            click.echo(line.text)
