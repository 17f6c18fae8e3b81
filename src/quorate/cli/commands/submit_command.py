"""``quorate submit``: submits runs from files, from options, or as a copy of another run."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from msgspec import Struct


class _AfterDashes(click.Command):
    """A command that takes the command line of a run after ``--``.

    A word before ``--`` that is neither an option nor the value of an option is an error.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse ``args``; raises ``UsageError`` for a word before ``--`` that is no option."""
        before = args[: args.index("--")] if "--" in args else args
        given, _, _ = self.make_parser(ctx).parse_args(list(before))
        strays = given.get("command")
        # Without a command, some versions of click give another value than an empty tuple.
        if isinstance(strays, tuple) and strays and not ctx.resilient_parsing:
            raise click.UsageError(_stray_words(strays, before, args[len(before) + 1 :]), ctx)
        return super().parse_args(ctx, args)


def _stray_words(strays: Sequence[str], before: Sequence[str], after: Sequence[str]) -> str:
    """Return the error message for words before ``--``."""
    import shlex

    if strays[0].endswith((".yaml", ".yml", ".json")):
        return f"{strays[0]!r} is no option; to submit a file, write: quorate submit -f {strays[0]}"
    if after:
        return f"{strays[0]!r} is before -- and not an option; the command follows --"
    options = list(reversed(before))
    for stray in reversed(strays):
        options.remove(stray)
    typed = shlex.join(["quorate", "submit", *reversed(options), "--", *strays])
    return f"{strays[0]!r} is not an option; the command follows --, as in: {typed}"


@click.command(
    cls=_AfterDashes,
    epilog=examples(
        "quorate submit -f run.yaml",
        "quorate submit --gpus 8 --team rai --flavor H100 -- python train.py --lr 0.1",
        "quorate submit --gpus 8 --team rai --flavor H100 --for 4h --env SEED=1 -- python train.py",
        "quorate submit --gpus 1 --team rai --array 0-9%4 -- sh -c 'echo $QUORATE_ARRAY_TASK_ID'",
        "quorate submit -f run.yaml --set spec.resources.totalGPUs=64 --dry-run",
        "timeout 2 quorate submit --watch -f run.yaml || true     # then watch it",
        "quorate submit --like train-1 --name train-2 --set spec.locality.groupGPUs=null",
    ),
)
@click.argument("command", metavar="[-- COMMAND [WORD]...]", nargs=-1)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="YAML or JSON with one or more Runs; - is standard input. May be repeated.",
)
@click.option("--gpus", metavar="N", type=click.IntRange(min=1), help="Work on N GPUs.")
@click.option(
    "--team",
    "--owner",
    "team",
    metavar="OWNER",
    help="The owner of the run.  [default with a service: your tenant]",
    shell_complete=names_of("owner"),
)
@click.option(
    "--flavor",
    "flavors",
    metavar="KIND",
    multiple=True,
    help="The flavor of GPU; may be repeated, the preferred flavor first. Required if the fleet "
    "has several flavors.",
)
@click.option(
    "--group-gpus", metavar="N", type=click.IntRange(min=1), help="Place the GPUs in groups of N."
)
@click.option("--for", "duration", metavar="TIME", help="The expected duration: 4h.")
@click.option(
    "--env",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    help="An environment variable. May be repeated.",
)
@click.option(
    "--dir", "folder", metavar="DIR", help="The working directory.  [default: this directory]"
)
@click.option(
    "--processes",
    metavar="gpu|node|run",
    help="Start one process for each GPU, for each node, or for the whole run.  [default: gpu]",
)
@click.option(
    "--array",
    metavar="TASKS",
    help="One run for each index: 0-9, 1,5,7, or 0-99%4 for four at once.",
)
@click.option(
    "--mail",
    metavar="ADDRESS",
    help="The address that gets a mail when the run ends, if the service sends mail.",
)
@click.option(
    "--mail-kind",
    "mail_kinds",
    metavar="KIND",
    multiple=True,
    help="Send mail for this kind of notice instead, such as run-started. May be repeated.",
)
@click.option("--pool", metavar="POOL", help="The pool.", shell_complete=names_of("pool"))
@click.option(
    "--like",
    metavar="RUN",
    help="Submit a copy of this run; needs --name.",
    shell_complete=names_of("run"),
)
@click.option(
    "--name",
    metavar="NEW",
    help="The name of the run; by default generated from the name of the program.",
)
@click.option(
    "--set",
    "assignments",
    metavar="PATH=VALUE",
    multiple=True,
    help="Set a field of the document; null removes it. May be repeated.",
)
@click.option(
    "-w",
    "--watch",
    "is_watched",
    is_flag=True,
    help="Watch the run until it is over; exit code 1 if it failed or was cancelled.",
)
@writer
@click.pass_obj
def submit(
    settings: Settings,
    /,
    *,
    command: tuple[str, ...],
    files: tuple[str, ...],
    like: str | None,
    name: str | None,
    assignments: tuple[str, ...],
    is_watched: bool,
    dry_run: bool,
    **said: Any,
) -> None:
    """Submit runs, and start them if possible.

    Prints where a run started and who pays, or why it waits. A run that waits is accepted and
    starts when it can; the exit code is 0.

    The words after -- are the command of the run; no shell interprets them.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.run_operations import SubmitRun

    typed = [_OPTIONS[option] for option, value in said.items() if value not in (None, ())]
    is_typed = bool(command or said["gpus"] or said["team"])
    if [bool(files), like is not None, is_typed].count(True) != 1:
        raise click.UsageError(
            "give either -f FILE or --like RUN, or --gpus N --team OWNER -- COMMAND"
        )
    if typed and not is_typed:
        raise click.UsageError(
            f"{typed[0]} is only for a run without a file; use --set with a file"
        )
    if like is not None and name is None:
        raise click.UsageError("--like RUN and --name NEW need each other")
    if files and name is not None:
        raise click.UsageError("--name is not for files; use --set metadata.name=NEW")
    if is_watched and (dry_run or not settings.is_table):
        raise click.UsageError(
            "--watch needs a submitted run and prints no documents: remove --dry-run and -o"
        )
    send = _submit_and_watch if is_watched else ask
    if like is not None:
        asked = SubmitRun(like=like, name=name, assignments=assignments, dry_run=dry_run)
        send(settings, "submit-run", asked)
    elif files:
        _submit_files(settings, files, assignments, send, dry_run=dry_run)
    else:
        from quorate.cli.typed_run import worded

        tree = _typed_run(settings, command, name, said)
        asked = SubmitRun(document=tree, assignments=assignments, dry_run=dry_run)
        with worded(settings, tree, _FIELDS):
            send(settings, "submit-run", asked)


