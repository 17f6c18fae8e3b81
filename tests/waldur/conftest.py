"""Tests with Waldur's own client and with services that are linked to it; all are slow."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.oracles.effort import leaves_out_slow

if find_spec("waldur_api_client") is not None:
    # Imported before the first file of this folder, which all test processes read.
    import_module("quorate.adapters.accounting")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip these files if the client is not installed or slow tests are not requested."""
    del collection_path
    return True if leaves_out_slow(config) or find_spec("waldur_api_client") is None else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)
