"""``quorate calc``: computes one decision from a JSON input, without a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from quorate.cli.global_options import examples
from quorate.views.exits import CommandError, Exit

KINDS: Final = (
    "topology",
    "pack",
    "cover",
    "bind",
    "validate",
    "forecast",
    "resolve",
    "scenario",
    "rounds",
)
"""The kinds of ``quorate.calc``, repeated here so that ``--help`` need not import that package."""
ROUNDS: Final = "rounds"
PUBLISHED_PLACE: Final = "data/gavel"
"""The path of the folder with published tables of throughputs.

The path begins at the folder of the input file, or at a parent of that folder.
"""


@click.command(
    epilog=examples(
        "quorate calc pack -f world.json",
        'echo \'{"flavor": "H100", "nodes": []}\' | quorate calc topology',
        'echo \'{"now": "2026-01-31T09:00:00Z", "steps": []}\' | quorate calc scenario',
        "quorate calc rounds -f recording.json",
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
@click.option(
    "--throughputs",
    "rates_file",
    metavar="FILE",
    help="For rounds: the table of throughputs, as JSON.  [default: the field throughputs of the"
    " world, or the file in its field throughputs_file]",
)
def calc(kind: str, file: str, rates_file: str | None) -> None:
    """Compute one decision on a world given as JSON.

    A world is a fleet with its budgets and runs. KIND is topology, pack, cover, bind, validate,
    forecast, resolve, scenario or rounds. The answer is JSON. A refusal is also an answer, with
    exit code 0. A world that cannot be read is an error. A scenario with a failed expectation is an
    error, too.
    """
    import json

    from quorate.calc import run, unmet

    world = _read(file)
    if kind == ROUNDS:
        world = _with_rates(world, file, rates_file)
    elif rates_file is not None:
        raise CommandError(
            Exit.INVALID, f"--throughputs is only for rounds, not for {kind}; remove it"
        )
    answer = run(kind, world)
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    if lines := unmet(answer):
        raise CommandError(Exit.REFUSED, *lines)


def _read(file: str) -> object:
    """Return the JSON value in ``file``."""
    import json

    from quorate.cli.sources import STDIN, read_bytes

    source = "standard input" if file == STDIN else file
    try:
        return json.loads(read_bytes(file).decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CommandError(
            Exit.INVALID, f"{source} is not JSON in UTF-8: {error}; write one JSON object"
        ) from None


def _with_rates(world: object, file: str, rates_file: str | None) -> object:
    """Return ``world`` with its table of throughputs, from the world or from a file."""
    from quorate.cli.sources import STDIN

    if not isinstance(world, dict):
        return world
    if rates_file is not None:
        return {**world, "throughputs": _read(rates_file)}
    named = world.get("throughputs_file")
    if "throughputs" in world or not isinstance(named, str):
        return world
    start = Path.cwd() if file == STDIN else Path(file).resolve().parent
    for folder in (start, *start.parents):
        for found in (folder / named, folder / PUBLISHED_PLACE / named):
            if found.is_file():
                return {**world, "throughputs": _read(str(found))}
    raise CommandError(
        Exit.INVALID,
        f"throughputs_file: {named} is neither beside the world's file nor in {PUBLISHED_PLACE} of"
        " a folder above that file; give the table's path with --throughputs FILE",
    )
