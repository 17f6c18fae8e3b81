"""Carry out one command on the ledger and print what came of it; the common end of all writers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import click

from quorate.cli.failures import refused
from quorate.cli.moment import Moment
from quorate.cli.outcome import outcome_lines, outcome_tree, receipt_line, recorded_line
from quorate.cli.printing import print_tree, telling
from quorate.cli.settings import Settings
from quorate.core.commands import Command, Decision
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.model.apply import apply_all
from quorate.model.records import Lease
from quorate.model.words import counted


def carry_out(
    settings: Settings, engine: Engine, command: Command, *, dry_run: bool, unchanged: str = ""
) -> Decision:
    """Return the decision on ``command``, recorded unless ``dry_run`` and printed either way.

    ``unchanged`` is what to say when everything is already as it was asked to be. Raises
    ``CommandError`` when the command is refused; then nothing was recorded.
    """
    actor = settings.actor()
    # Copies, because committing changes the records in place.
    leases = {name: lease.copy() for name, lease in engine.view.leases.items()}
    seq = engine.head.seq
    head: Head | None = None
    if dry_run:
        decision = engine.try_out(command, actor=actor)
    else:
        receipt = engine.execute(command, actor=actor)
        decision, head = receipt.decision, receipt.head
    if decision.refusals:
        raise refused(decision.refusals)
    count = 0 if head is None else len(decision.events)
    with telling(recorded_line(head, count)) if head is not None and count else nullcontext():
        for warning in decision.warnings:
            click.echo(f"warning: {warning}", err=True)
        if settings.is_table:
            if unchanged and not decision.events:
                click.echo(unchanged)
            _print(decision, _moment(engine, decision, head), leases, head)
        else:
            print_tree(settings, outcome_tree(decision, head, seq))
    return decision


def _moment(engine: Engine, decision: Decision, head: Head | None) -> Moment:
    """Return the state after ``decision``, which a dry run has only tried."""
    view = engine.view
    if head is None:
        over = view.overlay()
        apply_all(over, decision.events)
        view = over
    return Moment(view, view.at_ms, engine.head.seq)


def _print(
    decision: Decision, moment: Moment, leases: Mapping[str, Lease], head: Head | None
) -> None:
    for line in outcome_lines(decision, moment, leases, dry_run=head is None):
        click.echo(line)
    if head is None:
        click.echo(f"dry run: {counted(len(decision.events), 'event')}, nothing was recorded")
        return
    click.echo(recorded_line(head, len(decision.events)))
    if decision.events:
        click.echo(receipt_line(head))
