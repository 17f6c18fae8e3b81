"""An outbox killed at any instant has what it acknowledged, with consistent parcels and cursor."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from tests.bounds import WAIT_S, started
from tests.contract.outbox_writer import LINES, SINK, parcels_of
from tests.oracles.effort import sized

KILLS = sized(4, 25)
FIRST_LINES = 3
"""After this number of lines it has taken in twice."""
WRITER = Path(__file__).with_name("outbox_writer.py")


def killed(path: Path, after_s: float) -> list[list[str]]:
    """Run the writer, kill it ``after_s`` after its first lines, and return its lines."""
    with started(
        [sys.executable, str(WRITER), str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as writer:
        told = writer.stdout
        assert told is not None
        lines = [told.readline() for _ in range(FIRST_LINES)]
        time.sleep(after_s)
        writer.send_signal(signal.SIGKILL)
        lines += told.readlines()
        assert writer.wait(WAIT_S) == -signal.SIGKILL
    return [line.decode().split() for line in lines if line.endswith(b"\n")]


@pytest.mark.slow
def test_killed_at_any_instant_it_has_what_it_acknowledged_and_nothing_by_halves(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db.outbox"
    chance = random.Random(21)
    taken, delivered = 0, set[str]()
    for _ in range(KILLS):
        for mark, what in killed(path, chance.random() * 0.05):
            if mark == "T":
                taken = int(what)
            else:
                delivered.add(what)
        outbox = SqliteOutbox.open(path)
        cursor, waits = outbox.cursor(SINK), outbox.waiting(SINK).parcels
        # One call of each kind may have been carried out without a line.
        assert taken <= cursor <= taken + 1
        gone = len(LINES) * cursor - waits
        assert len(delivered) <= gone <= len(delivered) + 1
        due = {one.key for one in outbox.due(SINK, 0, 10)}
        assert not due & delivered
        # A delivered parcel is not taken in again.
        outbox.take_in(
            SINK, [one for seq in range(1, cursor + 1) for one in parcels_of(seq)], cursor
        )
        assert outbox.waiting(SINK).parcels == waits
        outbox.close()
        taken = cursor
        delivered |= {f"untold-{len(delivered)}" for _ in range(gone - len(delivered))}
    assert taken >= 2 * KILLS
