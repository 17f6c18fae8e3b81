"""``quorate get``: lists resources of one kind, as tables or documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.completing import kinds, names_of_kind
from quorate.cli.global_options import JSON_PATH, NAME, examples, get_reader
from quorate.cli.settings import CSV, Settings

if TYPE_CHECKING:
    from msgspec import Struct

    from quorate.cli.choosing import Choosing
    from quorate.operations.resources.resource_operations import ListThings

PHASES: Final = ("Pending", "Running", "Completed", "Cancelled", "Failed")
"""The phases of a run, repeated here so that ``--help`` need not import ``quorate.model``."""


@click.command(
    epilog=examples(
        "quorate get runs",
        "quorate get domains               # free and total GPUs, largest group",
        "quorate get queue                 # waiting runs, in order, and why",
        "quorate get reservations          # planned starts, firm and tentative",
        "quorate get resolveroutcomes      # conflicts: lottery entries and cuts",
        "quorate get claims                # sensitive nodes: user, end, wiped or not",
        "quorate get charges               # who paid, exact to the millisecond",
        "quorate get envelopes -o wide",
        "quorate get run train-1 -o json",
        "quorate get runs sweep            # an array, its tasks counted by phase",
        "quorate get runs sweep --tasks    # each of its tasks",
        "quorate get runs 'sweep[0-3]'     # some of them",
        "quorate get runs --owner rai --phase Running --limit 20",
        "quorate get nodes -l region=us-west --sort-by .status.freeGPUs",
        "quorate get runs --field spec.resources.gpuType=H100",
        "timeout 2 quorate get runs -w || true     # prints rows that change; Ctrl-C ends it",
        "quorate get runs -o name          # run/NAME lines, for other commands",
        "quorate get nodes -o csv > nodes.csv",
        "quorate get runs -o jsonpath='{.items[*].metadata.name}'",
    )
)
@click.argument("kind", shell_complete=kinds)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=names_of_kind)
@click.option("--owner", "--team", metavar="OWNER", help="Only runs of this owner.")
@click.option(
    "--phase",
    type=click.Choice(PHASES, case_sensitive=False),
    help="Only runs in this phase.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="At most N: the newest N runs, or the first N of another list.",
)
@click.option("--tasks", is_flag=True, help="List each task of an array instead of the array.")
@click.option(
    "-l", "--selector", "labels", metavar="LABELS", help="Only with these labels: region=eu."
)
@click.option(
    "--field",
    "fields",
    metavar="PATH=VALUE",
    multiple=True,
    help="Only with this field value: spec.owner=rai, or != for others. May be repeated.",
)
@click.option(
    "--sort-by", "sort_path", metavar="PATH", help="Sort by this field: .status.submitted."
)
@click.option("-w", "--watch", "is_watched", is_flag=True, help="Keep printing rows that change.")
@get_reader
@click.pass_obj
def get(
    settings: Settings,
    *,
    kind: str,
    names: tuple[str, ...],
    owner: str | None,
    phase: str | None,
    limit: int | None,
    labels: str | None,
    fields: tuple[str, ...],
    sort_path: str | None,
    is_watched: bool,
    tasks: bool,
) -> None:
    """List resources of one kind.

    KIND is one of nodes, domains, pools, owners, budgets, envelopes, caps, runs, queue,
    reservations, resolveroutcomes, leases, claims, charges, system; singular and short names work
    too. Amounts in tables are GPU-hours; json and yaml have exact GPU-milliseconds. -l, --field and
    --sort-by apply to the whole list in the form of `-o json`, so they cannot be combined with
    --limit.

    With -w the command prints the table, and then each row that changes, until Ctrl-C (exit code
    130). A value that changes with time alone, such as an age, does not count as a change.
    """
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
    if is_run:
        from quorate.cli.typed_names import run_names

        names = tuple(dict.fromkeys(name for word in names for name in run_names(word)))
    if (owner is not None or phase is not None or tasks) and not is_run:
        raise click.UsageError(f"--owner, --phase and --tasks are for runs, not {found.plural}")
    is_chosen = labels is not None or bool(fields) or sort_path is not None
    if is_watched and (is_chosen or not settings.is_table):
        raise click.UsageError(
            "-w prints tables of whole lists: remove -l, --field, --sort-by "
            "and -o; only -o wide is possible"
        )
    if is_chosen:
        from quorate.cli.choosing import Choosing

        if found.name == "system" or limit is not None:
            raise click.UsageError("-l, --field and --sort-by need the whole list: remove --limit")
        listing: ListThings = ListThings(names=names)
        if is_run:
            listing = ListRuns(names=names, owner=owner, phase=phase, grouped=not tasks)
        choosing = Choosing(labels=labels, fields=fields, sort_path=sort_path)
        _print_chosen(settings, found.name, f"list-{found.plural}", listing, choosing)
        return
    newest = found.name == "run" and limit is not None
    asked: Struct
    operation = f"list-{found.plural}"
    if found.name == "system":
        operation, asked = "get-system", GetSystem()
    elif (
        len(names) == 1 and found.name != "queue" and owner is None and phase is None and not tasks
    ):
        operation, asked = f"get-{found.name}", GetThing(name=names[0])
    elif is_run:
        asked = ListRuns(
            names=names, owner=owner, phase=phase, limit=limit, newest=newest, grouped=not tasks
        )
    else:
        asked = ListThings(names=names, limit=limit)
    _show(settings, found.name, operation, asked, is_watched=is_watched)


def _show(
    settings: Settings, kind: str, operation: str, asked: Struct, *, is_watched: bool
) -> None:
    """Print the response once; if ``is_watched``, print the rows that change until Ctrl-C."""
    if is_watched:
        from quorate.cli.live.watch_rows import follow_rows

        follow_rows(settings, kind, operation, asked)
    else:
        _print(settings, kind, operation, asked)


def _print_chosen(
    settings: Settings, kind: str, operation: str, asked: ListThings, choosing: Choosing
) -> None:
    """Print the resources of a list that match the selectors, in the requested order."""
    from quorate.cli.ask_and_print import ask, tree_asked
    from quorate.cli.choosing import ChoiceError
    from quorate.operations.resources.resource_operations import NAMES_MAX

    try:
        choosing.check()
        tree = tree_asked(settings, operation, asked)
        tree["items"] = choosing.chosen(tree["items"])
    except ChoiceError as error:
        raise click.UsageError(str(error)) from None
    if not settings.is_table and settings.output != CSV:
        _print_tree(settings, kind, tree)
        return
    names = tuple(each["metadata"]["name"] for each in tree["items"])
    if not names:
        click.echo(f"no {kind} matches", err=True)
    elif len(names) > NAMES_MAX:
        raise click.UsageError(
            f"{len(names)} {kind} match, but a table of selected {kind} has at most {NAMES_MAX} "
            "rows; select fewer, or use -o name or -o json"
        )
    else:
        ask(settings, operation, type(asked)(names=names))


def _print(settings: Settings, kind: str, operation: str, asked: Struct) -> None:
    """Request the operation, and print the response in the requested format."""
    from quorate.cli.ask_and_print import ask, tree_asked

    if settings.output == NAME or settings.output.startswith(JSON_PATH):
        _print_tree(settings, kind, tree_asked(settings, operation, asked))
    else:
        ask(settings, operation, asked)


def _print_tree(settings: Settings, kind: str, tree: Any) -> None:
    """Print a response tree in the requested format."""
    if settings.output == NAME:
        for each in tree.get("items", [tree]):
            click.echo(f"{kind}/{each['metadata']['name']}")
    elif settings.output.startswith(JSON_PATH):
        from quorate.cli.json_path import fill_in, read_template

        template = read_template(settings.output.removeprefix(JSON_PATH))
        click.echo(fill_in(template, tree))
    else:
        from quorate.cli.printing import print_tree

        print_tree(settings, tree)
