"""Keyboards for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import EXAMPLES, Shell


@pytest.fixture
def bare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a keyboard in an empty folder."""
    return Shell(tmp_path, capsys)


@pytest.fixture
def shell(bare: Shell) -> Shell:
    """Return a keyboard beside a ledger with the examples' fleet and teams."""
    bare.ok("init")
    bare.ok("apply", "-f", EXAMPLES / "fleet.yaml", "-f", EXAMPLES / "teams.yaml")
    return bare
