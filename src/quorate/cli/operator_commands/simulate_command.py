"""``quorate simulate``: simulates a trace, or generated jobs, with any policy."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from quorate.cli.global_options import examples, output_option
from quorate.cli.policy_files import needs_rounds
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.sim.scenario import Scenario
    from quorate.sim.scenario_play import Stage

_REFUSALS_MAX: Final = 5
"""How many refused jobs are printed, at most, with the reason of each refusal."""
_PAUSE_MAX_S: Final = 10 * 365 * 86_400
"""The latest simulated time of a pause, in seconds; the production engine simulates no longer."""
_COMPARING: Final = {"seeds": "--seeds", "warm_up": "--warm-up", "processes": "--processes"}


class _Numbers(click.FloatRange):
    """A range of numbers that refuses nan, which the ranges of click accept."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{found} is not in the range {self._describe_range()}.", param, ctx)
        return found


@click.command(
    epilog=examples(
        "quorate simulate scenario.yaml --seed 7",
        "quorate simulate --discipline bind --trace philly.csv --cluster gpu=1280 --budgets 1.5",
        "quorate simulate --policy fifo_perf --trace jobs.csv --cluster h100=4 "
        "--throughputs rates.json",
        "quorate simulate drawn.yaml --gavel-strict --policy max_min_fairness_perf -o json",
        "quorate simulate scenario.yaml --checkpoint paused.sim  # Ctrl-C pauses",
        "quorate simulate --resume paused.sim",
        "quorate simulate drawn.yaml --compare bind,srtf --seeds 0-4 --report comparison.html",
    )
)
@click.argument("scenario", metavar="[SCENARIO]", required=False)
@click.option("--policy", metavar="NAME", help="The policy of the rounds; see quorate policy list.")
@click.option(
    "--gavel-strict",
    "strict",
    is_flag=True,
    default=None,
    help="Simulate Gavel's published mechanism including its defects, without a ledger.",
)
@click.option(
    "--discipline",
    type=click.Choice(["rounds", "bind"]),
    help="How the pool shares GPUs: in rounds, or until runs end (bind).  [default: rounds]",
)
@click.option("--trace", metavar="FILE", help="The jobs; - is standard input.")
@click.option("--format", metavar="FORM", help="The format of the trace, if it is not recognised.")
@click.option(
    "--map", "columns", metavar="MAP", help="Columns of a CSV: gpus=num_gpus,arrives_s=t,..."
)
@click.option(
    "--generate",
    metavar="WISHES",
    help="Generate Gavel's jobs: lam=4500,seed=42 and jobs=100, multi=1, weights=1, slos=1, "
    "arrivals=poisson|static|diurnal. With --compare, leave out seed: --seeds gives the seeds.",
)
@click.option("--measure", metavar="FROM:TO", help="Measure these jobs, and stop after them.")
@click.option("--cluster", metavar="GPUS", help="v100=36,p100=36,k80=36, or 36:36:36.")
@click.option(
    "--throughputs", metavar="FILE", help="The throughput of each type of job on each flavor."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="The seed of all random numbers; with --compare use --seeds.  [default: 0]",
)
@click.option(
    "--round", "round_s", type=float, help="The length of a round in seconds.  [default: 360]"
)
@click.option(
    "--budgets",
    type=float,
    metavar="FACTOR",
    help=(
        "Give each owner a budget in proportion to the GPU time of its jobs; at 1, the budgets "
        "add up to the whole fleet."
    ),
)
@click.option("--gpus-per-node", type=click.IntRange(1), help="[default: 8]")
@click.option("--depth", type=click.IntRange(0), help="The number of waiting runs to plan.")
@click.option(
    "--record", metavar="FILE", help="Write the ledger of the simulation to this new file."
)
@click.option("--report", metavar="FILE", help="Write a page with plots to this new file.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    help="The new file that stores a simulation when Ctrl-C or --pause-at pauses it.",
)
@click.option(
    "--pause-at",
    type=_Numbers(0, _PAUSE_MAX_S, min_open=True),
    metavar="SECONDS",
    help="Pause after this many simulated seconds.",
)
@click.option(
    "--resume",
    metavar="FILE",
    help="Resume the simulation stored in this file, with the options stored there.",
)
@click.option(
    "--compare",
    "names",
    metavar="A,B,...",
    help="Compare these policies on the same generated jobs: policies of "
    "rounds, bind, or the baselines fifo-easy, srtf, las and priority. The jobs come from "
    "--generate, which must not contain a seed.",
)
@click.option(
    "--seeds", default="0-4", show_default=True, help="The seeds of a comparison, at least 5."
)
@click.option(
    "--warm-up",
    type=_Numbers(0, 0.9),
    default=0.1,
    show_default=True,
    help=("In a comparison: the first part of the time, whose jobs are not measured."),
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=2,
    show_default=True,
    help="How many simulations of a comparison run in parallel.",
)
@output_option
@click.pass_obj
@needs_rounds
def simulate(
    settings: Settings,
    /,
    scenario: str | None,
    *,
    report: str | None,
    checkpoint: str | None,
    pause_at: float | None,
    resume: str | None,
    names: str | None,
    seeds: str,
    warm_up: float,
    processes: int,
    **given: Any,
) -> None:
    """Simulate a trace of jobs, and print the results.

    SCENARIO is a YAML file with the same fields as the options (docs/simulation.md); options take
    precedence over the file. Without --gavel-strict the production engine decides, with a ledger,
    budgets and nodes. The same input and seed give the same result, whether or not the simulation
    was paused.
    """
    from quorate.cli.simulation.simulate_pauses import pauses_of, played
    from quorate.sim.round_simulation import RoundsStuckError
    from quorate.sim.scenario import ScenarioError
    from quorate.sim.traces.trace_job import TraceError

    _refuse_without_effect(is_compared=names is not None)
    if report is not None:
        from quorate.cli.sources import must_be_new

        must_be_new(report)
    try:
        pauses = pauses_of(checkpoint, resume, pause_at)
        if names is not None:
            if pauses.kept is not None:
                raise click.UsageError("a comparison cannot be paused; remove --checkpoint")
            _compare(
                settings,
                scenario,
                given,
                names=names,
                seeds=seeds,
                warm_up=warm_up,
                processes=processes,
                report=report,
            )
            return
        if pauses.resumed is not None:
            _refuse_changes(scenario, given)
            asked = pauses.resumed.scenario
        else:
            asked = _asked(scenario, given)
        with ExitStack() as opened:
            stage = played(asked, pauses, opened)
            if stage is None:
                return
            _print(settings, asked, stage)
            if report is not None:
                _write_report(report, stage)
    except ScenarioError as error:
        raise CommandError(Exit.INVALID, str(error)) from None
    except TraceError as error:
        source = given["trace"] or _trace_in(scenario) or scenario or "the jobs"
        raise CommandError(Exit.INVALID, f"{source}: {error}") from None
    except RoundsStuckError as error:
        raise CommandError(Exit.REFUSED, str(error)) from None


