"""``quorate throughputs``: tables of the throughput of each type of job on each flavor."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, output_option
from quorate.cli.policy_files import needs_rounds
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


@click.group(epilog=examples("quorate throughputs check rates.json"))
def throughputs() -> None:
    """Inspect tables of the throughput of jobs on each flavor."""


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
    """Check a table: list its content, faults and missing rates.

    SPREAD is the number of rates on GPUs that are not near each other; in the table, their flavors
    have the suffix _unconsolidated. Missing rates of these flavors are listed, but are not a fault.
    The exit code is 3 if the table has a fault, or if a type has no rate on a flavor.
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
@click.option(
    "--to", "target", metavar="FILE", help="Write the table with its estimates to this file."
)
@click.option(
    "--trial",
    type=click.FloatRange(0, 1),
    metavar="PART",
    help=(
        "Hide all known rates except this fraction, and show for each type which other type was "
        "found to be most similar."
    ),
)
@click.option(
    "--known", type=click.IntRange(1), help="In a trial: the number of known types.  [default: all]"
)
@click.option(
    "--gpus", type=click.IntRange(1), help="In a trial: only types that use N GPUs.  [default: 1]"
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="In a trial: the seed that selects the hidden rates.  [default: 0]",
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
    """Estimate the rates of pairs that were not measured.

    If a type was measured together with only some of the other types, its missing rates are
    estimated from the known type that has the most similar rates. Rates of single jobs are never
    estimated. With --trial the command writes no rates: it shows how accurate its
    estimates would be.
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
            raise click.UsageError("--known, --gpus and --seed need --trial PART")
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
        raise click.UsageError("a trial writes no table; remove --to")
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
@click.option(
    "--flavor", required=True, help="The flavor on which jobs take their stated durations."
)
@click.option("--count", type=click.IntRange(1, 100_000), default=100, show_default=True)
@click.option(
    "--gap",
    "gap_s",
    type=click.FloatRange(0),
    default=1800.0,
    show_default=True,
    help="The mean time between two arrivals in seconds; 0: all at once.",
)
@click.option("--sizes", is_flag=True, help="Also draw the number of GPUs of each job at random.")
@click.option("--weights", is_flag=True, help="Also draw weights.")
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
    """Generate jobs with the types of a table, like Gavel's published generator.

    Four of five jobs take half an hour to 17 hours, the others up to a week. With --sizes, 70 % of
    the jobs use 1 GPU, 10 % use 2, 15 % use 4 and 5 % use 8; if their type has no rate for that
    number, they use the next smaller number that it has a rate for. A deadline (SLO) is a multiple
    of the job's duration. The same seed gives the same jobs.
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
    """Write ``data`` to a new file; raises ``CommandError`` if it exists or cannot be written."""
    from pathlib import Path

    try:
        with Path(path).open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise CommandError(
            Exit.REFUSED, f"{path} already exists; name a new file, or remove it"
        ) from None
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{path} cannot be written: {error.strerror}; name another file"
        ) from None
