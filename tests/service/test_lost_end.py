"""A service is killed under load and its write-ahead log damaged: it refuses a shorter ledger."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import httpx
import pytest

from quorate.adapters.stores.head_file import head_path
from tests.bounds import WAIT_S, until
from tests.oracles.effort import few_of
from tests.service.lives import prepared
from tests.service.program import CLI, client, program
from tests.service.worlds import run_tree

SUBMITTERS = 4
ACKNOWLEDGED = 40


def quorate(ledger: Path, *words: str, timeout_s: float = WAIT_S) -> tuple[int, str]:
    """Return the exit code and the output of a command on ``ledger``."""
    found = subprocess.run(
        [sys.executable, "-c", CLI, "--ledger", str(ledger), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    return found.returncode, found.stdout + found.stderr


class Load:
    """Submits until the service has ended, and keeps what was acknowledged."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self.receipts: list[str] = []

    def submit(self, worker: int) -> None:
        with client(self._url, self._token) as asking:
            for number in range(10_000):
                body = {"document": run_tree(f"run-{worker}-{number}", "rai", gpus=1)}
                try:
                    answer = asking.post("/api/v1/runs", json=body)
                except httpx.HTTPError:
                    return
                assert answer.status_code == 200, answer.text
                self.receipts.append(answer.json()["head"]["receipt"])


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a ledger whose service was killed under load, and the receipts of its answers."""
    folder = tmp_path_factory.mktemp("killed")
    ledger, token = prepared(folder)
    with program(folder, "--ledger", str(ledger)) as service:
        load = Load(service.wait_ready(), token)
        threads = [Thread(target=load.submit, args=(n,), daemon=True) for n in range(SUBMITTERS)]
        for thread in threads:
            thread.start()
        until(
            lambda: len(load.receipts) >= ACKNOWLEDGED,
            f"{ACKNOWLEDGED} runs are acknowledged",
            server=service.process,
            tell=lambda: service.err,
        )
        service.end(signal.SIGKILL)
    for thread in threads:
        thread.join(WAIT_S)
    return ledger, load.receipts


# The last frames may be from a commit that was never acknowledged, so the damage is before them.


def flip(wal: Path) -> None:
    with wal.open("r+b") as file:
        file.seek(wal.stat().st_size // 2)
        found = file.read(16)
        file.seek(-16, os.SEEK_CUR)
        file.write(bytes(byte ^ 0xFF for byte in found))


def cut(wal: Path) -> None:
    os.truncate(wal, wal.stat().st_size // 2)


def remove(wal: Path) -> None:
    wal.unlink()


def empty(wal: Path) -> None:
    os.truncate(wal, 0)


def copy_of(ledger: Path, folder: Path) -> Path:
    """Return a copy of the ledger and of every file beside it."""
    for file in ledger.parent.glob("ledger.db*"):
        if file.is_file():
            shutil.copy2(file, folder / file.name)
    return folder / ledger.name


@pytest.mark.slow
def test_killed_service_has_everything_it_acknowledged(
    killed: tuple[Path, list[str]], tmp_path: Path
) -> None:
    ledger, receipts = killed
    found = copy_of(ledger, tmp_path)
    last = max(receipts, key=lambda receipt: int(receipt.partition(":")[0]))
    code, said = quorate(found, "ledger", "verify", "--receipt", last)
    assert code == 0, said
    assert "cannot be detected" not in said


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("damage", few_of([flip, remove, cut, empty], 1))
def test_damaged_write_ahead_log_is_refused_with_what_is_missing_and_the_remedy(
    killed: tuple[Path, list[str]], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    ledger = copy_of(killed[0], tmp_path)
    damage(ledger.with_name("ledger.db-wal"))
    for words in (
        ("serve", "--listen", "127.0.0.1:0"),
        ("get", "runs"),
        ("ledger", "verify"),
        ("cancel", "run-0-0"),
    ):
        code, said = quorate(ledger, *words)
        assert code == 5, (words, said)
        assert "its end is missing: ledger.db.head recorded block" in said, words
        assert "acknowledged are lost" in said, words
        assert "quorate ledger restore BACKUP.db --out NEW.db" in said, words
        assert "an admin token" not in said, words
        assert "Traceback" not in said, said
    # Only the operator may accept the loss, by moving the file.
    head_path(ledger).rename(tmp_path / "kept-apart")
    code, said = quorate(ledger, "ledger", "verify")
    assert code == 0, said
    assert "a missing end cannot be detected" in said


@pytest.mark.slow
def test_copy_made_beside_a_running_service_does_not_verify_silently(
    killed: tuple[Path, list[str]], tmp_path: Path
) -> None:
    shutil.copy2(killed[0], tmp_path / "copy.db")
    code, said = quorate(tmp_path / "copy.db", "ledger", "verify")
    assert code == 0, said
    assert "cannot be detected: there is no record of its end" in said
    assert "--against CHECKPOINT" in said
    code, said = quorate(tmp_path / "copy.db", "ledger", "verify", "-o", "json")
    assert '"endKnown": false' in said
