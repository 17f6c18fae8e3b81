"""``quorate policy``: allocates GPUs of several flavors with any of the policies."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, output_option
from quorate.cli.policy_files import needs_rounds, problem_options
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


@click.group(
    epilog=examples(
        "quorate policy list",
        "quorate policy solve -p isolated --problem problem.json",
        "quorate policy compare --problem problem.json",
    )
)
def policy() -> None:
    """Allocate GPUs of several flavors to jobs with a policy.

    A policy gives each job a share of its time on GPUs of each flavor. These commands read files
    and need no ledger; docs/reference/policies.md describes the files.
    """


@policy.command("list", epilog=examples("quorate policy list", "quorate policy list -o wide"))
@output_option
@click.pass_obj
@needs_rounds
def list_policies(settings: Settings) -> None:
    """List the policies and their objectives."""
    from quorate.cli.printing import print_tree
    from quorate.policy.plugin_policies import known_policies
    from quorate.views.policies.policy_view import policies_text, policies_tree

    known = known_policies()
    if settings.is_table:
        click.echo(policies_text(known.by_name.values(), show_wide=settings.wide))
    else:
        print_tree(settings, policies_tree(known.by_name.values()))
    for fault in known.faults:
        click.echo(f"warning: {fault}", err=True)


@policy.command(
    epilog=examples(
        "quorate policy solve -p isolated --problem problem.json",
        "quorate policy solve -p fifo_packed --problem problem.json -o json",
        "quorate policy solve -p fifo --throughputs rates.json --jobs jobs.json "
        "--cluster h100=2,l40s=3",
    )
)
@click.option("-p", "--policy", "name", metavar="NAME", required=True, help="Which policy.")
@problem_options
@output_option
@click.pass_obj
@needs_rounds
def solve(
    settings: Settings,
    *,
    name: str,
    problem: str | None,
    throughputs: str | None,
    jobs: str | None,
    cluster: str | None,
) -> None:
    """Show the allocation of a policy.

    For each job, and for each pair that shares GPUs ("0,1"), prints the share of its time on each
    flavor. Also prints the objective, the bound on the objective's distance from the optimum, and
    the gain from one more GPU of each flavor.
    """
    from quorate.cli.policy_files import policy_called, problem_of_options
    from quorate.cli.printing import print_tree
    from quorate.policy.allocation import Unsolved
    from quorate.policy.askable import answer
    from quorate.views.policies.policy_view import solution_text, solution_tree

    chosen = policy_called(name)
    asked = problem_of_options(problem, throughputs, jobs, cluster, with_pairs=chosen.reads_pairs)
    found = answer(chosen, asked)
    if isinstance(found, Unsolved):
        raise CommandError(Exit.REFUSED, f"{chosen.name}: {found.message}; {found.remedy}")
    if settings.is_table:
        click.echo(solution_text(chosen, asked, found, show_wide=settings.wide))
    else:
        print_tree(settings, solution_tree(chosen, asked, found))


@policy.command(
    epilog=examples(
        "quorate policy compare --problem problem.json",
        "quorate policy compare -p isolated -p fifo_perf --problem problem.json -o wide",
    )
)
@click.option(
    "-p",
    "--policy",
    "names",
    metavar="NAME",
    multiple=True,
    help="Solve with this policy only; by default with all.",
)
@problem_options
@output_option
@click.pass_obj
@needs_rounds
def compare(
    settings: Settings,
    *,
    names: tuple[str, ...],
    problem: str | None,
    throughputs: str | None,
    jobs: str | None,
    cluster: str | None,
) -> None:
    """Compare the allocations of several policies for one problem.

    LEAST RATE is the smallest rate of a job, relative to the job's weight and to its rate with a
    proportional share of all GPUs. FINISH RATIO is the largest ratio of the time that a job takes
    to the time that the job would take alone with an equal share.
    MAKESPAN is when the last job ends. A policy without a solution is shown with its refusal.
    """
    from quorate.cli.policy_files import policy_called, problem_of_options
    from quorate.cli.printing import print_tree
    from quorate.policy.allocation import Unsolved
    from quorate.policy.askable import answer
    from quorate.policy.plugin_policies import known_policies
    from quorate.views.policies.policy_view import comparison_text, comparison_tree

    every = known_policies().by_name.values()
    chosen = [policy_called(name) for name in dict.fromkeys(names)] or list(every)
    with_pairs = any(each.reads_pairs for each in chosen)
    asked = problem_of_options(problem, throughputs, jobs, cluster, with_pairs=with_pairs)
    answers = [(each, answer(each, asked)) for each in chosen]
    if settings.is_table:
        click.echo(comparison_text(asked, answers, show_wide=settings.wide))
    else:
        print_tree(settings, comparison_tree(asked, answers))
    refused = [found for _, found in answers if isinstance(found, Unsolved)]
    if len(refused) == len(answers):
        raise CommandError(
            Exit.REFUSED,
            f"no policy found an allocation: {refused[0].message}; {refused[0].remedy}",
        )
