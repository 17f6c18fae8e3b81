"""The lottery: how much of its chain is revealed, and a check that repeats every draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from quorate.core.audit.lottery_audit import Lotteries
from quorate.ledger.chain import Block
from quorate.model.closed_words import counted
from quorate.model.events import ConflictDeclared, ConflictResolved
from quorate.operations.answer_types import Answer
from quorate.operations.common_requests import Nothing
from quorate.operations.ledger.verification import (
    FAULTS_SHOWN_MAX,
    TITLE,
    Checks,
    events_of,
    verify,
)
from quorate.operations.operation import Operation
from quorate.operations.request_context import AnyContext, RequestContext
from quorate.views.exits import CommandError, Exit
from quorate.views.table import pairs


def show_lottery(context: RequestContext, asked: Nothing, operation: Operation) -> Answer:
    """Return the commitment, and how much of the chain is revealed."""
    del asked, operation
    view = context.recorded
    known, waiting = view.lottery, list(view.open_conflicts)
    used, left = known.next_index - 1, known.length - known.next_index + 1

    def tree() -> dict[str, Any]:
        return {
            "commitment": known.commitment or None,
            "length": known.length,
            "nextIndex": known.next_index if left > 0 else None,
            "link": known.link or None,
            "revealed": used,
            "openConflicts": waiting,
        }

    def lines(wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        del wide
        if not known.commitment:
            return ["this ledger has no lottery: no run can be drawn, and no conflict is declared"]
        unknown = f"{known.next_index}, not public yet"
        later = known.next_chain
        chain = [("Next chain", f"{later.commitment} ({later.length} links)")] if later else []
        facts = [
            ("Commitment", f"{known.commitment} (link 0)"),
            ("Length", str(known.length)),
            ("Last link", f"{known.link} (link {used})"),
            ("Next link", unknown if left > 0 else "none left"),
            *chain,
            ("Open conflicts", ", ".join(waiting) or "-"),
        ]
        return [pairs(facts)]

    return Answer(tree=tree, lines=lines, notes=context.aside())


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrawn:
    """The result of the check if every lottery that was drawn gives the published result."""

    name: str
    events: int
    conflicts: int
    lotteries: int
    draws: int

    def lines(self) -> list[str]:
        """Return the result, for people."""
        drawn = "1 lottery" if self.lotteries == 1 else f"{self.lotteries} lotteries"
        again = f"{drawn} drawn again with {counted(self.draws, 'draw')}"
        return [
            f"{self.name} verifies: {counted(self.events, 'event')}",
            f"{counted(self.conflicts, 'conflict')} declared, {again}",
            "every seed, draw and victim matches the ledger",
        ]

    def tree(self) -> dict[str, Any]:
        """Return the result, for programs."""
        return {
            "verifies": True,
            "events": self.events,
            "conflicts": self.conflicts,
            "lotteries": self.lotteries,
            "draws": self.draws,
        }

    def answer(self) -> Answer:
        """Return the result, as an answer."""
        return Answer(tree=self.tree, lines=lambda _: self.lines())


def verify_lottery(context: AnyContext, asked: Nothing, operation: Operation) -> Answer:
    """Repeat every draw, and return the result; raise ``CommandError`` with every fault."""
    del asked, operation
    return redraw(TITLE, context.store.blocks, context.name).answer()


def redraw(title: str, blocks: Callable[[], Iterable[Block]], name: str | None = None) -> Redrawn:
    """Verify ``blocks``, repeat the draws in them, and return the result.

    ``title`` is the name of the ledger in the answer, and ``name`` is its name in faults.
    """
    verify(title, blocks, Checks(), name)
    books, faults = Lotteries(), list[str]()
    events = conflicts = lotteries = draws = 0
    for event in events_of(blocks()):
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
    return Redrawn(name=title, events=events, conflicts=conflicts, lotteries=lotteries, draws=draws)
