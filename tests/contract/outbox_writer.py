"""The process that ``test_outbox_crash.py`` kills: writes an outbox and reports each step.

    python outbox_writer.py OUTBOX

It takes in three parcels for each event and delivers one parcel, again and again. Lines, each
written when the call has returned: ``T cursor`` after taking in, ``D key`` after a delivery.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.ports.outbox_port import Parcel

SINK = "hook"
LINES = ("ml", "bio", "ops")


def parcels_of(seq: int) -> list[Parcel]:
    """Return the parcels of the event ``seq``."""
    return [Parcel(f"{seq}-{line}", line, b"x" * 300, seq) for line in LINES]


def main(path: str) -> None:
    """Work until killed."""
    outbox = SqliteOutbox.open(Path(path))
    while True:
        seq = outbox.cursor(SINK) + 1
        outbox.take_in(SINK, parcels_of(seq), seq)
        os.write(1, f"T {seq}\n".encode())
        first = outbox.due(SINK, 0, 1)[0]
        outbox.delivered(SINK, first.key)
        os.write(1, f"D {first.key}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
