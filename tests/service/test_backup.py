"""Backups of a ledger that is being written, restored ledgers, and missing secrets."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from threading import Event, Thread

import pytest

from quorate.adapters.key_file import create_key, create_lottery_secret, key_path, lottery_path
from quorate.adapters.stores.head_file import head_path, read_head
from quorate.adapters.stores.ledger_backup import copy_ledger
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Head, Verified, verify_blocks
from quorate.ledger.checkpoint import verify_signature
from quorate.ports.errors import CorruptLedgerError, KeyFileError, LedgerExistsError, StoreError
from tests.bounds import WAIT_S, until
from tests.service.lives import prepared
from tests.service.serving import new_ledger, serving
from tests.service.worlds import run_tree

COPIES = 4


def test_backup_under_load_has_everything_that_was_acknowledged_before_it(tmp_path: Path) -> None:
    ledger, token = prepared(tmp_path)
    last_height = 0
    is_over = Event()
    with serving(ledger) as served:

        def submit() -> None:
            nonlocal last_height
            with served.client(token) as client:
                for number in range(5_000):
                    if is_over.is_set():
                        return
                    body = {"document": run_tree(f"run-{number}", "rai", gpus=1)}
                    answer = client.post("/api/v1/runs", json=body)
                    last_height = answer.json()["head"]["height"]

        thread = Thread(target=submit, daemon=True)
        thread.start()
        heads: list[Head] = []
        try:
            for number in range(COPIES):
                before = heads[-1].height if heads else 0
                until(lambda before=before: last_height > before, "more is recorded")  # type: ignore[misc]
                acknowledged = last_height
                head = copy_ledger(ledger, tmp_path / f"copy-{number}.db")
                assert head.height >= acknowledged
                heads.append(head)
        finally:
            is_over.set()
            thread.join(WAIT_S)
    assert heads[0].height < heads[-1].height
    with SqliteStore.read(ledger) as whole:
        hashes = {block.height: block.hash for block in whole.blocks()}
    for number, head in enumerate(heads):
        copy = tmp_path / f"copy-{number}.db"
        assert {file.name for file in tmp_path.glob(f"copy-{number}.db*")} == {
            copy.name,
            head_path(copy).name,
        }
        with SqliteStore.read(copy) as store:
            found = verify_blocks(store.blocks(), deep=True)
            assert isinstance(found, Verified)
            assert found.head == head
        assert hashes[head.height] == head.hash
        end = read_head(copy)
        assert end is not None
        assert (end.height, verify_signature(end)) == (head.height, True)


def test_backup_is_the_owners_alone_and_overwrites_nothing(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    copy = tmp_path / "copy.db"
    copy_ledger(ledger, copy, secrets=("signing key", "lottery's secret"))
    for file in tmp_path.glob("copy.db*"):
        assert file.stat().st_mode & 0o777 == 0o600, file
    assert key_path(copy).read_bytes() == key_path(ledger).read_bytes()
    assert lottery_path(copy).read_bytes() == lottery_path(ledger).read_bytes()
    before = {file: file.read_bytes() for file in tmp_path.glob("copy.db*")}
    with pytest.raises(LedgerExistsError):
        copy_ledger(ledger, copy)
    assert {file: file.read_bytes() for file in tmp_path.glob("copy.db*")} == before
    other = tmp_path / "other.db"
    shutil.copyfile(head_path(copy), head_path(other))
    with pytest.raises(StoreError, match="remains from a ledger that was here"):
        copy_ledger(ledger, other)
    assert not other.exists()


def test_backup_with_keys_that_are_missing_leaves_no_file(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    lottery_path(ledger).unlink()
    with pytest.raises(KeyFileError, match="there is no lottery's secret file"):
        copy_ledger(ledger, tmp_path / "copy.db", secrets=("signing key", "lottery's secret"))
    assert list(tmp_path.glob("copy.db*")) == []


def test_damaged_ledger_is_not_backed_up(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    with SqliteStore.read(ledger) as store:
        (block,) = store.blocks()
    whole = ledger.read_bytes()
    at = whole.index(block.body)
    ledger.write_bytes(whole[:at] + bytes(4) + whole[at + 4 :])
    with pytest.raises(CorruptLedgerError):
        copy_ledger(ledger, tmp_path / "copy.db")
    assert list(tmp_path.glob("copy.db*")) == []


def test_service_says_at_its_start_what_will_not_work_without_its_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = new_ledger(tmp_path)
    with caplog.at_level(logging.WARNING), serving(ledger):
        pass
    assert caplog.text == ""
    key_path(ledger).unlink()
    lottery_path(ledger).unlink()
    with caplog.at_level(logging.WARNING), serving(ledger):
        pass
    assert "there is no signing key at" in caplog.text
    assert "no checkpoint can be signed" in caplog.text
    assert "there is no lottery's secret at" in caplog.text
    assert "conflicts that need a draw stay open" in caplog.text
    caplog.clear()
    create_key(key_path(ledger))
    create_lottery_secret(lottery_path(ledger))
    with caplog.at_level(logging.WARNING), serving(ledger):
        pass
    assert "is not the key of this ledger: no checkpoint can be signed" in caplog.text
    assert "is not the lottery's secret of this ledger" in caplog.text