def _submit_and_watch(settings: Settings, operation: str, asked: Struct) -> None:
    """Submit a run and watch it until it is over; raises ``CommandError`` if it does not complete.

    The first screen of ``watch`` shows the outcome of the request.
    """
    from quorate.cli.ask_and_print import tree_asked
    from quorate.cli.commands.watch_command import watch_run
    from quorate.operations.resources.resource_operations import GetThing
    from quorate.operations.resources.run_operations import SubmitRuns

    if isinstance(asked, SubmitRuns) and len(asked.documents) > 1:
        raise click.UsageError("--watch follows one run; submit the others without it")
    tree = tree_asked(settings, operation, asked)
    (run,) = (each["name"] for each in tree["changes"] if each["kind"] == "Run")
    for warning in tree["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"run/{run} submitted")
    watch_run(settings, run)
    status = tree_asked(settings, "get-run", GetThing(name=run))["status"]
    if status["phase"] != "Completed":
        note = f": {status['note']}" if status.get("note") else ""
        raise CommandError(Exit.REFUSED, f"run/{run} {status['phase'].lower()}{note}")


_OPTIONS = {
    "gpus": "--gpus",
    "team": "--team",
    "flavors": "--flavor",
    "group_gpus": "--group-gpus",
    "duration": "--for",
    "variables": "--env",
    "folder": "--dir",
    "processes": "--processes",
    "array": "--array",
    "mail": "--mail",
    "mail_kinds": "--mail-kind",
    "pool": "--pool",
}


def _submit_files(
    settings: Settings,
    files: Sequence[str],
    assignments: tuple[str, ...],
    send: Callable[[Settings, str, Struct], None],
    *,
    dry_run: bool,
) -> None:
    from quorate.cli.sources import read_sources, tree_of
    from quorate.operations.request_documents import RUNS, changed_document, check_only_runs
    from quorate.operations.resources.run_operations import SubmitRuns

    needs_owner = settings.service() is None
    sources = read_sources(files, needs_owner=needs_owner, bare=RUNS)
    with sources.located():
        check_only_runs(sources.documents)
    trees = sources.trees
    if assignments:
        changed = [
            changed_document(tree, assignments, source="--set", needs_owner=needs_owner)
            for tree in trees
        ]
        trees = tuple(map(tree_of, changed))
    # With --set, errors name no line, because the faulty field may not be in a file.
    with nullcontext() if assignments else sources.located():
        send(settings, "submit-runs", SubmitRuns(documents=trees, dry_run=dry_run))


def _typed_run(
    settings: Settings, command: Sequence[str], name: str | None, said: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the Run document for the options and the command."""
    from pathlib import Path

    from quorate.cli.typed_run import flavors_or_only, team_or_own, variables
    from quorate.client.run_document import Work

    if said["gpus"] is None:
        raise click.UsageError("a run by command line needs --gpus N")
    if not command:
        raise CommandError(
            Exit.USAGE,
            "the command is missing; write it after --, as in: quorate submit --gpus 8 --team "
            f"{said['team'] or 'OWNER'} -- python train.py",
        )
    if said["mail_kinds"] and said["mail"] is None:
        raise click.UsageError("--mail-kind: the address is missing; add --mail ADDRESS")
    team = team_or_own(settings, said["team"])
    if team is None:
        raise click.UsageError("the owner is missing; add --team OWNER")
    work = Work(
        gpus=said["gpus"],
        team=team,
        flavors=flavors_or_only(settings, said["flavors"]),
        command=command,
        name=name,
        group_gpus=said["group_gpus"],
        duration=said["duration"],
        env=variables(said["variables"]),
        folder=str(Path(said["folder"] or ".").absolute()),
        pool=said["pool"],
        processes=said["processes"],
        array=said["array"],
        mail=said["mail"],
        mail_kinds=said["mail_kinds"],
    )
    return work.document()


_FIELDS = {
    "metadata.name": "--name",
    "spec.owner": "--team",
    "spec.resources.gpuType": "--flavor",
    "spec.resources.gpuTypes": "--flavor",
    "spec.resources.totalGPUs": "--gpus",
    "spec.locality.groupGPUs": "--group-gpus",
    "spec.runtime.expectedDuration": "--for",
    "spec.env": "--env",
    "spec.workingDir": "--dir",
    "spec.processes": "--processes",
    "spec.array": "--array",
    "spec.mail.to": "--mail",
    "spec.mail.kinds": "--mail-kind",
    "spec.pool": "--pool",
    "spec.command": "the command",
}
"""Maps a field of a Run document to the option that sets the field."""
