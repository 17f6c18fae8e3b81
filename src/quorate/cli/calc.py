"""``quorate calc``: the calculus at your fingertips: a world in, a decision out, no ledger."""

from __future__ import annotations

from typing import Final

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.settings import examples

KINDS: Final = (
    "topology",
    "pack",
    "cover",
    "bind",
    "validate",
    "forecast",
    "resolve",
    "scenario",
)
"""The kinds of ``quorate.calc``, named here so that ``--help`` need not import it."""


@click.command(
    epilog=examples(
        "quorate calc pack -f world.json",
        'echo \'{"flavor": "H100", "nodes": []}\' | quorate calc topology',
        'echo \'{"now": "2026-01-31T09:00:00Z", "steps": []}\' | quorate calc scenario',
    )
)
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    default="-",
    show_default=True,
    help="The world as JSON; - is standard input.",
)
def calc(kind: str, file: str) -> None:
    """Compute one decision on a world given as JSON.

    KIND is topology, pack, cover, bind, validate, forecast, resolve or scenario. The answer is
    JSON. A refusal is an answer too, with exit code 0; a world that cannot be read is an error,
    and so is a scenario in which something that it expects is not so.
    """
    import json

    from quorate.calc import run, unmet
    from quorate.cli.sources import STDIN, read_bytes

    source = "standard input" if file == STDIN else file
    try:
        world = json.loads(read_bytes(file).decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CommandError(
            Exit.INVALID, f"{source} is not JSON in UTF-8: {error}; write one JSON object"
        ) from None
    answer = run(kind, world)
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    if lines := unmet(answer):
        raise CommandError(Exit.REFUSED, *lines)
