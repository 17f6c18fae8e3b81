"""What a damaged ledger file still holds: its first blocks, as far as they can be read and fit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from quorate.adapters.stores.sqlite_file import connected
from quorate.ledger.chain import GENESIS, Block, Broken, Head, verify_blocks


def sound_head(path: Path) -> Head:
    """Return the head of the blocks that are still a sound chain from the first one on."""
    head = GENESIS
    for block in _readable(path):
        if isinstance(verify_blocks([block], after=head), Broken):
            break
        head = block.head
    return head


def _readable(path: Path) -> Iterator[Block]:
    """Yield the blocks from the first one on, up to one that cannot be read."""
    height = 0
    try:
        with closing(connected(path, "mode=ro")) as db:
            # Otherwise SQLite refuses a file that was cut short. Nothing is written: the connection
            # is for reading.
            db.execute("PRAGMA writable_schema = ON")
            while True:
                height += 1
                row = db.execute(
                    "SELECT height, first_seq, count, prev_hash, hash, body FROM block "
                    "WHERE height = ?",
                    (height,),
                ).fetchone()
                match row:
                    case (int(), int(first_seq), int(count), bytes(prev), bytes(own), bytes(body)):
                        yield Block(
                            height=height,
                            first_seq=first_seq,
                            count=count,
                            prev_hash=prev,
                            hash=own,
                            body=body,
                        )
                    case _:
                        return
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return
