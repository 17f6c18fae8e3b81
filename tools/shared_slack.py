"""Counts firm starts that moved because leases shared slack: ``python -m tools.shared_slack``.

A firm start may move to a later time if an older lease overruns. Sometimes the start would not have
moved without a younger lease, which used the slack that the overdue older lease needed. The command
counts such moves. It plays the brief random histories of ``testing/brief_history.py``, in which
``testing/promise_books.py`` checks every firm start. A history ends at its first fault. Faults are
printed, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.testing.brief_history import BriefHistory

HISTORIES: Final = 1_000
SHOW_EVERY: Final = 100
"""The counts so far are printed after each of this many histories."""


@dataclass(slots=True)
class Slack:
    """How many histories were played, and how many events, firm starts and moves they had."""

    histories: int = 0
    events: int = 0
    firm: int = 0
    moved: int = 0
    shared: int = 0
    histories_moved: int = 0
    histories_shared: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, history: BriefHistory) -> None:
        """Count one history."""
        books = history.books
        self.histories += 1
        self.events += history.events
        self.firm += history.firm
        self.moved += books.moved_later
        self.shared += books.shared_slack
        self.histories_moved += books.moved_later > 0
        self.histories_shared += books.shared_slack > 0

    def __str__(self) -> str:
        """Return the counts as text."""
        return (
            f"{self.histories} histories, {self.events} events, {self.firm} firm starts\n"
            f"moved later: {self.moved} times, in {self.histories_moved} histories\n"
            f"slack shared by a younger lease: {self.shared} times, "
            f"in {self.histories_shared} histories"
        )


def counted(histories: Iterable[BriefHistory]) -> Slack:
    """Play ``histories``; return their counts, and print them from time to time."""
    found = Slack()
    for history in histories:
        try:
            history.play()
        except AssertionError as fault:
            found.faults.append(f"seed {history.seed}: {fault}")
        found.add(history)
        if found.histories % SHOW_EVERY == 0:
            print(f"up to seed {history.seed}: {found}", file=sys.stderr, flush=True)
    return found


def report(found: Slack) -> int:
    """Print the counts and the faults, and return the exit code."""
    print(found, *found.faults, sep="\n")
    return 1 if found.faults else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m tools.shared_slack", description=__doc__)
    parser.add_argument("--histories", type=int, default=HISTORIES, help="how many are played")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument(
        "--honest", action="store_true", help="every run takes what it declared, and nothing fails"
    )
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.histories)
    return report(counted(BriefHistory(seed, is_honest=asked.honest) for seed in seeds))


if __name__ == "__main__":
    sys.exit(main())
