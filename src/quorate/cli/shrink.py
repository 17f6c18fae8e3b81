"""``quorate shrink``: a malleable run gives steps back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorate.cli.settings import Settings, examples, writer

if TYPE_CHECKING:
    from quorate.model.view import StateView


@click.command(
    epilog=examples(
        "quorate shrink train-1 --to 16",
        "quorate shrink train-1 --by 8",
        "quorate shrink train-1 --to 16 --dry-run     # who would start in its place?",
    )
)
@click.argument("run")
@click.option(
    "--to", "to", metavar="GPUS", type=click.IntRange(min=1), help="The width to go on with."
)
@click.option(
    "--by", "by", metavar="GPUS", type=click.IntRange(min=1), help="By how much, instead."
)
@writer
@click.pass_obj
def shrink(settings: Settings, *, run: str, to: int | None, by: int | None, dry_run: bool) -> None:
    """Let a malleable run go on with fewer GPUs.

    Whole steps are given back, the highest first; the minimum stays. Runs that wait are tried on
    what becomes free. A run that gave steps back grows again when nobody waits in its pool.
    """
    from quorate.answers.words import gpus
    from quorate.cli.carry_out import carry_out
    from quorate.cli.finish import run_name
    from quorate.cli.session import writing
    from quorate.core.commands import Shrink

    if (to is None) == (by is None):
        raise click.UsageError("give either --to GPUS or --by GPUS")
    name = run_name(run)
    with writing(settings, dry_run=dry_run) as engine:
        width = width_of(engine.view, name)
        wanted = to if to is not None else width - (by or 0)
        carry_out(
            settings,
            engine,
            Shrink(name, wanted),
            dry_run=dry_run,
            unchanged=f"run/{name} works on {gpus(width)} already",
        )


def width_of(view: StateView, run: str) -> int:
    """Return the GPUs a malleable run works on, 0 for any other: those are refused anyway."""
    from quorate.core.elastic import steps_held

    record = view.runs.get(run)
    elastic = None if record is None else record.spec.malleable
    if record is None or elastic is None:
        return 0
    return elastic.gpus_min + len(steps_held(view, record)) * elastic.gpus_step
