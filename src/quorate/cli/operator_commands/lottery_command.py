"""``quorate lottery``: shows the lottery's hash chain, and verifies every draw."""

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
    """Show the lottery, and verify its draws.

    A draw is determined by a hash chain that was fixed when the ledger was created, and by the
    nonces of the runs in the lottery. docs/reference/lottery.md specifies the lottery, and
    tools/verify_lottery.py verifies the lotteries of an export without Quorate.
    """


@lottery.command(epilog=examples("quorate lottery show", "quorate lottery show -o json"))
@reader
@click.pass_obj
def show(settings: Settings) -> None:
    """Show the commitment, and how many links of the chain have been revealed."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "show-lottery", Nothing())


@lottery.command(
    epilog=examples("quorate lottery verify", "quorate lottery verify --export ledger.jsonl")
)
@click.option("--export", "export", metavar="FILE", help="Check this export instead of the ledger.")
@reader
@click.pass_obj
def verify(settings: Settings, export: str | None) -> None:
    """Draw every lottery of the ledger again.

    The command checks the hash chain of the ledger. It checks that the links of the lottery's chain
    are revealed in order, each for one lottery, and that the tokens match the submitted runs. It
    checks that every seed follows from its parts, and that the seed determines the drawn runs. The
    exit code is 5 if a check fails.
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
