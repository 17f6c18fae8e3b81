"""``quorate explain``: what holds a run, and what would start it now."""

from __future__ import annotations

import click

from quorate.cli.settings import Settings, examples, reader


@click.command(
    epilog=examples(
        "quorate explain train-1",
        "quorate explain train-1 -o json",
    )
)
@click.argument("run")
@reader
@click.pass_obj
def explain(settings: Settings, run: str) -> None:
    """Say why a run waits and what would start it.

    Each change that is listed was tried by a dry run of the very command, and starts the run now.
    A run that was promised a start sees how that came about; one that was cut sees the conflict,
    its seed and the odds it had. Nothing is changed.
    """
    from quorate.answers.explanation import explanation_lines, explanation_tree
    from quorate.answers.failures import refused
    from quorate.answers.timeline import moves_of
    from quorate.cli.printing import print_tree
    from quorate.cli.session import reading
    from quorate.core.explain import explain as explain_run
    from quorate.model.refusal import Refusal

    with reading(settings) as read:
        found = explain_run(read.recorded, run.removeprefix("run/"), read.now_ms)
        if isinstance(found, Refusal):
            raise refused([found])
        if settings.is_table:
            moves = []
            if found.reservation is not None and found.reservation.cause:
                moves = moves_of(read.store, found.reservation.made.reservation)
            for line in explanation_lines(found, read.now_ms, settings.prefix, moves):
                click.echo(line)
            return
        print_tree(settings, explanation_tree(found, read.moment, settings.prefix))
