"""``quorate describe``: everything about one resource."""

from __future__ import annotations

import click

from quorate.cli.completing import kinds, names_of_kind
from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError


@click.command(epilog=examples("quorate describe run train-1", "quorate describe budget/rai"))
@click.argument("kind", shell_complete=kinds)
@click.argument("names", metavar="NAME", nargs=-1, shell_complete=names_of_kind)
@reader
@click.pass_obj
def describe(settings: Settings, kind: str, names: tuple[str, ...]) -> None:
    """Show everything about one resource.

    For a run: its request, its planned start, its conflicts, and why it waits and since when. Its
    leases are shown with nodes, slots and payers. Then follow the steps and metrics that the run
    reported last, who paid how much, and its events with their sequence numbers.

    For a budget: what each envelope was granted, has spent, holds and lends, and the budget's caps.
    For a node: its status, the leases on it and its events. For an owner: its family, quota,
    budgets and runs. For a reservation: when and where its run starts, who pays, and why the start
    was moved. For a resolveroutcome: the runs in the lottery with their odds, the seed, the draws
    and the cuts.
    """
    from quorate.cli.ask_and_print import ask_each
    from quorate.operations.resources.resource_operations import GetSystem, GetThing
    from quorate.views.kind_names import kind_named, split_target

    kind, names = split_target(kind, names)
    try:
        found = kind_named(kind)
    except CommandError as error:
        if names:
            raise
        told = f"{error.lines[0]}; to describe a run of that name: quorate describe run {kind}"
        raise CommandError(error.code, told) from None
    if found.name == "system":
        ask_each(settings, "describe-system" if settings.is_table else "get-system", [GetSystem()])
        return
    if not names:
        raise click.UsageError(f"which {found.name}? list them: quorate get {found.plural}")
    # The queue is not a resource; a waiting run is described as a run.
    told = "run" if found.name == "queue" else found.name
    if told == "run":
        from quorate.cli.typed_names import run_names

        names = tuple(dict.fromkeys(name for word in names for name in run_names(word)))
    verb = "describe" if settings.is_table else "get"
    ask_each(settings, f"{verb}-{told}", [GetThing(name=name) for name in names])
