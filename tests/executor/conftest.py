"""Executors for tests, with real keepers and real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.room import Room, room
from tests.oracles.effort import leaves_out_slow


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Skip these files if slow tests are not requested."""
    return True if leaves_out_slow(config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow: each starts processes."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Room]:
    """Return an executor that ends with the test, together with all its work."""
    with room(tmp_path / "work") as found:
        yield found
