"""The process that ``test_crash.py`` kills: appends to a ledger and reports each step on stdout.

    python crash_writer.py LEDGER MODE BLOCKS

Lines: ``C height hash`` when the block's rows are inserted and COMMIT is about to run, ``A height
hash`` when ``append`` has returned. MODE ``before`` stops for ever at the last block's C, ``after``
at its A; ``inside`` continues to append.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import sys
from pathlib import Path

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Block, Head, seal
from quorate.model.events import Event, Outcome, RunEnded

EVENTS_MAX = 400


def events_of(head: Head) -> list[Event]:
    """Return the events of the block after ``head``: of many sizes, and different in each block."""
    count = 1 + (head.height * 37) % EVENTS_MAX
    return [
        RunEnded(head.seq + n, "crash", f"run-{head.seq + n}", Outcome.COMPLETED)
        for n in range(count)
    ]


class Teller:
    """Reports the steps of the writer to the parent, and stops for ever at the requested step."""

    def __init__(self, mode: str, blocks: int) -> None:
        self._mode = mode
        self._left = blocks
        self.block: Block | None = None

    def tell(self, mark: str) -> None:
        assert self.block is not None
        os.write(1, f"{mark} {self.block.height} {self.block.hash.hex()}\n".encode())

    def on_statement(self, statement: str) -> None:
        """Note the statements that SQLite is about to run."""
        if statement == "COMMIT" and self.block is not None:
            self.tell("C")
            if self._mode == "before" and self._left == 1:
                signal.pause()

    def on_return(self) -> None:
        self.tell("A")
        self._left -= 1
        if self._mode == "after" and self._left == 0:
            signal.pause()


def main(ledger: str, mode: str, blocks: str) -> None:
    teller = Teller(mode, int(blocks))
    connections: list[sqlite3.Connection] = []

    def on_audit(event: str, args: tuple[object, ...]) -> None:
        # The interpreter announces each new connection, so the store needs no hook.
        if event == "sqlite3.connect/handle" and isinstance(args[0], sqlite3.Connection):
            connections.append(args[0])

    sys.addaudithook(on_audit)
    with SqliteStore.open(Path(ledger)) as store:
        # The last connection is the writer's; the earlier ones only checked the file.
        connections[-1].set_trace_callback(teller.on_statement)
        head = store.head()
        for _ in itertools.count():
            block = teller.block = seal(head, events_of(head))
            store.append(block, expected=head)
            head = block.head
            teller.on_return()


if __name__ == "__main__":
    main(*sys.argv[1:])
