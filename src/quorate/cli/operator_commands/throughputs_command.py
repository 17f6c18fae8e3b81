"""``quorate throughputs``: tables of how fast each type of job is on each flavor."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, output_option
from quorate.cli.policy_files import needs_rounds
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


@click.group(epilog=examples("quorate throughputs check rates.json"))
def throughputs() -> None:
    """Look at tables of how fast jobs are on each flavor."""


@throughputs.command(
    epilog=examples(
        "quorate throughputs check rates.json",
        "quorate throughputs check rates.json -o json",
    )
)
@click.argument("file", metavar="FILE")
@output_option
@click.pass_obj
@needs_rounds
def check(settings: Settings, file: str) -> None:
    """Say what a table has, and everything that is wrong or missing in it.

    SPREAD are the rates on GPUs that are not together, which are listed under the name of the
    flavor with _unconsolidated; what is missing there is listed, and no fault. Exit code 3 when
    anything is wrong, or a type has no rate on a flavor.
    """
    from quorate.cli.policy_files import table_in
    from quorate.cli.printing import print_tree
    from quorate.views.policies.policy_view import rates_text, rates_tree

    found = table_in(file)
    if settings.is_table:
        click.echo(rates_text(found))
        for gap in found.spread_gaps():
            click.echo(f"note: {gap.place} {gap.message}")
    else:
        print_tree(settings, rates_tree(found))
    if gaps := found.gaps():
        raise CommandError(Exit.INVALID, *(f"{file}: {gap.text()}" for gap in gaps))


@throughputs.command(
    epilog=examples(
        "quorate throughputs estimate rates.json",
        "quorate throughputs estimate rates.json --to complete.json",
        "quorate throughputs estimate rates.json --trial 0.5 --known 3",
    )
)
@click.argument("file", metavar="FILE")
@click.option("--to", "target", metavar="FILE", help="Write the table with its estimates there.")
@click.option(
    "--trial",
    type=click.FloatRange(0, 1),
    metavar="PART",
    help="Hide all known rates but this part, and show which known type each type is taken for.",
)
@click.option(
    "--known", type=click.IntRange(1), help="In a trial: how many types stay known; by default all."
)
@click.option(
    "--gpus", type=click.IntRange(1), help="In a trial: only types that take N GPUs; by default 1."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="In a trial: the seed by which rates are hidden; by default 0.",
)
@output_option
@click.pass_obj
@needs_rounds
def estimate(
    settings: Settings,
    file: str,
    *,
    target: str | None,
    trial: float | None,
    known: int | None,
    gpus: int | None,
    seed: int | None,
) -> None:
    """Estimate how fast types of jobs share GPUs, where they were not measured.

    A type that was measured beside some others is taken for the one among those that are known
    whose rates are most like its own, and shares GPUs as that one does. Rates alone are never
    estimated. With --trial nothing is estimated: it shows how well that would go.
    """
    from quorate.cli.policy_files import table_in
    from quorate.cli.printing import print_tree
    from quorate.policy.files.estimate_table import estimated
    from quorate.policy.files.file_faults import Faulty
    from quorate.policy.files.throughputs_file import write_throughputs
    from quorate.views.policies.estimate_view import (
        estimates_text,
        estimates_tree,
        trial_text,
        trial_tree,
    )

    found = table_in(file)
    if trial is None:
        if known is not None or gpus is not None or seed is not None:
            raise click.UsageError("--known, --gpus and --seed are of a trial; add --trial PART")
        made = estimated(found)
        if isinstance(made, Faulty):
            raise CommandError(Exit.INVALID, *(f"{file}: {each.text()}" for each in made.faults))
        if target is not None:
            _write(target, write_throughputs(made.table))
        if settings.is_table:
            click.echo(estimates_text(made))
        else:
            print_tree(settings, estimates_tree(made))
        return

    from quorate.sim.profile_trial import Trial, try_estimator

    if target is not None:
        raise click.UsageError("a trial makes no table; leave --to out")
    tried = try_estimator(
        found, Trial(part=trial, known=known, seed=seed or 0, scale=1 if gpus is None else gpus)
    )
    if isinstance(tried, Faulty):
        raise CommandError(Exit.INVALID, *(f"{file} {each.text()}" for each in tried.faults))
    if settings.is_table:
        click.echo(trial_text(tried))
    else:
        print_tree(settings, trial_tree(tried))


@throughputs.command(
    epilog=examples(
        "quorate throughputs draw rates.json --flavor h100",
        "quorate throughputs draw rates.json --flavor h100 --count 5 --sizes --seed 3 -o json",
    )
)
@click.argument("file", metavar="FILE")
@click.option("--flavor", required=True, help="The flavor for which durations of jobs are drawn.")
@click.option("--count", type=click.IntRange(1, 100_000), default=100, show_default=True)
@click.option(
    "--gap",
    "gap_s",
    type=click.FloatRange(0),
    default=1800.0,
    show_default=True,
    help="Seconds between two arrivals, on the mean; 0: all at once.",
)
@click.option("--sizes", is_flag=True, help="Draw how many GPUs a job takes, too.")
@click.option("--weights", is_flag=True, help="Draw weights, too.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@output_option
@click.pass_obj
@needs_rounds
def draw(
    settings: Settings,
    file: str,
    *,
    flavor: str,
    count: int,
    gap_s: float,
    sizes: bool,
    weights: bool,
    seed: int,
) -> None:
    """Draw jobs of the types of a table, as the published generator does.

    Four of five jobs take half an hour to 17 hours, the others up to a week. With --sizes, 70 %
    take 1 GPU, 10 % 2, 15 % 4 and 5 % 8, or the most that their type has a rate for. A deadline
    (SLO) is a multiple of what the job takes. The same seed draws the same jobs.
    """
    from itertools import islice

    from quorate.cli.policy_files import table_in
    from quorate.cli.printing import print_tree
    from quorate.sim.job_stream import Wishes, drawn_jobs
    from quorate.sim.table_rates import rates_on, templates_of
    from quorate.views.policies.estimate_view import jobs_text, jobs_tree

    found = table_in(file)
    if flavor not in found.flavors:
        raise CommandError(
            Exit.INVALID, f"{file} has no flavor {flavor}; use one of {', '.join(found.flavors)}"
        )
    templates = templates_of(found, flavor)
    if not templates:
        raise CommandError(Exit.INVALID, f"{file} has no type that runs on {flavor}; use another")
    wishes = Wishes(
        seed=seed, gap_s=gap_s, has_sizes=sizes, has_weights=weights, templates=templates
    )
    jobs = list(islice(drawn_jobs(wishes, rates_on(found, flavor)), count))
    if settings.is_table:
        click.echo(jobs_text(jobs))
    else:
        print_tree(settings, jobs_tree(jobs))


def _write(path: str, data: bytes) -> None:
    """Write ``data`` to a new file; raises ``CommandError`` where there is one, or cannot be."""
    from pathlib import Path

    try:
        with Path(path).open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise CommandError(
            Exit.REFUSED, f"{path} is there already; name a new file, or remove that one"
        ) from None
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{path} cannot be written: {error.strerror}; name another file"
        ) from None
