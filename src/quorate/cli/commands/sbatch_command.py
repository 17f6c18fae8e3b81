"""``quorate sbatch``: submits a Slurm job as a run or an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import FORMATS, examples, writer
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quorate.cli.slurm.sbatch_options import Option
    from quorate.cli.slurm.sbatch_script import Script

_SLURM: Final = "quorate.sbatch"
"""The key in click's ``meta`` under which Slurm's options and the script are kept."""


class _SlurmLine(click.Command):
    """A command that takes options of sbatch and its own options, all before the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set Slurm's options and the script aside, and parse the command's own options."""
        from quorate.cli.slurm.sbatch_options import split_command_line
        from quorate.cli.slurm.sbatch_script import KNOWN

        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        ours = {name for each in options if not each.is_flag for name in each.opts}
        flags = {name for each in options if each.is_flag for name in each.opts}
        line = split_command_line(args, ours=_not_slurm(ours, args), flags=flags, known=KNOWN)
        ctx.meta[_SLURM] = line
        return super().parse_args(ctx, list(line.ours))


def _not_slurm(ours: set[str], args: Sequence[str]) -> set[str]:
    """Return the command's own options, without ``-o`` if ``args`` has ``-o FILE``.

    ``-o FORMAT`` is the command's own option, and ``-o FILE`` is Slurm's.
    """
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name in ("-o", "--output"):
            form = value if equals else "".join(args[at + 1 : at + 2])
            return ours if form in FORMATS else ours - {"-o", "--output"}
    return ours


@click.command(
    cls=_SlurmLine,
    epilog=examples(
        "quorate sbatch --account=rai job.sh",
        "quorate sbatch -A rai --gpus=H100:16 --time=4:00:00 --dry-run job.sh --epochs 3",
        "quorate sbatch -A rai --array=0-9%2 --gpus=h100:1 job.sh",
        "quorate sbatch -A rai -G h100:1 --wrap='python train.py'",
        "quorate sbatch -A rai --dependency=afterok:train-1 --parsable job.sh",
        "quorate sbatch -A rai --dependency='afterok:sweep[1-3]' job.sh   # tasks of an array",
    ),
    options_metavar="[OPTIONS] [SLURM OPTIONS]",
)
@click.option(
    "--team",
    "--owner",
    "team",
    metavar="OWNER",
    help="The owner of the run; by default --account.",
    shell_complete=names_of("owner"),
)
@click.option("--flavor", metavar="KIND", help="The kind of GPU; by default as in --gpus, --gres.")
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    help="The expected duration; by default the time limit, --time.",
)
@click.option(
    "--pool",
    metavar="POOL",
    help="The pool; by default --partition.",
    shell_complete=names_of("pool"),
)
@click.option(
    "--name",
    metavar="NEW",
    help="The name of the run; by default generated from --job-name.",
)
@writer
@click.pass_context
def sbatch(ctx: click.Context, /, *, dry_run: bool, **typed: Any) -> None:
    """Submit a job that was written for Slurm.

    Write SCRIPT [ARGUMENT]... after the options, or --wrap=COMMAND among them.

    Options of sbatch may be given before the script and in its #SBATCH lines; options before the
    script take precedence. These options of sbatch have an effect: job-name, gpus, gpus-per-node,
    gpus-per-task, gres=gpu, nodes, ntasks, ntasks-per-node, time, account, partition, chdir,
    export, array, dependency=afterok|afterany|aftercorr|singleton, wrap, mail-user, mail-type,
    parsable and test-only. Ignored options are listed on standard error, one per line. If ignoring
    an option would change the meaning of the job, as for begin, the option is refused. Words after
    the script are its arguments.

    An array is submitted as one document. Each task is a run with the name NAME_INDEX; `NAME[1-3]`
    names several tasks, and NAME the whole array. The script is not copied: it must still exist
    under the same path when the run starts.
    """
    from quorate.cli.slurm.sbatch_options import CommandLine
    from quorate.cli.typed_keys import new_key
    from quorate.cli.typed_run import worded

    settings, line = ctx.obj, ctx.meta[_SLURM]
    assert isinstance(settings, Settings)
    assert isinstance(line, CommandLine)
    script, path, arguments = _read(line.options, line.rest, typed)
    key = settings.idempotency_key() or new_key()
    tree = _document(settings, script, path, arguments, typed, key=key)
    if settings.service() is not None:
        settings = settings._replace(key_option=key)
    for each in script.said:
        click.echo(each, err=True)
    for word in _meant_for_us(ctx, arguments):
        click.echo(
            f"{word}: is after {line.rest[0]}, so it is an argument of the script; to pass it to "
            "quorate, write it before the script",
            err=True,
        )
    if path:
        click.echo(
            f"{line.rest[0]}: is not copied; {path} must still exist when the run starts", err=True
        )
    is_dry = dry_run or "test-only" in script.asked
    with worded(settings, tree, _FIELDS):
        _submit(settings, tree, is_dry=is_dry, is_parsable="parsable" in script.asked)


def _submit(settings: Settings, tree: dict[str, Any], *, is_dry: bool, is_parsable: bool) -> None:
    """Submit the run or the array; print the outcome, or with ``--parsable`` only the name."""
    from quorate.cli.ask_and_print import ask, tree_asked
    from quorate.operations.resources.run_operations import SubmitRun

    asked = SubmitRun(document=tree, dry_run=is_dry)
    if not is_parsable:
        ask(settings, "submit-run", asked)
        return
    tree_asked(settings, "submit-run", asked)
    click.echo(tree["metadata"]["name"])


def _meant_for_us(ctx: click.Context, arguments: Sequence[str]) -> list[str]:
    """Return the arguments of the script that are also options of this command."""
    from quorate.cli.slurm.sbatch_script import KNOWN

    ours = {name for each in ctx.command.params for name in each.opts}
    ours |= {f"--{key}" for key in KNOWN}
    words = (each.partition("=")[0] for each in arguments)
    return [word for word in dict.fromkeys(words) if word.startswith("--") and word in ours]


_INSTEAD: Final = (
    ("pool", "partition", "--pool"),
    ("team", "account", "--team"),
    ("name", "job-name", "--name"),
)
"""Each row has a parameter, the option of the script that the parameter replaces, and the option
that sets the parameter.
"""


def _read(
    options: Sequence[Option], words: Sequence[str], typed: Mapping[str, Any]
) -> tuple[Script, str, tuple[str, ...]]:
    """Return the job's request, the path of its script, and the arguments of the script.

    The path is empty for ``--wrap``.
    """
    from pathlib import Path

    from quorate.cli.slurm.sbatch_script import read_script, read_wrapped

    wrapped = next((each.value for each in options if each.key == "wrap"), None)
    if wrapped is not None:
        if words:
            raise CommandError(
                Exit.USAGE, f"--wrap: already gives the command; remove {words[0]!r}"
            )
        return read_wrapped(wrapped, options), "", ()
    if not words:
        raise CommandError(
            Exit.USAGE,
            "name a script, as in: quorate sbatch job.sh; or give --wrap=COMMAND; standard input "
            "is not read",
        )
    given = {key: option for name, key, option in _INSTEAD if typed[name] is not None}
    script = read_script(_text(words[0]), words[0], options, given)
    return script, str(Path(words[0]).absolute()), tuple(words[1:])


def _text(script: str) -> str:
    from pathlib import Path

    from quorate.cli.slurm.sbatch_script import SCRIPT_BYTES_MAX
    from quorate.cli.sources import read_bytes

    if script == "-":
        raise CommandError(
            Exit.USAGE,
            "standard input is not read: the script must exist when the run starts; save it, "
            "and write: quorate sbatch job.sh; or give --wrap=COMMAND",
        )
    if not Path(script).is_file():
        raise CommandError(
            Exit.UNUSABLE, f"there is no readable file {script}; name an existing script"
        )
    data = read_bytes(script)
    if len(data) > SCRIPT_BYTES_MAX or b"\0" in data:
        raise CommandError(Exit.INVALID, f"{script} is not a script; name one")
    return data.decode("utf-8", "replace")


def _document(
    settings: Settings,
    script: Script,
    path: str,
    arguments: Sequence[str],
    typed: Mapping[str, Any],
    *,
    key: str,
) -> dict[str, Any]:
    """Return the Run document of the job.

    Without ``--name``, the name of the run is made from the job's name and ``key``, the idempotency
    key. A command that is repeated with the same key then requests the same run.
    """
    from binascii import crc32
    from pathlib import Path

    from quorate.cli.slurm.batch_job import Job, document_of, job_words, variables_of
    from quorate.cli.typed_run import flavors_or_only, team_or_own
    from quorate.client.run_document import prefix

    what = Path(path).name or "the job"
    gpus = script.gpus_total()
    if gpus is None:
        raise CommandError(
            Exit.INVALID, f"{what}: asks for no GPUs; add #SBATCH --gpus=N, or give --gpus=N"
        )
    team = team_or_own(settings, typed["team"] or script.team)
    if team is None:
        raise CommandError(
            Exit.INVALID,
            f"{what}: has no owner; add #SBATCH --account=OWNER, or give --account=OWNER",
        )
    flavor = typed["flavor"] or script.flavor
    job_name = typed["name"] or script.name or (Path(path).name or "wrap")
    folder = str(Path(script.folder or ".").absolute())
    script.pool = typed["pool"] or script.pool
    name = typed["name"] or f"{prefix([job_name])}{crc32(key.encode()):08x}"
    others = _others(settings, job_name) if script.is_singleton else ()
    job = Job(
        script=script,
        name=name,
        words=job_words(script, path, arguments),
        gpus=gpus,
        team=team,
        flavors=tuple(flavors_or_only(settings, () if flavor is None else (flavor,))),
        folder=folder,
        pool=script.pool,
        duration=typed["duration"] or script.duration,
        env=variables_of(
            script, settings.environ, job_name=job_name, submit_dir=str(Path.cwd()), team=team
        ),
        singleton_after=tuple(each for each in others if each != name),
    )
    return document_of(job)


def _others(settings: Settings, job_name: str) -> tuple[str, ...]:
    """Return the names of the caller's waiting and running runs with this job name.

    A job with the dependency ``singleton`` follows these runs.
    """
    from quorate.cli.ask_and_print import tree_asked
    from quorate.operations.common_requests import Nothing
    from quorate.operations.resources.resource_operations import ListRuns

    user = settings.actor()
    if settings.service() is not None:
        user = tree_asked(settings, "whoami", Nothing())["user"]
    return tuple(
        each["metadata"]["name"]
        for phase in ("Pending", "Running")
        for each in tree_asked(settings, "list-runs", ListRuns(phase=phase))["items"]
        if each["spec"].get("env", {}).get("SLURM_JOB_NAME") == job_name
        and each["spec"].get("user") == user
    )


_FIELDS: Final = {
    "metadata.name": "--name or --job-name",
    "spec.owner": "--team or --account",
    "spec.resources.gpuType": "--flavor",
    "spec.resources.totalGPUs": "--gpus",
    "spec.runtime.expectedDuration": "--for or --time",
    "spec.env": "--export",
    "spec.follow": "--dependency",
    "spec.array": "--array",
    "spec.workingDir": "--chdir",
    "spec.pool": "--pool or --partition",
    "spec.mail": "--mail-user",
    "spec.command": "the script",
}
"""Maps a field of a Run document to the options that set the field."""
