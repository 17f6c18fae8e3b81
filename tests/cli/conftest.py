"""Fixtures for the tests of the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from quorate.cli.main import main
from quorate.cli.settings import Settings
from tests.cli.shell import EXAMPLES, NOW_MS, MovableClock, Shell


@pytest.fixture
def bare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell in an empty folder."""
    return Shell(tmp_path, capsys)


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the ledger with which most tests begin; they copy it."""
    folder = tmp_path_factory.mktemp("begun")
    settings = Settings(
        environ={"QUORATE_ACTOR": "ada", "QUORATE_LEDGER": str(folder / "quorate.db")},
        clock=MovableClock(NOW_MS),
    )
    files = [str(EXAMPLES / name) for name in ("fleet.yaml", "teams.yaml")]
    assert main(["init"], settings) == 0
    assert main(["apply", "-f", files[0], "-f", files[1]], settings) == 0
    return folder


@pytest.fixture
def shell(bare: Shell, begun: Path) -> Shell:
    """Return a shell beside a ledger with the fleet and the teams of the examples."""
    shutil.copytree(begun, bare.folder, dirs_exist_ok=True)
    return bare
