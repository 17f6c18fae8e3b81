"""``quorate get``: tables or documents of one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.settings import Settings, examples, reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.answers.kind import Kind
    from quorate.answers.moment import Moment

PHASES: Final = ("Pending", "Running", "Completed", "Cancelled", "Failed")
"""The phases of ``quorate.model``, named here so that ``--help`` need not import it."""


@click.command(
    epilog=examples(
        "quorate get runs",
        "quorate get domains               # free and total GPUs, largest gang",
        "quorate get queue                 # who waits, in order, and why",
        "quorate get reservations          # who was promised a start, and when",
        "quorate get resolveroutcomes      # every conflict: who entered, who was cut",
        "quorate get claims                # sensitive nodes: whose, until when, wiped or not",
        "quorate get charges               # who paid; adds up to the millisecond",
        "quorate get envelopes -o wide",
        "quorate get run train-1 -o json",
        "quorate get runs --owner rai --phase Running --limit 20",
    )
)
@click.argument("kind")
@click.argument("names", metavar="[NAME]...", nargs=-1)
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
    from quorate.answers.kinds import kind_named, split_target
    from quorate.cli.session import reading

    kind, names = split_target(kind, names)
    found = kind_named(kind)
    if (owner is not None or phase is not None) and found.name not in ("run", "queue"):
        raise click.UsageError(f"--owner and --phase choose among runs, not {found.plural}")
    with reading(settings) as read:
        chosen = select(read.moment, found, names)
        if owner is not None or phase is not None:
            chosen = _matching(read.moment, chosen, owner, phase)
        if limit is not None:
            chosen = chosen[-limit:] if found.name == "run" else chosen[:limit]
        show(settings, read.moment, found, names, chosen)


def _matching(
    moment: Moment, names: Sequence[str], owner: str | None, phase: str | None
) -> list[str]:
    """Return the runs of ``names`` that are of ``owner`` and in ``phase``, where they are given."""
    records = [moment.view.runs[name] for name in names]
    # An owner that was removed still has runs that are over.
    if not (
        owner is None
        or owner in moment.view.owners
        or any(record.spec.owner == owner for record in records)
    ):
        raise CommandError(
            Exit.REFUSED, f"there is no owner {owner!r}; list them: quorate get owners"
        )
    return [
        record.spec.name
        for record in records
        if (owner is None or record.spec.owner == owner)
        and (phase is None or record.phase.value == phase)
    ]


def show(
    settings: Settings,
    moment: Moment,
    kind: Kind,
    names: Sequence[str],
    chosen: Sequence[str] | None = None,
) -> None:
    """Print the things of ``kind`` called ``names``, or all of them; of those, the ``chosen``."""
    from quorate.answers.table import table
    from quorate.cli.printing import print_tree
    from quorate.documents import API_VERSION

    wanted = select(moment, kind, names) if chosen is None else chosen
    if settings.is_table:
        rows = kind.rows(moment, wanted)
        if rows:
            click.echo(table(kind.columns, rows, show_wide=settings.wide))
        else:
            click.echo(kind.nothing, err=True)
        return
    trees = kind.trees(moment, wanted)
    if len(names) == 1 and len(trees) == 1:
        print_tree(settings, trees[0])
    else:
        print_tree(settings, {"apiVersion": API_VERSION, "kind": "List", "items": trees})


def select(moment: Moment, kind: Kind, names: Sequence[str]) -> list[str]:
    """Return the names that exist of those asked for; what is before a ``/`` or ``@`` will do."""
    from difflib import get_close_matches

    known = kind.names(moment)
    if not names:
        return known
    found: list[str] = []
    missing: list[str] = []
    for name in names:
        # A reservation is called after its run: RUN@1.
        parts = (f"{name}/", f"{name}@")
        matching = [each for each in known if each == name or each.startswith(parts)]
        found += matching
        if not matching:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"list them: quorate get {kind.plural}"
            missing.append(f"there is no {kind.name} {name!r}; {hint}")
    if missing:
        raise CommandError(Exit.REFUSED, *missing)
    return list(dict.fromkeys(found))
