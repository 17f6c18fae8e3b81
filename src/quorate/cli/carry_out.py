"""Carry out one command on the ledger and print what came of it; the common end of all writers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import click
from msgspec.structs import replace

from quorate.cli.failures import refused
from quorate.cli.moment import Moment
from quorate.cli.outcome import outcome_lines, outcome_tree, receipt_line, recorded_line
from quorate.cli.printing import print_tree, telling
from quorate.cli.session import open_to_read
from quorate.cli.settings import Settings
from quorate.cli.timeline import entries
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
    before = engine.head
    head: Head | None = None
    if dry_run:
        decision = engine.try_out(command, actor=actor)
    else:
        decision = engine.execute(command, actor=actor).decision
        head = engine.head
        decision = _with_settled(settings, decision, before, head)
    if decision.refusals:
        raise refused(decision.refusals)
    count = 0 if head is None else len(decision.events)
    blocks = 0 if head is None else head.height - before.height
    done = "" if head is None else recorded_line(head, count, blocks)
    with telling(done) if count else nullcontext():
        for warning in decision.warnings:
            click.echo(f"warning: {warning}", err=True)
        if settings.is_table:
            if unchanged and not decision.events:
                click.echo(unchanged)
            _print(decision, _moment(engine, decision, head), leases, head, done)
        else:
            print_tree(settings, outcome_tree(decision, head, before.seq))
    return decision


def _with_settled(settings: Settings, decision: Decision, before: Head, head: Head) -> Decision:
    """Return ``decision`` with what was recorded right after it: conflicts that were due.

    They are settled in blocks of their own, so that nobody could know a draw before its conflict
    was recorded; to whoever gave the command they are what came of it.
    """
    if head.height - before.height <= int(bool(decision.events)):
        return decision
    with open_to_read(settings) as store:
        blocks = store.blocks(from_height=before.height + 1)
        events = tuple(entry.event for entry in entries(blocks, after=before))
    return replace(decision, events=events)


def _moment(engine: Engine, decision: Decision, head: Head | None) -> Moment:
    """Return the state after ``decision``, which a dry run has only tried."""
    view = engine.view
    if head is None:
        over = view.overlay()
        apply_all(over, decision.events)
        view = over
    return Moment(view, view.at_ms, engine.head.seq)


def _print(
    decision: Decision, moment: Moment, leases: Mapping[str, Lease], head: Head | None, done: str
) -> None:
    for line in outcome_lines(decision, moment, leases, dry_run=head is None):
        click.echo(line)
    if head is None:
        click.echo(f"dry run: {counted(len(decision.events), 'event')}, nothing was recorded")
        return
    click.echo(done)
    if decision.events:
        click.echo(receipt_line(head))