def _trace_in(file: str | None) -> str | None:
    """Return the file of the trace that a scenario names, if it names one."""
    from quorate.cli.simulation.scenario_file import tree_in

    tree = None if file is None else tree_in(file)
    found = tree.get("trace") if isinstance(tree, dict) else None
    return found if isinstance(found, str) else None


def _asked(file: str | None, given: dict[str, Any], **assumed: str) -> Scenario:
    """Return the scenario that the file and the options ``given`` describe.

    The values of ``assumed`` take precedence over those of the file.
    """
    from quorate.cli.simulation.scenario_file import tree_in
    from quorate.sim.scenario import scenario_of

    tree = {} if file is None else tree_in(file)
    return scenario_of({**tree, **assumed} if isinstance(tree, dict) else tree, given)


def _compare(
    settings: Settings, scenario: str | None, given: dict[str, Any], *, names: str, **how: Any
) -> None:
    from msgspec.structs import replace

    from quorate.cli.simulation.simulate_comparison import simulate_comparison

    if given["policy"] is not None:
        raise click.UsageError("--compare names the policies; remove --policy")
    # A scenario needs a policy; each simulation of the comparison uses its own policy instead.
    asked = _asked(scenario, given, policy=names.partition(",")[0].strip())
    if given["record"] is None:
        asked = replace(asked, record=None)
    simulate_comparison(settings, asked, names=names, **how)


def _refuse_changes(scenario: str | None, given: dict[str, Any]) -> None:
    """Raise ``UsageError`` for options that would change a resumed simulation."""
    changed = next((name for name, value in given.items() if value is not None), None)
    if scenario is not None or changed is not None:
        options = click.get_current_context().command.params
        what = next((each.opts[0] for each in options if each.name == changed), "SCENARIO")
        raise click.UsageError(
            f"{what} has no effect: the file of --resume has all options; remove {what}"
        )


def _refuse_without_effect(*, is_compared: bool) -> None:
    """Raise ``UsageError`` if a given option has no effect with --compare, or without it."""
    context = click.get_current_context()
    others = {"seed": "--seed"} if is_compared else _COMPARING
    for name, option in others.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            remedy = "use --seeds" if is_compared else "it is only for --compare; remove it"
            raise click.UsageError(f"{option} has no effect: {remedy}")


def _print(settings: Settings, asked: Scenario, stage: Stage) -> None:
    from quorate.cli.printing import print_tree
    from quorate.sim.report.metrics import metrics_of
    from quorate.views.reports.report_forms import metrics_lines, metrics_tree

    refused = stage.refused()
    for each in refused[:_REFUSALS_MAX]:
        click.echo(f"refused: {each}", err=True)
    if len(refused) > _REFUSALS_MAX:
        click.echo(f"refused: {len(refused) - _REFUSALS_MAX} more jobs", err=True)
    outcome = stage.outcome()
    found = metrics_of(outcome)
    figures = {
        "jct_mean_s": None if found.jct_s is None else found.jct_s.mean,
        "makespan_s": found.makespan_s,
        "utilisation": found.utilisation,
        "cost": found.cost if found.cost_unit else None,
        "slo_violations": found.slo_violations,
        **stage.figures(),
    }
    if settings.is_table:
        for name, value in figures.items():
            if name == "cost":
                if value is not None:
                    click.echo(f"{name:24} {value:.6g} {found.cost_unit}")
                continue
            shown = f"{value:.6g}" if isinstance(value, float) else value
            click.echo(f"{name:24} {shown}")
        click.echo(f"{'cpu_s':24} {outcome.cpu_s:.6g}")
        if not asked.strict:
            click.echo()
            click.echo("\n".join(metrics_lines(found)))
        return
    # Machine-dependent values are separate, so that all other output of equal simulations is equal.
    machine = {"cpu_s": outcome.cpu_s}
    print_tree(settings, {**figures, "metrics": metrics_tree(found), "machine": machine})


def _write_report(file: str, stage: Stage) -> None:
    from quorate.cli.simulation.report_files import write_report

    write_report([stage.outcome()], title="Simulation", html=file, csv=None, parquet=None)
