"""What a forger would do to a copy of a ledger: change a name in one event, then hide that."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Final

from quorate.ledger.chain import GENESIS

EVENT: Final = b"conflict-resolved/1"
HASHED: Final = b"quorate-block/1\0"
"""The prefix of everything that is hashed, as docs/reference/export.md specifies."""


def rename_in_event(ledger: Path, names: Sequence[tuple[str, str]]) -> int:
    """Replace names in the one event with the outcome of a lottery; return its block.

    Each is as long as the other, so that everything else keeps its offset.
    """
    with closing(sqlite3.connect(ledger)) as db, db:
        blocks = db.execute("SELECT height, body FROM block ORDER BY height").fetchall()
        height, body = next((height, body) for height, body in blocks if EVENT in body)
        begin = body.index(EVENT)
        # The next event of the block begins with its own tag.
        end = body.index(b"run-stopping/1", begin)
        event = body[begin:end]
        for old, new in names:
            assert len(old) == len(new), "other lengths would have to be written elsewhere too"
            event = event.replace(old.encode(), new.encode())
        assert event != body[begin:end], "the event names another run"
        changed = body[:begin] + event + body[end:]
        db.execute("UPDATE block SET body = ? WHERE height = ?", (changed, height))
    return int(height)


def hash_anew(ledger: Path) -> None:
    """Compute every hash again, so that the blocks join as if nothing had happened."""
    with closing(sqlite3.connect(ledger)) as db, db:
        before = GENESIS.hash
        for height, body in db.execute("SELECT height, body FROM block ORDER BY height").fetchall():
            after = sha256(HASHED + before + body).digest()
            db.execute(
                "UPDATE block SET prev_hash = ?, hash = ? WHERE height = ?", (before, after, height)
            )
            before = after
        db.execute("UPDATE head SET hash = ?", (before,))
