"""A service that is killed again and again while its disk fails loses nothing acknowledged.

Eight clients submit and retry. Every acknowledged run is in the ledger once, and ran once.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS
from quorate.ledger.codec import event_to_json
from quorate.model.state.records import TERMINAL
from quorate.views.runs.event_text import entries
from tests.bounds import Deadline, until
from tests.executor.room import sweep
from tests.oracles.effort import few_of
from tests.service.faulting import REFUSED, Fault
from tests.service.lives import crashing, deaths, end, prepared, verify
from tests.service.program import reserved_port
from tests.service.worlds import run_tree

_LOG = logging.getLogger(__name__)

CLIENTS = 8
SHORT, LONG = 3, 50
LIFE_S_MAX = 40.0
"""The time limit of one life on a busy machine."""
DISK_BYTES = 64 * 1024 * 1024
AGAIN = (429, 503)
PAUSE_S = {Fault.WRITES: 0.05, Fault.FULL: 0.7}


@contextmanager
def _disk(folder: Path, fault: Fault) -> Iterator[Path]:
    """Return a folder for the ledger, on a small file system if the fault is a full disk."""
    found = folder / "disk"
    found.mkdir()
    if fault is not Fault.FULL:
        yield found
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(found)]
    if os.getuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system is mounted by root only")
    try:
        yield found
    finally:
        subprocess.run(["umount", "--lazy", str(found)], check=True)


class Submitters:
    """Clients that submit one run after another, and repeat each until it is acknowledged."""

    def __init__(self, folder: Path, url: str, token: str, fault: Fault, kills: int) -> None:
        self._folder = folder
        self._fault = fault
        self._kills = kills
        self._lock = Lock()
        self._sent = 0
        self.again = 0
        self.refused = 0
        self.acknowledged: list[str] = []
        self.client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=30,
            limits=httpx.Limits(max_connections=2 * CLIENTS),
        )

    def run(self, server: subprocess.Popen[bytes]) -> None:
        """Submit until the service has died often enough."""
        deadline = Deadline(f"{self._kills} deaths", LIFE_S_MAX * self._kills + 60, server)
        with ThreadPoolExecutor(CLIENTS) as pool:
            for each in [pool.submit(self._submit, deadline) for _ in range(CLIENTS)]:
                each.result()

    def _submit(self, deadline: Deadline) -> None:
        while len(deaths(self._folder)) < self._kills:
            with self._lock:
                self._sent += 1
                name = f"run-{self._sent}"
            more: dict[str, Any] = {"runtime": {"expectedDuration": "1s"}}
            if self._fault is Fault.FULL:
                script = f"echo $QUORATE_RUN >> {self._folder}/starts"
                more = {"command": ["sh", "-c", script]}
            body = {"document": run_tree(name, "rai", gpus=1, **more)}
            while not self._is_acknowledged(name, body):
                deadline.check(lambda: deaths(self._folder))
                self.again += 1
                time.sleep(0.05)
            self.acknowledged.append(name)
            time.sleep(PAUSE_S[self._fault])

    def _is_acknowledged(self, name: str, body: dict[str, Any]) -> bool:
        headers = {"Idempotency-Key": f"key-{name}"}
        try:
            answer = self.client.post("/api/v1/runs", json=body, headers=headers)
        except httpx.TransportError:
            return False
        assert answer.status_code in (200, *AGAIN), answer.text
        if answer.status_code == 503:
            self.refused += 1
            (self._folder / REFUSED).touch()
        return answer.status_code == 200

    def busy(self) -> list[str] | None:
        """Return the runs that are not over; None if the service does not answer."""
        found: list[str] = []
        cursor: dict[str, str] = {}
        with suppress(httpx.TransportError):
            while True:
                answer = self.client.get("/api/v1/runs", params={"limit": "1000"} | cursor)
                if answer.status_code in AGAIN:
                    return None
                page = answer.json()
                found += [
                    each["metadata"]["name"]
                    for each in page["items"]
                    if each["status"]["phase"] not in TERMINAL
                ]
                if "next" not in page:
                    return found
                cursor = {"cursor": page["next"]}
        return None


def _check(ledger: Path, folder: Path, load: Submitters, fault: Fault) -> None:
    """Check that each acknowledged run is in the ledger once, and ran once."""
    verify(ledger)
    with SqliteStore.read(ledger) as store:
        trees = [
            event_to_json(entry.seq, entry.event)
            for entry in entries(store.blocks(), after=GENESIS)
        ]
    text = json.loads(json.dumps(trees, default=str))
    submitted = Counter(each["run"]["name"] for each in text if each["tag"] == "run-submitted/1")
    started = Counter(each["run"] for each in text if each["tag"].startswith("lease-started/"))
    over = Counter(each["run"] for each in text if each["tag"].startswith("run-ended/"))
    once = dict.fromkeys(load.acknowledged, 1)
    assert len(once) == len(load.acknowledged)
    assert submitted == once
    assert started == once
    assert over == once
    if fault is Fault.FULL:
        starts = Counter((folder / "starts").read_text(encoding="utf-8").split())
        assert starts == once


def _keeps_its_word(folder: Path, fault: Fault, kills: int) -> None:
    with _disk(folder, fault) as disk:
        ledger, token = prepared(disk)
        work = folder / "work"
        work.mkdir(mode=0o700)
        # Only the ledger is on the disk that fails.
        Path(f"{ledger}.work").symlink_to(work)
        try:
            with reserved_port() as port:
                words = (str(ledger), str(port), fault.value, str(kills))
                with crashing("tests.service.faulting", folder / "lives", *words) as process:
                    url = f"http://127.0.0.1:{port}"
                    load = Submitters(folder, url, token, fault, kills)
                    try:
                        load.run(process)
                        until(lambda: load.busy() == [], "all is over", 300, server=process)
                    except BaseException as error:
                        error.add_note((folder / "err.txt").read_text(errors="replace")[-6_000:])
                        raise
                    finally:
                        load.client.close()
                    end(process, folder)
            _check(ledger, folder, load, fault)
        finally:
            sweep(work)
    assert len(deaths(folder)) == kills
    # The disk did fail, and callers were told to retry.
    assert load.refused
    assert load.again - load.refused >= kills // 2
    told = (fault.value, kills, len(load.acknowledged), load.again, load.refused)
    _LOG.info("%s: %d kills, %d runs, %d tries again, %d of them after 503", *told)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(LIFE_S_MAX * SHORT + 500)
@pytest.mark.parametrize("fault", few_of(Fault, 1))
def test_a_service_killed_with_a_failing_disk_keeps_its_word(tmp_path: Path, fault: Fault) -> None:
    _keeps_its_word(tmp_path, fault, SHORT)


@pytest.mark.soak
@pytest.mark.timeout(LIFE_S_MAX * LONG + 500)
@pytest.mark.parametrize("fault", Fault)
def test_a_service_killed_fifty_times_with_a_failing_disk_keeps_its_word(
    tmp_path: Path, fault: Fault
) -> None:
    _keeps_its_word(tmp_path, fault, LONG)
