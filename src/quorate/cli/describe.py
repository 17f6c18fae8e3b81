"""``quorate describe``: everything about one thing."""

from __future__ import annotations

import click

from quorate.cli.settings import Settings, examples, reader


@click.command(epilog=examples("quorate describe run train-1", "quorate describe budget/rai"))
@click.argument("kind")
@click.argument("names", metavar="NAME", nargs=-1)
@reader
@click.pass_obj
def describe(settings: Settings, kind: str, names: tuple[str, ...]) -> None:
    """Show everything about one thing.

    Of a run: what it asked for, why it waits and since when, what it was promised, the conflicts it
    went through, its leases with nodes, slots and payers, who paid how much, and its events with
    their sequence numbers. Of a budget: what each
    envelope was granted, has spent, holds and lends, and its caps. Of a node: its status, the
    leases on it and its events. Of an owner: its family, quota, budgets and runs. Of a reservation:
    when and where its run starts, who pays, and what moved it. Of a resolveroutcome: who entered
    the lottery with which odds, seed, draws and cuts.
    """
    from quorate.answers.kinds import kind_named, split_target
    from quorate.answers.portrait import PORTRAITS, plain_portrait
    from quorate.answers.timeline import ABOUT, entries
    from quorate.cli.get import select, show
    from quorate.cli.session import reading

    kind, names = split_target(kind, names)
    found = kind_named(kind)
    if not names and found.name != "system":
        raise click.UsageError(f"which {found.name}? list them: quorate get {found.plural}")
    with reading(settings) as read:
        moment = read.moment
        if not settings.is_table:
            show(settings, moment, found, names)
            return
        for position, name in enumerate(select(moment, found, names)):
            is_about = ABOUT.get(found.name)
            timeline = []
            if is_about is not None:
                timeline = [
                    each for each in entries(read.store.blocks()) if is_about(each.event, name)
                ]
            portrait = PORTRAITS.get(found.name)
            sections = (
                plain_portrait(moment, found, name)
                if portrait is None
                else portrait(moment, name, timeline)
            )
            click.echo(("\n" if position else "") + "\n\n".join(sections))
