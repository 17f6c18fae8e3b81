"""``quorate shrink``: takes steps from a malleable run."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings


@click.command(
    epilog=examples(
        "quorate shrink train-1 --to 16",
        "quorate shrink train-1 --by 8",
        "quorate shrink train-1 --to 16 --dry-run     # which runs would start instead?",
    )
)
@click.argument("run", shell_complete=names_of("run"))
@click.option("--to", "to", metavar="GPUS", type=click.IntRange(min=1), help="The new width.")
@click.option(
    "--by",
    "by",
    metavar="GPUS",
    type=click.IntRange(min=1),
    help="The number of GPUs to give back, instead of --to.",
)
@writer
@click.pass_obj
def shrink(settings: Settings, *, run: str, to: int | None, by: int | None, dry_run: bool) -> None:
    """Shrink a malleable run to fewer GPUs.

    The run gives back whole steps, the highest first, and keeps its minimum. The scheduler tries to
    start waiting runs on the freed GPUs. The run does not grow above the new width by itself.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.cli.typed_names import run_name
    from quorate.operations.resources.run_operations import ShrinkRun

    if (to is None) == (by is None):
        raise click.UsageError("give either --to GPUS or --by GPUS")
    ask(settings, "shrink-run", ShrinkRun(run=run_name(run), gpus=to, by=by, dry_run=dry_run))
