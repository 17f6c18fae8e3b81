"""``quorate sbatch``: a script with ``#SBATCH`` lines, submitted as a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from quorate.cli.sbatch_script import Script


@click.command(
    # What follows the script belongs to the script.
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "quorate sbatch --team rai job.sh",
        "quorate sbatch --team rai --gpus 16 --dry-run job.sh --epochs 3",
        "quorate sbatch --team rai --pool default --for 2h job.sh",
    ),
)
@click.argument("script", type=click.Path(dir_okay=False))
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1)
@click.option("--gpus", metavar="N", type=click.IntRange(min=1), help="Work on N GPUs.")
@click.option(
    "--team",
    "--owner",
    "team",
    metavar="OWNER",
    help="The owner of the run; by default --account of the script.",
    shell_complete=names_of("owner"),
)
@click.option("--flavor", metavar="KIND", help="The kind of GPU.")
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    help="How long it is expected to take; by default --time of the script.",
)
@click.option(
    "--pool",
    metavar="POOL",
    help="The pool; by default --partition of the script.",
    shell_complete=names_of("pool"),
)
@click.option(
    "--name",
    metavar="NEW",
    help="The name of the run; by default one that begins with --job-name of the script.",
)
@writer
@click.pass_obj
def sbatch(
    settings: Settings,
    /,
    *,
    script: str,
    arguments: tuple[str, ...],
    dry_run: bool,
    **typed: Any,
) -> None:
    """Submit a script that was written for Slurm.

    Its #SBATCH lines are understood: job-name, gpus, gpus-per-node, gpus-per-task, gres=gpu, nodes,
    ntasks, time, account, partition, chdir, export and dependency=afterok. Ignored options are
    listed on standard error, line by line; an option that changes the meaning, such as an array, is
    refused. Options given here win; they come before the script, and what follows it belongs to the
    script.

    The script is not copied: it must be there, under the same path, when the run starts.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.cli.sbatch_script import read_script
    from quorate.operations.resources.run_operations import SubmitRun

    path, text = _read(script)
    given = {line: option for name, line, option in _INSTEAD if typed[name] is not None}
    found = read_script(text, script, given)
    tree = _document(settings, found, path, arguments, typed)
    for line in found.said:
        click.echo(line, err=True)
    for word in _meant_for_us(arguments):
        click.echo(
            f"{word}: comes after {script}, so it is handed to the script; to give it to quorate, "
            "write it before",
            err=True,
        )
    click.echo(f"{script}: is not copied; {path} must be there when the run starts", err=True)
    ask(settings, "submit-run", SubmitRun(document=tree, dry_run=dry_run))


_INSTEAD = (("pool", "partition", "--pool"), ("duration", "time", "--for"))
"""Parameter, the script's option that it replaces, and what is typed."""


def _meant_for_us(arguments: Sequence[str]) -> list[str]:
    """Return the words after a script that are also options of this command."""
    ours = {name for each in click.get_current_context().command.params for name in each.opts}
    words = (each.partition("=")[0] for each in arguments)
    return [word for word in dict.fromkeys(words) if word.startswith("--") and word in ours]


def _read(script: str) -> tuple[Path, str]:
    from pathlib import Path

    from quorate.cli.sbatch_script import SCRIPT_BYTES_MAX
    from quorate.cli.sources import read_bytes

    data = read_bytes(script)
    if script == "-":
        raise CommandError(
            Exit.USAGE, "a script is read again when the run starts, so it must be in a file"
        )
    if len(data) > SCRIPT_BYTES_MAX or b"\0" in data:
        raise CommandError(Exit.INVALID, f"{script} is not a script; name one")
    return Path(script).absolute(), data.decode("utf-8", "replace")


def _document(
    settings: Settings,
    script: Script,
    path: Path,
    arguments: Sequence[str],
    typed: Mapping[str, Any],
) -> dict[str, Any]:
    from pathlib import Path

    from quorate.cli.typed_run import checked, team_or_own
    from quorate.client.run_document import Work, prefix

    gpus = typed["gpus"] or script.gpus_total()
    if gpus is None:
        raise CommandError(
            Exit.INVALID, f"{path.name}: asks for no GPUs; add #SBATCH --gpus=N, or give --gpus N"
        )
    team = team_or_own(settings, typed["team"] or script.team)
    if team is None:
        raise CommandError(
            Exit.INVALID,
            f"{path.name}: does not say whose work it is; add #SBATCH --account=OWNER, or give "
            "--team OWNER",
        )
    work = Work(
        gpus=gpus,
        team=team,
        flavors=_flavors(settings, typed["flavor"] or script.flavor),
        command=[*script.interpreter, str(path), *arguments],
        name=typed["name"],
        duration=typed["duration"] or script.duration,
        env={**_copied(settings, script), **script.env},
        folder=str(Path(script.folder or ".").absolute()),
        after=script.after,
        pool=typed["pool"] or script.pool,
        processes="run",  # As Slurm does: the script is started once.
    )
    tree = work.document()
    if typed["name"] is None:
        tree["metadata"] = {"generateName": prefix([script.name or path.name])}
    return checked(tree, _FIELDS)


_FIELDS = {
    "metadata.name": "--name",
    "metadata.generateName": "--job-name",
    "spec.owner": "--team or --account",
    "spec.resources.gpuType": "--flavor",
    "spec.resources.totalGPUs": "--gpus",
    "spec.runtime.expectedDuration": "--for or --time",
    "spec.env": "--export",
    "spec.follow": "--dependency",
    "spec.workingDir": "--chdir",
    "spec.pool": "--pool or --partition",
    "spec.command": "the script",
}
"""Fields of a Run document -> what they were taken from."""


def _flavors(settings: Settings, wanted: str | None) -> list[str]:
    """Return the flavor as the fleet spells it: Slurm's types are written in any case."""
    from quorate.cli.typed_run import domain_statuses, flavors_or_only

    if wanted is None:
        return flavors_or_only(settings, ())
    known = {str(each["flavor"]) for each in domain_statuses(settings)}
    alike = sorted(each for each in known if each.lower() == wanted.lower())
    return [wanted if wanted in known or not alike else alike[0]]


def _copied(settings: Settings, script: Script) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in script.copied:
        if name in settings.environ:
            found[name] = settings.environ[name]
        else:
            script.said.append(f"--export: {name}: is not set here, so nothing is copied")
    return found
