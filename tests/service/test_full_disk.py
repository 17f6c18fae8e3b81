"""While commits fail the service is alive but not ready, says why, and becomes ready afterwards."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import monotonic

import httpx
import pytest

from quorate.adapters.stores.sqlite_file import NEEDED_BYTES, check_writable
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Block, Head
from quorate.ports.errors import StoreFullError
from quorate.service.commits import CHECK_S
from quorate.service.daemon import Extras
from tests.bounds import stays, until
from tests.service.serving import Served, new_ledger, serving

SPACE_BYTES = 4 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a file system of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SPACE_BYTES}", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system is mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    """Return a file that fills the file system."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4_096))
        except OSError:
            return filler


def _until(client: httpx.Client, status: int) -> httpx.Response:
    """Return the answer of ``/readyz`` as soon as it has ``status``."""
    found = client.get("/readyz")

    def is_so() -> bool:
        nonlocal found
        found = client.get("/readyz")
        return found.status_code == status

    until(is_so, f"/readyz answers with {status}", tell=lambda: found.text)
    return found


def test_a_full_disk_makes_the_service_not_ready_until_there_is_room(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with (
        serving(new_ledger(small_disk)) as served,
        served.client(served.token) as admin,
        served.client(None) as anybody,
    ):
        filler = _fill(small_disk)
        statuses = [
            admin.post("/api/v1/tenants", json={"id": f"team-{number}"}).status_code
            for number in range(200)
        ]
        assert statuses[-1] == 503, statuses
        ready = _until(anybody, 503)
        assert ready.headers["retry-after"]
        assert "commits fail: no space left for" in ready.json()["detail"]
        # The service tries again each second, with an unnamed file.
        stays(
            lambda: anybody.get("/readyz").status_code == 503,
            "looking again does not make room",
            for_s=2.5 * CHECK_S,
        )
        assert anybody.get("/healthz").status_code == 200
        assert admin.get("/api/v1/tenants").status_code == 200, "what is there can be read"
        assert any("commits fail: no space left for" in each for each in caplog.messages)
        filler.unlink()
        _until(anybody, 200)
        assert admin.post("/api/v1/tenants", json={"id": "late"}).status_code == 200
        assert any("commits work again" in each for each in caplog.messages)


def test_a_service_that_starts_on_a_full_disk_is_not_ready(small_disk: Path) -> None:
    path = new_ledger(small_disk)
    with serving(path):
        pass
    filler = _fill(small_disk)
    # Enough space to open the ledger, and too little for a commit.
    os.truncate(filler, filler.stat().st_size - NEEDED_BYTES // 2)
    served = Served(path, {}, Extras())
    served.begin()
    try:
        with served.client(None) as anybody:
            found = anybody.get("/readyz")
            assert found.status_code == 503, found.text
            assert "commits fail: no space left for" in found.json()["detail"]
            assert anybody.get("/healthz").status_code == 200
            filler.unlink()
            _until(anybody, 200)
    finally:
        served.stop()


class FullLedger(SqliteStore):
    """A store whose disk is full when a test says so."""

    is_full: Event

    def append(self, block: Block, *, expected: Head) -> None:
        if self.is_full.is_set():
            raise StoreFullError("no space left for this; make room")
        super().append(block, expected=expected)


def test_a_commit_that_fails_makes_the_service_not_ready(tmp_path: Path) -> None:
    is_full = Event()

    def opened(url: str, *, wait_s: float) -> FullLedger:
        found = FullLedger.open(Path(url), wait_s=wait_s)
        found.is_full = is_full
        return found

    with (
        serving(new_ledger(tmp_path), extras=Extras(open_store=opened)) as served,
        served.client(served.token) as admin,
    ):
        for order in ("/api/v1/tenants", "/api/v1/tenants"):
            assert admin.get("/readyz").status_code == 200
            is_full.set()
            assert admin.post(order, json={"id": "team"}).status_code == 503
            found = admin.get("/readyz")
            assert (found.status_code, found.json()["code"]) == (503, "unavailable")
            assert "commits fail: no space left for this" in found.json()["detail"]
            is_full.clear()
            assert admin.post(order, json={"id": f"team-{monotonic()}"}).status_code == 200


def test_a_disk_without_room_is_told_apart_from_one_with_room(small_disk: Path) -> None:
    ledger = small_disk / "ledger.db"
    check_writable(ledger)
    filler = _fill(small_disk)
    with pytest.raises(StoreFullError):
        check_writable(ledger)
    filler.unlink()
    (small_disk / "most").write_bytes(bytes(SPACE_BYTES - NEEDED_BYTES // 2))
    with pytest.raises(StoreFullError):
        check_writable(ledger)
