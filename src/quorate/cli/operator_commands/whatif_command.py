"""``quorate whatif``: how the results of a ledger would differ after a change."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from quorate.cli.global_options import examples, ledger_options, output_option
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


@click.command(
    epilog=examples(
        "quorate whatif --at 2025-01-31T09:00:00Z --set budget.rai.envelopes.west.concurrency=512",
        "quorate whatif --at 2025-01-31T09:00:00Z --add-nodes 8xa1",
        "quorate whatif --at 2025-01-31T09:00:00Z --set pool.default.reservationDepth=50 -o json",
        "quorate whatif --at 2025-01-31T09:00:00Z --policy max_min_fairness_perf",
        "quorate whatif --at 2025-01-31T09:00:00Z  # does a fork reproduce the ledger?",
    )
)
@click.option(
    "--from-ledger",
    "source",
    metavar="FILE",
    help="A ledger's file, or an export of one.  [default: the ledger of --ledger]",
)
@click.option("--at", "at", metavar="TIME", required=True, help="The time of the change, RFC 3339.")
@click.option(
    "--set",
    "assignments",
    metavar="KIND.NAME.PATH=VALUE",
    multiple=True,
    help="A field of a resource, and its value from that time on. May be repeated.",
)
@click.option(
    "--add-nodes",
    "additions",
    metavar="COUNTxNODE",
    multiple=True,
    help="Add COUNT nodes like NODE from that time on. May be repeated.",
)
@click.option(
    "--policy",
    "policies",
    metavar="[POOL=]NAME",
    multiple=True,
    help="Use this policy from that time on, in POOL or in all rounds pools. May be repeated.",
)
@ledger_options
@output_option
@click.pass_obj
def whatif(
    settings: Settings,
    *,
    source: str | None,
    at: str,
    assignments: tuple[str, ...],
    additions: tuple[str, ...],
    policies: tuple[str, ...],
) -> None:
    """Replay a ledger with a change, and show the differences in the results.

    A copy of the ledger up to TIME (a fork) is changed. Then all later requests of the ledger are
    decided again in the fork, by the same rules, up to the ledger's end. Runs take as long as they
    took in the ledger, and are cancelled at the same times. Nothing is written. If no change is
    given, the answer says whether the fork reproduces the ledger.
    """
    from quorate.adapters.key_file import load_lottery_secret, lottery_path
    from quorate.adapters.stores.store_urls import ledger_path
    from quorate.cli.printing import print_tree
    from quorate.cli.recorded_blocks import recorded_blocks
    from quorate.cli.simulation.whatif_changes import changes_of, instant_of
    from quorate.ledger.fold import fold
    from quorate.operations.pool_policies import check_policies
    from quorate.sim.report.outcome_of_ledger import outcome_of_ledger
    from quorate.sim.whatif.differences import differences, first_difference
    from quorate.sim.whatif.fork import fork
    from quorate.sim.whatif.recorded_inputs import CannotForkError
    from quorate.sim.whatif.unpaid_gpus import unpaid_gpus
    from quorate.views.reports.whatif_forms import identity_lines, whatif_lines, whatif_tree

    at_ms = instant_of(at)
    blocks = recorded_blocks(settings, source)
    events = [event for block in blocks for event in block]
    view = fold(event for event in events if event.at_ms <= at_ms)
    changes = changes_of(view, assignments, additions, policies)
    check_policies(view, changes)
    lottery = lottery_path(ledger_path(settings.ledger if source is None else source))
    secret = load_lottery_secret(lottery) if lottery.exists() else None
    try:
        with _said_once("quorate.loop.chain_secrets"):
            same = fork(blocks, at_ms, lottery_secret=secret)
            forked = fork(blocks, at_ms, changes, lottery_secret=secret) if changes else same
    except CannotForkError as error:
        raise CommandError(Exit.REFUSED, str(error)) from None
    was, again, now = (
        outcome_of_ledger(each, name=name, now_ms=forked.end_ms)
        for name, each in (("was", events), ("again", same.events), ("would be", forked.events))
    )
    found, unsure = differences(was, now), len(differences(was, again).runs)
    differs = first_difference(events, same.events)
    unpaid = list(unpaid_gpus(view, changes, at_ms))
    if not settings.is_table:
        print_tree(settings, whatif_tree(found, forked, unsure, differs, unpaid))
    elif changes:
        lines = whatif_lines(found, forked, unsure, unpaid, show_wide=settings.wide)
        click.echo("\n".join(lines))
    else:
        lines = identity_lines(found, forked, len(events), differs, show_wide=settings.wide)
        click.echo("\n".join(lines))


@contextmanager
def _said_once(logger: str) -> Iterator[None]:
    """Let ``logger`` write each message once, even if several forks log the same message."""
    said: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        is_first = message not in said
        said.add(message)
        return is_first

    log = logging.getLogger(logger)
    log.addFilter(is_new)
    try:
        yield
    finally:
        log.removeFilter(is_new)
