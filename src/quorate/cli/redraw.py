"""Every lottery of a ledger or of an export of one, drawn again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from quorate.answers.exits import CommandError, Exit
from quorate.cli.restore import export_blocks
from quorate.cli.session import open_to_read
from quorate.cli.settings import Settings
from quorate.cli.verification import FAULTS_SHOWN_MAX, Asked, verify_ledger
from quorate.core.lottery_audit import Lotteries
from quorate.ledger.chain import Block, open_blocks
from quorate.model.events import ConflictDeclared, ConflictResolved, Event
from quorate.model.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrawn:
    """Every lottery that was drawn comes out as it was published."""

    name: str
    events: int
    conflicts: int
    lotteries: int
    draws: int

    def lines(self) -> list[str]:
        """Return what was found, for people."""
        drawn = "1 lottery" if self.lotteries == 1 else f"{self.lotteries} lotteries"
        again = f"{drawn} drawn again with {counted(self.draws, 'draw')}"
        return [
            f"{self.name} verifies: {counted(self.events, 'event')}",
            f"{counted(self.conflicts, 'conflict')} declared, {again}",
            "every seed, draw and victim is as published",
        ]

    def tree(self) -> dict[str, Any]:
        """Return what was found, for programs."""
        return {
            "verifies": True,
            "events": self.events,
            "conflicts": self.conflicts,
            "lotteries": self.lotteries,
            "draws": self.draws,
        }


def redraw(settings: Settings, export: str | None) -> Redrawn:
    """Return what was drawn again; raises ``CommandError`` with every fault that was found."""
    sound = verify_ledger(settings, Asked(export=export))
    if export is not None:
        return _redrawn(sound.name, export_blocks(export))
    with open_to_read(settings) as store:
        return _redrawn(sound.name, store.blocks())


def _redrawn(name: str, blocks: Iterable[Block]) -> Redrawn:
    books, faults = Lotteries(), list[str]()
    events = conflicts = lotteries = draws = 0
    for event in _events(blocks):
        events += 1
        if isinstance(event, ConflictDeclared):
            conflicts += 1
        elif isinstance(event, ConflictResolved) and event.draws:
            lotteries += 1
            draws += len(event.draws)
        faults += [f"invariant {each}" for each in books.enter(event)]
    if faults:
        more = len(faults) - FAULTS_SHOWN_MAX
        shown = faults[:FAULTS_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
        raise CommandError(Exit.UNSOUND, *shown)
    return Redrawn(name=name, events=events, conflicts=conflicts, lotteries=lotteries, draws=draws)


def _events(blocks: Iterable[Block]) -> Iterator[Event]:
    for _, events in open_blocks(blocks):
        yield from events
