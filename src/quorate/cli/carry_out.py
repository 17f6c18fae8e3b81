"""Carry out one command on the ledger and print what came of it; the common end of all writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import click
from msgspec.structs import replace

from quorate.answers.effects import effect_lines, effect_tree
from quorate.answers.failures import refused
from quorate.answers.moment import Moment
from quorate.answers.outcome import outcome_lines, outcome_tree, receipt_line, recorded_line
from quorate.answers.timeline import entries
from quorate.cli.printing import print_tree, telling
from quorate.cli.session import open_to_read
from quorate.cli.settings import Settings
from quorate.core.commands import (
    Apply,
    Command,
    CreateOwner,
    Decision,
    Draw,
    RemoveOwner,
    Tick,
    UpdateOwner,
)
from quorate.core.decide import decide
from quorate.core.effect import Effect, Picture, effect_between
from quorate.ledger.chain import Head
from quorate.loop.engine import DRAW_ACTOR, Engine
from quorate.model.apply import apply_all
from quorate.model.records import Lease
from quorate.model.specs import Run
from quorate.model.state import State
from quorate.model.words import counted


def _changes_others(command: Command) -> bool:
    """Return whether ``command`` changes what runs go by: its effect on them is told."""
    if isinstance(command, Apply):
        return not all(isinstance(spec, Run) for spec in command.specs)
    return isinstance(command, CreateOwner | UpdateOwner | RemoveOwner)


class Aside(Protocol):
    """What a command tells beside what was decided, of the state as it is afterwards."""

    def lines(self, moment: Moment) -> list[str]:
        """Return it for people."""
        ...

    def tree(self, moment: Moment) -> dict[str, Any]:
        """Return it for programs, as further fields of the answer."""
        ...


def carry_out(
    settings: Settings,
    engine: Engine,
    command: Command,
    *,
    dry_run: bool,
    unchanged: str = "",
    aside: Aside | None = None,
) -> Decision:
    """Return the decision on ``command``, recorded unless ``dry_run`` and printed either way.

    ``unchanged`` is what to say when everything is already as it was asked to be. Raises
    ``CommandError`` when the command is refused; then nothing was recorded.
    """
    actor = settings.actor()
    # Copies, because committing changes the records in place.
    leases = {name: lease.copy() for name, lease in engine.view.leases.items()}
    stood = _picture(engine, actor) if _changes_others(command) else None
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
        moment = _moment(engine, decision, head)
        effect = None if stood is None else _effect(stood, moment)
        if settings.is_table:
            if unchanged and not decision.events:
                click.echo(unchanged)
            lines = _lines(decision, moment, leases, head, aside)
            lines += [] if effect is None else effect_lines(effect)
            _print(lines, decision, head, done)
        else:
            tree = outcome_tree(decision, head, before.seq)
            tree |= {} if aside is None else aside.tree(moment)
            print_tree(settings, tree | ({} if effect is None else {"effect": effect_tree(effect)}))
    return decision


def _picture(engine: Engine, actor: str) -> Picture:
    """Return how everything stands once what time has made due is done."""
    settled = engine.view.overlay()
    apply_all(settled, engine.try_out(Tick(), actor=actor).events)
    _settle(settled)
    return Picture.of(settled, engine.now_ms())


def _effect(stood: Picture, moment: Moment) -> Effect:
    """Return what has changed since everything ``stood`` so."""
    view = moment.view
    return effect_between(stood, Picture.of(view, moment.now_ms), view)


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
        _settle(over)
        view = over
    return Moment(view, view.at_ms, engine.head.seq)


def _settle(over: State) -> None:
    """Settle what is due in a state that was only tried, as far as that takes no lot.

    Whom a lottery would draw nobody knows before.
    """
    for name in list(over.open_conflicts):
        declared = over.conflicts[name].declared
        if not declared.tokens and declared.due_ms <= over.at_ms:
            settled = decide(over, Draw(name), now_ms=over.at_ms, actor=DRAW_ACTOR)
            apply_all(over, settled.events)


def _lines(
    decision: Decision,
    moment: Moment,
    leases: Mapping[str, Lease],
    head: Head | None,
    aside: Aside | None,
) -> list[str]:
    """Return what is told to people: what was named and how it changed, then all that follows."""
    lines = outcome_lines(decision, moment, leases, dry_run=head is None)
    named = len(decision.changes)
    between = [] if aside is None else aside.lines(moment)
    return [*lines[:named], *between, *lines[named:]]


def _print(lines: Sequence[str], decision: Decision, head: Head | None, done: str) -> None:
    for line in lines:
        click.echo(line)
    if head is None:
        click.echo(f"dry run: {counted(len(decision.events), 'event')}, nothing was recorded")
        return
    click.echo(done)
    if decision.events:
        click.echo(receipt_line(head))
