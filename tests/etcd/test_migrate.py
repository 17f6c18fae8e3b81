"""A ledger is moved from a file to etcd and back, locked meanwhile, and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.key_file import create_key, create_lottery_secret, key_path, lottery_path
from quorate.adapters.stores import ledger_copy, store_urls
from quorate.adapters.stores.ledger_copy import move_store
from quorate.core.commands import Apply
from quorate.ledger.chain import Block
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.ports.errors import (
    LedgerExistsError,
    LedgerHeldError,
    LedgerMovedError,
    LedgerServedError,
    StoreError,
)
from quorate.ports.leader_port import LedStore, MemberRecord
from quorate.ports.store_port import EventStore
from quorate.testing.memory_engines import HandClock
from tests.bounds import until

pytestmark = pytest.mark.slow


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """Return the path of a ledger with a few blocks and its secrets."""
    path = tmp_path / "quorate.db"
    with store_urls.create_store(str(path)) as store:
        engine = Engine.create(store, HandClock(), ledger_id="l", public_key="", actor="test")
        for number in range(5):
            engine.execute(Apply((Owner(name=f"o{number}"),)), actor="test")
    create_key(key_path(path))
    create_lottery_secret(lottery_path(path))
    return str(path)


def blocks_at(url: str) -> list[Block]:
    with store_urls.read_store(url) as store:
        return list(store.blocks())


def test_a_ledger_moves_to_etcd_and_back(ledger: str, etcd_url: str, tmp_path: Path) -> None:
    known = blocks_at(ledger)
    head, secrets = move_store(ledger, etcd_url)
    assert head == known[-1].head
    assert secrets == ("signing key", "lottery's secret")
    assert blocks_at(etcd_url) == known
    again = f"sqlite:{tmp_path / 'again.db'}"
    assert move_store(etcd_url, again) == (head, secrets)
    assert blocks_at(again) == known
    for place in (key_path, lottery_path):
        here, there = place(Path(ledger)), place(store_urls.ledger_path(again))
        assert here.read_bytes() == there.read_bytes()
    with pytest.raises(LedgerExistsError):
        move_store(ledger, etcd_url)


def test_a_ledger_that_a_service_holds_does_not_move(ledger: str, etcd_url: str) -> None:
    with store_urls.open_store(ledger), pytest.raises(LedgerHeldError):
        move_store(ledger, etcd_url)
    assert not store_urls.store_exists(etcd_url)


def test_a_ledger_that_is_written_meanwhile_does_not_move(
    ledger: str, etcd_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_store(ledger, etcd_url)
    copied = ledger_copy.copy_store

    def written(source: str, out: str, *, secrets: tuple[str, ...] = ()) -> object:
        head = copied(source, out, secrets=secrets)
        with _opened_elsewhere(etcd_url, tmp_path) as store:
            engine = Engine.open(store, HandClock())
            engine.execute(Apply((Owner(name="late"),)), actor="test")
        return head

    monkeypatch.setattr(ledger_copy, "copy_store", written)
    target = tmp_path / "back.db"
    with pytest.raises(StoreError, match="another program wrote to"):
        move_store(etcd_url, str(target))
    assert not target.exists()
    assert not key_path(target).exists()


def test_a_ledger_that_services_have_does_not_move(
    ledger: str, etcd_url: str, tmp_path: Path
) -> None:
    move_store(ledger, etcd_url)
    target = tmp_path / "back.db"
    with _opened_elsewhere(etcd_url, tmp_path) as store:
        assert isinstance(store, LedStore)
        follower = store.join(MemberRecord(name="two", address="http://two"))
        until(store.members, "the service is in the list")
        with pytest.raises(LedgerServedError, match=r"two \(http://two\): stop every service"):
            move_store(etcd_url, str(target))
        follower.close()
        leader = store.stand_for_leader("one", "http://one")
        leader.start()
        until(lambda: leader.term, "it leads")
        with pytest.raises(LedgerServedError, match=r"one \(http://one\)"):
            move_store(etcd_url, str(target))
        leader.close()
    assert not target.exists()
    move_store(etcd_url, str(target))


def test_a_service_that_leads_while_the_ledger_is_compared_keeps_it(
    ledger: str, etcd_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_store(ledger, etcd_url)
    target = tmp_path / "back.db"
    compared = ledger_copy._check_equal
    with _opened_elsewhere(etcd_url, tmp_path) as store:
        assert isinstance(store, LedStore)
        leader = store.stand_for_leader("one", "http://one")

        def led(*compare: Any) -> None:
            compared(*compare)
            leader.start()
            until(lambda: leader.term, "it leads")

        monkeypatch.setattr(ledger_copy, "_check_equal", led)
        with pytest.raises(LedgerServedError, match="one"):
            move_store(etcd_url, str(target))
        Engine.open(store, HandClock()).execute(Apply((Owner(name="late"),)), actor="test")
        leader.close()
    assert not target.exists()


def test_a_program_that_still_has_a_moved_ledger_records_nothing_there(
    ledger: str, etcd_url: str, tmp_path: Path
) -> None:
    move_store(ledger, etcd_url)
    known = blocks_at(etcd_url)
    target = str(tmp_path / "back.db")
    with _opened_elsewhere(etcd_url, tmp_path) as store:
        engine = Engine.open(store, HandClock())
        move_store(etcd_url, target)
        with pytest.raises(LedgerMovedError, match=r"use .*back.db"):
            engine.execute(Apply((Owner(name="late"),)), actor="test")
        with pytest.raises(LedgerMovedError):
            store.append_all([])
    with pytest.raises(LedgerMovedError):
        store_urls.open_store(etcd_url)
    assert blocks_at(etcd_url) == blocks_at(target) == known


def _opened_elsewhere(url: str, folder: Path) -> EventStore:
    """Return the same ledger opened on another machine."""
    place, _, _ = url.partition("?")
    return store_urls.open_store(f"{place}?local={folder / 'elsewhere'}")
