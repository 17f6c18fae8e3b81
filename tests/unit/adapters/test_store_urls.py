"""Stores by URL: valid names, invalid names, and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.adapters.stores import store_urls
from quorate.ledger.chain import GENESIS
from quorate.ports.errors import LedgerExistsError, StoreReadOnlyError, StoreUrlError
from quorate.service.config import configured
from quorate.testing.store_contract import fill
from quorate.views.error_codes import exit_of
from quorate.views.exits import CommandError, Exit


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("quorate.db", "quorate.db"),
        ("sqlite:quorate.db", "quorate.db"),
        ("sqlite:/var/lib/q.db", "/var/lib/q.db"),
        ("sqlite:///var/lib/q.db", "/var/lib/q.db"),
        ("/var/a:b.db", "/var/a:b.db"),
        ("./a:b.db", "a:b.db"),
        ("sqlite:a:b.db", "a:b.db"),
        ("A:b.db", "A:b.db"),
    ],
)
def test_a_path_and_a_url_of_sqlite_name_the_same_file(url: str, path: str) -> None:
    assert store_urls.ledger_path(url) == Path(path)


@pytest.mark.parametrize("url", ["mysql://one,two/fleet", "postgres:x", "sqlite:", ""])
def test_a_url_that_names_no_store_is_an_error_with_those_that_there_are(url: str) -> None:
    with pytest.raises(StoreUrlError, match="sqlite:PATH") as caught:
        store_urls.open_store(url)
    assert exit_of(caught.value) is Exit.USAGE


def test_a_store_is_made_written_read_and_removed_by_its_url(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'ledger.db'}"
    with store_urls.create_store(url) as store:
        assert store.head() == GENESIS
    with pytest.raises(LedgerExistsError):
        store_urls.create_store(url)
    with store_urls.open_store(url) as store:
        added = fill(store, blocks=2)
    with store_urls.read_store(url) as store:
        assert list(store.blocks()) == added
        with pytest.raises(StoreReadOnlyError):
            store.append_all(added)
    with store_urls.read_pages(url) as store:
        assert store.head() == added[-1].head
        with pytest.raises(StoreReadOnlyError):
            store.append_all(added)
    assert store_urls.sound_head_at(url) == added[-1].head
    store_urls.remove_store(url)
    assert not store_urls.ledger_path(url).exists()


def test_the_ledger_of_a_configuration_is_the_url_of_a_store() -> None:
    assert configured({"ledger": "sqlite:fleet.db"}, {}, None).ledger == "sqlite:fleet.db"
    with pytest.raises(CommandError, match=r"ledger: .*'mysql'.*sqlite:PATH"):
        configured({"ledger": "mysql://one/fleet"}, {}, None)
