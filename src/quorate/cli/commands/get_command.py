"""``quorate get``: tables or documents of one kind."""

from __future__ import annotations

from typing import Final

import click

from quorate.cli.completing import kinds, names_of_kind
from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings

PHASES: Final = ("Pending", "Running", "Completed", "Cancelled", "Failed")
"""The phases of ``quorate.model``, named here so that ``--help`` need not import it."""


@click.command(
    epilog=examples(
        "quorate get runs",
        "quorate get domains               # free and total GPUs, largest group",
        "quorate get queue                 # who waits, in order, and why",
        "quorate get reservations          # planned starts, firm and tentative",
        "quorate get resolveroutcomes      # every conflict: who entered, who was cut",
        "quorate get claims                # sensitive nodes: whose, until when, wiped or not",
        "quorate get charges               # who paid; adds up to the millisecond",
        "quorate get envelopes -o wide",
        "quorate get run train-1 -o json",
        "quorate get runs --owner rai --phase Running --limit 20",
    )
)
@click.argument("kind", shell_complete=kinds)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=names_of_kind)
@click.option("--owner", metavar="OWNER", help="Only runs of this owner.")
@click.option(
    "--phase",
    type=click.Choice(PHASES, case_sensitive=False),
    help="Only runs in this phase.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="At most N: the newest runs, else the first of the list.",
)
@reader
@click.pass_obj
def get(
    settings: Settings,
    *,
    kind: str,
    names: tuple[str, ...],
    owner: str | None,
    phase: str | None,
    limit: int | None,
) -> None:
    """List what there is.

    KIND is one of nodes, domains, pools, owners, budgets, envelopes, caps, runs, queue,
    reservations, resolveroutcomes, leases, charges, system; singular and short names work too.
    Amounts in tables are GPU-hours; json and yaml have exact GPU-milliseconds.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.resource_operations import (
        GetSystem,
        GetThing,
        ListRuns,
        ListThings,
    )
    from quorate.views.kind_names import kind_named, split_target

    kind, names = split_target(kind, names)
    found = kind_named(kind)
    is_run = found.name in ("run", "queue")
    if (owner is not None or phase is not None) and not is_run:
        raise click.UsageError(f"--owner and --phase choose among runs, not {found.plural}")
    if found.name == "system":
        ask(settings, "get-system", GetSystem())
    elif len(names) == 1 and found.name != "queue" and owner is None and phase is None:
        ask(settings, f"get-{found.name}", GetThing(name=names[0]))
    elif is_run:
        newest = found.name == "run" and limit is not None
        asked = ListRuns(names=names, owner=owner, phase=phase, limit=limit, newest=newest)
        ask(settings, f"list-{found.plural}", asked)
    else:
        ask(settings, f"list-{found.plural}", ListThings(names=names, limit=limit))
