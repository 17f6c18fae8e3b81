"""``quorate lottery``: the committed chain, and every draw of the ledger made again."""

from __future__ import annotations

import click

from quorate.cli.settings import Settings, examples, reader


@click.group(
    epilog=examples(
        "quorate lottery show",
        "quorate lottery verify",
        "quorate lottery verify --export ledger.jsonl",
    )
)
def lottery() -> None:
    """Show the lottery, and draw it all again.

    Who is drawn follows from a hash chain that was fixed when the ledger was made, link by link,
    and from the nonces of the runs that enter: docs/reference/lottery.md has every byte of it, and
    tools/verify_lottery.py checks an export without Quorate.
    """


@lottery.command(epilog=examples("quorate lottery show", "quorate lottery show -o json"))
@reader
@click.pass_obj
def show(settings: Settings) -> None:
    """Show the commitment, and how far the chain is revealed."""
    from quorate.answers.table import pairs
    from quorate.cli.printing import print_tree
    from quorate.cli.session import reading

    with reading(settings) as read:
        view = read.recorded
        known, waiting = view.lottery, list(view.open_conflicts)
    used, left = known.next_index - 1, known.length - known.next_index + 1
    if not settings.is_table:
        tree = {
            "commitment": known.commitment or None,
            "length": known.length,
            "nextIndex": known.next_index if left > 0 else None,
            "link": known.link or None,
            "revealed": used,
            "openConflicts": waiting,
        }
        print_tree(settings, tree)
        return
    if not known.commitment:
        click.echo("this ledger has no lottery: nobody can be drawn, and no conflict is declared")
        return
    facts = [
        ("Commitment", f"{known.commitment} (link 0)"),
        ("Length", str(known.length)),
        ("Last link", f"{known.link} (link {used})"),
        ("Next link", f"{known.next_index}, known to nobody else yet" if left > 0 else "none left"),
        ("Open conflicts", ", ".join(waiting) or "-"),
    ]
    click.echo(pairs(facts))


@lottery.command(
    epilog=examples("quorate lottery verify", "quorate lottery verify --export ledger.jsonl")
)
@click.option("--export", "export", metavar="FILE", help="Check this export, not the ledger.")
@reader
@click.pass_obj
def verify(settings: Settings, export: str | None) -> None:
    """Draw every lottery of the ledger again.

    Checks the chain of the ledger, that links are revealed one after the other and each for one
    lottery, that tokens are what was submitted, that every seed is the one its parts give, and that
    nobody was drawn but whom the seed gives. Exit code 5 when anything does not fit.
    """
    from quorate.cli.printing import print_tree
    from quorate.cli.redraw import redraw

    found = redraw(settings, export)
    if not settings.is_table:
        print_tree(settings, found.tree())
        return
    for line in found.lines():
        click.echo(line)
