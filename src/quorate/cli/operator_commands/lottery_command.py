"""``quorate lottery``: the committed chain, and every draw of the ledger made again."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings


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
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "show-lottery", Nothing())


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
    only the runs that the seed gives were drawn. Exit code 5 when anything does not fit.
    """
    from quorate.cli.ask_and_print import ask, print_answer
    from quorate.cli.ledger_import import export_blocks
    from quorate.cli.salvaging import salvaging
    from quorate.operations.common_requests import Nothing
    from quorate.operations.ledger.lottery_handlers import redraw

    if export is not None:
        found = redraw(f"the export {export}", lambda: export_blocks(export))
        print_answer(settings, found.answer())
        return
    with salvaging(settings):
        ask(settings, "verify-lottery", Nothing())
