"""Whether commits work: a store that failed is checked beside the ledger thread."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, get_ident

import pytest

from quorate.ports.errors import StoreDownError, StoreFullError
from quorate.service import commits
from quorate.service.commits import CommitHealth
from tests.bounds import WAIT_S, until


class Store:
    """A store whose checks wait until the test releases them."""

    def __init__(self) -> None:
        self.is_full = True
        self.checked_by = 0
        self.has_begun, self.may_go_on = Event(), Event()

    def check_writable(self) -> None:
        self.checked_by = get_ident()
        self.has_begun.set()
        assert self.may_go_on.wait(WAIT_S)
        if self.is_full:
            raise StoreDownError("played: no answer")


@pytest.fixture
def store() -> Iterator[Store]:
    found = Store()
    yield found
    found.may_go_on.set()


@pytest.fixture(autouse=True)
def checks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "CHECK_S", 0.0)


def failing(store: Store) -> CommitHealth:
    """Return the health of commits to ``store`` after a failure, when a check has begun."""
    health = CommitHealth(store.check_writable)
    health.failed(StoreFullError("no space left"))
    health.check()
    assert store.has_begun.wait(WAIT_S)
    return health


def let_go_on(store: Store, health: CommitHealth) -> None:
    """Let the check under way end, and read its result."""
    store.may_go_on.set()
    until(lambda: health.wait_s() == 0, "the check has ended")
    health.check()


def test_check_that_takes_long_does_not_keep_the_ledger_thread_waiting(store: Store) -> None:
    health = failing(store)
    assert store.checked_by != get_ident()
    assert 0 < health.wait_s() < 1
    health.check()
    assert "no space left" in health.trouble


def test_commits_work_again_once_a_check_has_succeeded(store: Store) -> None:
    health = failing(store)
    store.is_full = False
    let_go_on(store, health)
    assert health.trouble == ""


def test_check_that_fails_is_repeated(store: Store) -> None:
    health = failing(store)
    let_go_on(store, health)
    assert "no space left" in health.trouble
    store.is_full = False
    store.has_begun.clear()
    health.check()
    assert store.has_begun.wait(WAIT_S)
    let_go_on(store, health)
    assert health.trouble == ""


def test_commit_that_fails_during_a_check_is_newer_than_its_result(store: Store) -> None:
    health = failing(store)
    store.is_full = False
    health.failed(StoreFullError("no space left"))
    let_go_on(store, health)
    assert "no space left" in health.trouble
