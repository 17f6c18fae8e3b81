"""This version reads the ledgers of every older version, and folds them to the same states.

``python -m tools.replay_ledger`` records those of a new version; what is recorded is never edited.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quorate import __version__
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Verified, verify_blocks
from quorate.ledger.snapshot import SNAPSHOT_FORMAT
from tools.replay_ledger import LIVES, kept, recorded, told_of, unpacked

KEPT = pytest.mark.parametrize("packed", list(kept()), ids=lambda path: path.name)


def test_the_ledgers_of_this_version_are_kept() -> None:
    assert {f"{__version__}-{name}.db.xz" for name in LIVES} <= {each.name for each in kept()}


@KEPT
def test_a_ledger_comes_to_the_state_it_came_to_when_it_was_written(
    packed: Path, tmp_path: Path
) -> None:
    told = json.loads(told_of(packed).read_text(encoding="utf-8"))
    assert str(SNAPSHOT_FORMAT) in told["state"], (
        "snapshots have a new format: record its hashes with python -m tools.replay_ledger "
        "--format, once the rest of this test passes"
    )
    found = recorded(unpacked(packed, tmp_path))
    told["state"] = {str(SNAPSHOT_FORMAT): told["state"][str(SNAPSHOT_FORMAT)]}
    assert found == told


@pytest.mark.slow
@KEPT
def test_a_ledger_is_sound_and_its_history_keeps_every_invariant(
    packed: Path, tmp_path: Path
) -> None:
    with SqliteStore.read(unpacked(packed, tmp_path)) as store:
        found = verify_blocks(store.blocks(), deep=True)
    assert isinstance(found, Verified), found
    assert found.head.seq == json.loads(told_of(packed).read_text(encoding="utf-8"))["sequence"]
