"""A writer killed with SIGKILL before, inside and after its commit loses nothing it acknowledged.

This kills processes, not machines: SQLite and the kernel guarantee what the disk has after a power
failure (``synchronous=FULL``), and this is not tested here.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS, Block, Verified, open_blocks, verify_blocks
from tests.bounds import WAIT_S, started
from tests.contract.crash_writer import events_of
from tests.oracles.effort import sized

KILLS = sized(4, 20)
TRIES_MAX = 200
WRITER = Path(__file__).with_name("crash_writer.py")


class Killed:
    """The lines of a writer before it died."""

    def __init__(self, lines: list[str]) -> None:
        marks = [line.split() for line in lines]
        self.acknowledged = {int(m[1]): m[2] for m in marks if m[0] == "A"}
        self.last = marks[-1][0]
        self.last_height = int(marks[-1][1])


def kill_writer(ledger: Path, mode: str, chance: random.Random) -> Killed:
    """Run a writer, kill it at the step of ``mode``, and return its lines."""
    blocks = chance.randint(1, 4)
    with started(
        [sys.executable, str(WRITER), str(ledger), mode, str(blocks)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as writer:
        told = writer.stdout
        assert told is not None
        # Two lines for each block before the last, then its C, then, in mode ``after``, its A.
        lines = [told.readline() for _ in range(2 * blocks - (mode != "after"))]
        if mode == "inside":
            busy_until = time.perf_counter() + chance.random() * 400e-6
            while time.perf_counter() < busy_until:
                pass
        writer.send_signal(signal.SIGKILL)
        lines += told.readlines()
        assert writer.wait(WAIT_S) == -signal.SIGKILL
    # A line that the kill cut short does not count.
    return Killed([line.decode() for line in lines if line.endswith(b"\n")])


def check_after(ledger: Path, killed: Killed, before: dict[int, str]) -> dict[int, str]:
    """Reopen the ledger for writing, as after a restart, and return the hashes in it."""
    with SqliteStore.open(ledger) as store:
        blocks = list(store.blocks())
        assert verify_blocks(blocks, deep=True) == Verified(
            head=store.head(), events=store.head().seq, blocks=len(blocks)
        )
    assert_whole(blocks)
    found = {block.height: block.hash.hex() for block in blocks}
    for height, digest in {**before, **killed.acknowledged}.items():
        assert found.get(height) == digest, f"block {height} was acknowledged and is gone"
    # Besides, at most the one block may be there whose append had not returned.
    assert len(found) <= max([*before, *killed.acknowledged, 0]) + 1
    return found


def assert_whole(blocks: list[Block]) -> None:
    """Check that every block has exactly the events that its writer sealed in it."""
    head = GENESIS
    for after, events in open_blocks(blocks):
        assert events == events_of(head)
        head = after


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["before", "inside", "after"])
def test_killed_writer_loses_nothing_acknowledged_and_leaves_no_half_block(
    tmp_path: Path, mode: str
) -> None:
    ledger = tmp_path / "ledger.db"
    SqliteStore.create(ledger).close()
    chance = random.Random(mode)
    found: dict[int, str] = {}
    kills = 0
    for _ in range(TRIES_MAX):
        killed = kill_writer(ledger, mode, chance)
        found = check_after(ledger, killed, found)
        if mode == "before":
            assert killed.last == "C"
            assert killed.last_height not in found, "COMMIT had not begun"
            kills += 1
        elif mode == "after":
            assert killed.last == "A"
            kills += 1
        else:
            # Killed between the start of COMMIT and the return of append.
            kills += killed.last == "C"
        if kills == KILLS:
            return
    pytest.fail(f"only {kills} of {TRIES_MAX} kills came {mode} the commit")
