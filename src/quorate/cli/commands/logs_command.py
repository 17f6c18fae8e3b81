"""``quorate logs``: the output of a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from time import sleep
from typing import TYPE_CHECKING, Final

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.operations.fleet.observe_operations import LogLine, RunLogs

TAIL_MAX: Final = 1_000
"""The maximal number of lines in one response."""
PAUSE_S: Final = 0.5
"""The time, in seconds, between two reads of the output that is stored beside a ledger's file."""
_CONTROLS: Final = re.compile(r"(?P<colour>\x1b\[[0-9;]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@click.command(
    epilog=examples(
        'quorate logs train-1 -f || echo "no logs are kept"',
        'quorate logs train-1 --tail 20 -f || echo "no logs are kept"',
        'quorate logs train-1 --prefix || echo "no logs are kept"',
    )
)
@click.argument("run", shell_complete=names_of("run"))
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Wait for the start of the run, and print new lines until the run is over.",
)
@click.option("--prefix", is_flag=True, help="Prefix each line with its rank, node and stream.")
@click.option(
    "--from", "first", metavar="N", type=click.IntRange(min=0), default=0, help="Begin at line N."
)
@click.option(
    "--tail",
    metavar="N",
    type=click.IntRange(1, TAIL_MAX),
    help="Start with the last N lines.",
)
@click.option(
    "--pods",
    is_flag=True,
    help="For a run in Kubernetes: read the output of its pods with kubectl and your rights.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="With --pods: the namespace of the pods.  [default: the owner's]",
)
@reader
@click.pass_obj
def logs(
    settings: Settings,
    *,
    run: str,
    follow: bool,
    prefix: bool,
    first: int,
    tail: int | None,
    pods: bool,
    namespace: str | None,
) -> None:
    """Show the output of a run.

    The executor that runs the work stores the output of the work; the local executor stores it
    beside the ledger's file. If there is no stored output, the exit code is 1. The output of pods
    is in their Kubernetes cluster: with --pods, kubectl reads it there, with your own rights.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.cli.typed_names import run_name
    from quorate.operations.fleet.observe_operations import RunLogs

    if pods and (first or not settings.is_table):
        raise click.UsageError("--pods prints lines as kubectl does; remove --from and -o")
    if namespace is not None and not pods:
        raise click.UsageError("-n is the namespace of pods; add --pods")
    name = run_name(run)
    if pods:
        from quorate.cli.ask_and_print import tree_asked
        from quorate.cli.commands.pod_output import kubectl_words, print_pods
        from quorate.cli.resource_names import namespace_of_command
        from quorate.operations.resources.resource_operations import GetThing

        found = tree_asked(settings, "get-run", GetThing(name=name))
        where = namespace or namespace_of_command()
        print_pods(kubectl_words(found, namespace=where, follow=follow, prefix=prefix, tail=tail))
        return
    asked = RunLogs(run=name, from_=first, tail=tail)
    if settings.is_table:
        try:
            _print_lines(settings, asked, follow=follow, prefix=prefix)
        except KeyboardInterrupt:
            # Ctrl-C is the usual way to stop reading, so it is not an error.
            raise CommandError(Exit.INTERRUPTED) from None
    elif follow or prefix:
        raise click.UsageError("-f and --prefix print lines; remove -o, or remove -f and --prefix")
    else:
        ask(settings, "run-logs", asked)


def _print_lines(settings: Settings, asked: RunLogs, *, follow: bool, prefix: bool) -> None:
    is_silent = asked.from_ == 0
    is_terminal = sys.stdout.isatty()
    for line in _lines(settings, asked, follow=follow):
        text = harmless(line.text) if is_terminal else line.text
        click.echo(f"{_prefix(line)} {text}" if prefix else text)
        is_silent = False
    if is_silent:
        click.echo(
            f"note: {asked.run!r} has written nothing yet; quorate explain {asked.run}", err=True
        )


def harmless(text: str) -> str:
    """Return a line of output with its colours and without other control sequences.

    Other control sequences could rename the window, move the cursor over other lines, or send input
    as if the user had typed it. If the program overwrote its line, as progress bars do, the last
    text is shown.
    """
    last = text.rstrip("\r").rpartition("\r")[2]
    return _CONTROLS.sub(lambda found: found["colour"] or ascii(found[0])[1:-1], last)


def _lines(settings: Settings, asked: RunLogs, *, follow: bool) -> Iterator[LogLine]:
    target = settings.service()
    if target is None:
        yield from _kept(settings, asked, follow=follow)
        return
    from quorate.cli.remote import service

    with service(settings, target) as client:
        yield from client.log_lines(asked.run, first=asked.from_, tail=asked.tail, follow=follow)


def _kept(settings: Settings, asked: RunLogs, *, follow: bool) -> Iterator[LogLine]:
    """Yield the lines stored beside a ledger's file, and with ``follow`` also new lines."""
    from msgspec import convert
    from msgspec.structs import replace

    from quorate.cli.ask_and_print import tree_asked
    from quorate.operations.fleet.observe_operations import Logs

    while True:
        page = convert(tree_asked(settings, "run-logs", asked), Logs)
        yield from page.lines
        asked = replace(asked, from_=page.next, tail=None)
        if page.more:
            continue
        if page.ended or not follow:
            return
        sleep(PAUSE_S)


def _prefix(line: LogLine) -> str:
    """Return the prefix that names the writer of a line: a process, or the executor."""
    if line.rank is None:
        return "[quorate]"
    return f"[{line.rank}/{line.node}/{line.stream}]"
