"""Count firm starts that moved because leases shared slack: ``python -m tools.shared_slack``.

A firm start moves later if an older lease overruns. Sometimes the room would have sufficed
nevertheless, had no younger lease started in it since: then the younger lease shared the slack that
the older one overran into. This plays random histories of whole systems, which are small by
default, checks every firm start in them by ``testing/promise_books.py``, and counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from quorate.core.commands import Command
from quorate.ledger.chain import GENESIS, Head, open_blocks
from quorate.loop.commit_types import Receipt
from quorate.model.events import Event, ReservationMade
from quorate.model.state.state_view import StateView
from quorate.sim.demand import Size
from quorate.sim.seed_trial import Trial
from quorate.sim.simulation import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.testing.promise_books import PromiseBooks

HISTORIES = 1_000
SIZE = Size(hours=10, runs=30, wishes=20)


@dataclass(slots=True)
class Slack:
    """What was counted: whole histories, and events and moves of firm starts in them."""

    histories: int = 0
    events: int = 0
    firm: int = 0
    moved: int = 0
    shared: int = 0
    histories_moved: int = 0
    histories_shared: int = 0

    def add(self, watch: Watch) -> None:
        """Count one history."""
        books = watch.books
        self.histories += 1
        self.events += watch.events
        self.firm += watch.firm
        self.moved += books.moved_later
        self.shared += books.shared_slack
        self.histories_moved += books.moved_later > 0
        self.histories_shared += books.shared_slack > 0

    def __str__(self) -> str:
        """Return the counts as a sentence."""
        return (
            f"{self.histories} histories, {self.events} events: {self.firm} firm starts, "
            f"which moved later {self.moved} times in {self.histories_moved} histories; a younger "
            f"lease shared the slack {self.shared} times, in {self.histories_shared} histories"
        )


class Watch:
    """Watches the trial of a seed, and enters its blocks into the books of promises."""

    def __init__(self, seed: int, size: Size = SIZE) -> None:
        self.trial = Trial(seed, size=size, observers=[self])
        self.books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
        self.events = self.firm = 0
        self._read: Head = GENESIS

    def run(self) -> None:
        """Play the trial; an assertion fails at the first promise that is broken."""
        self.trial.run()

    def asked(self, commands: Sequence[Command], now_ms: int) -> None:
        """Note the time of a decision."""
        del commands
        self.books.looked(now_ms)

    def decided(self, command: Command, receipt: Receipt, view: StateView) -> None:
        """Do nothing: the block is entered once it is committed."""

    def committed(self, receipts: Sequence[Receipt], view: StateView) -> None:
        """Enter the new blocks."""
        del receipts
        self._read_on(view)

    def reopened(self, view: StateView) -> None:
        """Enter what was committed before a crash, and note that the program was down."""
        self._read_on(view)
        self.books.shaken(max(view.at_ms, self.trial.timeline.clock.now_ms()))

    def _read_on(self, view: StateView) -> None:
        blocks = self.trial.store.blocks(from_height=self._read.height + 1)
        for head, events in open_blocks(blocks, after=self._read):
            self._read = head
            self._count(events)
            faults = list(self.books.enter(head.height, events, view))
            assert not faults, (self.trial.seed, faults[:5])

    def _count(self, events: Sequence[Event]) -> None:
        self.events += len(events)
        self.firm += sum(isinstance(event, ReservationMade) for event in events)


def counted(seeds: Sequence[int], size: Size = SIZE) -> Slack:
    """Return the counts of the histories of ``seeds``."""
    found = Slack()
    for seed in seeds:
        watch = Watch(seed, size)
        watch.run()
        found.add(watch)
        if found.histories % 50 == 0:
            print(f"seeds {seeds[0]}-{seed}: {found}", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m tools.shared_slack", description=__doc__)
    parser.add_argument("--histories", type=int, default=HISTORIES, help="how many are played")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--hours", type=int, default=SIZE.hours, help="how long runs arrive")
    parser.add_argument("--runs", type=int, default=SIZE.runs, help="how many runs arrive")
    parser.add_argument("--wishes", type=int, default=SIZE.wishes, help="how many other commands")
    asked = parser.parse_args(arguments)
    size = Size(hours=asked.hours, runs=asked.runs, wishes=asked.wishes)
    print(counted(range(asked.first, asked.first + asked.histories), size))
    return 0


if __name__ == "__main__":
    sys.exit(main())
