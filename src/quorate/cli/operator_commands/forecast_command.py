"""``quorate forecast``: how accurate forecasts of starts were."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, ledger_options, output_option
from quorate.cli.settings import Settings


@click.group(epilog=examples("quorate forecast score", "quorate forecast score -o json"))
def forecast() -> None:
    """Compare forecasts of starts with the actual starts."""


@forecast.command(
    epilog=examples(
        "quorate forecast score",
        "quorate forecast score --from-ledger ledger.jsonl --every 10 -o json",
    )
)
@click.option(
    "--from-ledger",
    "source",
    metavar="FILE",
    help="A ledger's file, or an export of one.  [default: the ledger of --ledger]",
)
@click.option(
    "--every",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Forecast only every N-th run that waits, because each forecast computes a whole plan.",
)
@ledger_options
@output_option
@click.pass_obj
def score(settings: Settings, *, source: str | None, every: int) -> None:
    """Show how many runs started by the P50, and by the P90, of their forecasts.

    The ledger is replayed. For each run that has to wait, the command computes the forecast that
    `quorate plan` would have shown when the run was submitted. To score a trace, simulate it with
    --record, and score that ledger.
    """
    from quorate.cli.printing import print_tree
    from quorate.cli.recorded_blocks import recorded_blocks
    from quorate.sim.report.forecast_score import forecast_score
    from quorate.sim.whatif.fork import has_executor
    from quorate.views.reports.whatif_forms import score_lines, score_tree

    blocks = recorded_blocks(settings, source)
    found = forecast_score(blocks, has_executor=has_executor(blocks), every=every)
    if settings.is_table:
        click.echo("\n".join(score_lines(found)))
    else:
        print_tree(settings, score_tree(found))
