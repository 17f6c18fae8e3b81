"""A service that is killed under load: no job is lost, left behind, or started twice."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.loop.engine import Engine
from quorate.model.state.records import TERMINAL, Phase
from quorate.runtime import FOLDER
from tests.bounds import Deadline, until
from tests.executor.crashing import PLACES, Instant
from tests.executor.room import environ, sweep
from tests.oracles.effort import few_of, sized
from tests.service.lives import crashing, deaths, end, prepared, verify
from tests.service.program import reserved_port
from tests.service.worlds import run_tree

KILLS = sized(5, 15)
STEADY = 4
AGAIN_S = 0.02
WHOLE_S = 400.0
"""The time limit of all lives on a busy machine; on an idle machine they take a minute."""
SETTLED_S = 120.0

JOB = """
mine={folder}/pid-$QUORATE_RUN-$RANK
if [ -e $mine ] && kill -0 $(cat $mine) 2>/dev/null; then echo $QUORATE_RUN >> {folder}/twice; fi
echo $$ > $mine
echo "$QUORATE_RUN $RANK $QUORATE_GENERATION $$" >> {folder}/starts
"""
QUICK = "sleep 0.1; exit 0"
STUBBORN = 'trap "" TERM; while :; do sleep 0.05; done'
LASTING = "exec sleep 1000"


@dataclass
class Load:
    """A client that submits and cancels until the service has died often enough."""

    client: httpx.Client
    folder: Path
    server: subprocess.Popen[bytes]
    names: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    cut_off: int = 0

    def go_on(self) -> None:
        """Submit jobs of each kind while the service dies and restarts."""
        for number in range(STEADY):
            self.submit(f"steady-{number}", LASTING)
        number = 0
        deadline = Deadline(f"{KILLS} lives are over", WHOLE_S, self.server)
        while len(deaths(self.folder)) < KILLS:
            deadline.check(lambda: deaths(self.folder))
            number += 1
            self.submit(f"quick-{number}", QUICK, gpus=2)
            if number % 3 == 0:
                self.submit(f"held-{number}", STUBBORN)
            if number % 3 == 2 and number > 3:
                self.cancel(f"held-{number - 2}")
            time.sleep(0.05)
        for name in [name for name in self.names if name.startswith("held-")]:
            self.cancel(name)

    def submit(self, name: str, script: str, gpus: int = 1) -> None:
        """Submit a job; repeat the request until it is answered."""
        self.names.append(name)
        command = ["sh", "-c", JOB.format(folder=self.folder) + script]
        more: dict[str, Any] = {"command": command, "runtime": {"checkpoint": "1s"}}
        tree = run_tree(name, "rai", gpus=gpus, **more)
        self._ask("/api/v1/runs", {"document": tree}, name)

    def cancel(self, name: str) -> None:
        """Cancel a job; repeat the request until it is answered."""
        if name not in self.cancelled:
            self.cancelled.add(name)
            self._ask(f"/api/v1/runs/{name}/cancel", {}, f"cancel-{name}")

    def _ask(self, path: str, body: dict[str, Any], key: str) -> None:
        headers = {"Idempotency-Key": key}

        def answered() -> httpx.Response | None:
            try:
                found = self.client.post(path, json=body, headers=headers)
            except httpx.TransportError:
                self.cut_off += 1
                return None
            return None if found.status_code == 503 else found

        found = until(answered, f"{key} is answered", server=self.server, every_s=AGAIN_S)
        # A run is cancelled even if its request was never answered.
        assert found.status_code == 200, found.text

    def phases(self) -> dict[str, str]:
        """Return the phase of each run."""
        items = self.client.get("/api/v1/runs", params={"limit": 1_000}).json()["items"]
        return {each["metadata"]["name"]: each["status"]["phase"] for each in items}

    def phases_when_back(self) -> dict[str, str]:
        """Return the phase of each run, as soon as the service answers."""

        def answered() -> dict[str, str] | None:
            with suppress(httpx.TransportError):
                return self.phases()
            return None

        return until(answered, "it is back", server=self.server, every_s=AGAIN_S)


@contextmanager
def swept(work: Path) -> Iterator[None]:
    """Kill all work in ``work`` at the end."""
    try:
        yield
    finally:
        sweep(work)


def at_work(work: Path) -> tuple[Counter[str], Counter[str]]:
    """Return the number of processes and of keepers of each run."""
    ranks: Counter[str] = Counter()
    keepers: Counter[str] = Counter()
    for entry in Path("/proc").glob("[0-9]*"):
        env = environ(int(entry.name))
        home = Path(env.get(FOLDER, "/"))
        if home.is_relative_to(work):
            (ranks if "RANK" in env else keepers)[home.name] += 1
    return ranks, keepers


def settled(load: Load, work: Path) -> None:
    """Return when every run that ends has ended, and no process of it is left."""
    steady = {f"steady-{n}" for n in range(STEADY)}

    def is_settled() -> bool:
        phases = load.phases_when_back()
        busy = {name for name, phase in phases.items() if phase not in TERMINAL}
        return busy == steady == set(at_work(work)[1])

    until(
        is_settled,
        "every run that ends has ended",
        SETTLED_S,
        server=load.server,
        tell=lambda: at_work(work),
    )


@pytest.mark.soak
@pytest.mark.timeout(WHOLE_S + SETTLED_S + 200)
@pytest.mark.parametrize("instant", few_of(Instant, 1))
def test_a_service_killed_under_load_neither_loses_nor_doubles_work(
    tmp_path: Path, instant: Instant
) -> None:
    ledger, token = prepared(tmp_path)
    work = Path(f"{ledger}.work")
    headers = {"Authorization": f"Bearer {token}"}
    with (
        reserved_port() as port,
        swept(work),
        crashing(
            "tests.executor.crashing", ledger, str(port), instant.value, str(KILLS)
        ) as process,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=30
        ) as client,
    ):
        load = Load(client, tmp_path, process)
        try:
            load.go_on()
            settled(load, work)
        except BaseException as error:
            error.add_note((tmp_path / "err.txt").read_text(encoding="utf-8")[-6_000:])
            raise
        check(load, work, instant)
        end(process, tmp_path)
        # No service is running, and they continue.
        assert at_work(work)[0] == {f"steady-{n}": 1 for n in range(STEADY)}
        check_ledger(ledger)


def check(load: Load, work: Path, instant: Instant) -> None:
    """Compare the processes with what the jobs themselves have written."""
    found = [place for (place,) in deaths(load.folder)]
    assert len(found) == KILLS
    assert set(found) == set(PLACES[instant])
    assert load.cut_off >= KILLS // 2
    phases = load.phases()
    assert phases.keys() == set(load.names)
    steady = {name for name in phases if name.startswith("steady-")}
    assert {phases[name] for name in steady} == {"Running"}
    ranks, keepers = at_work(work)
    # No process has no lease, and no lease has no process.
    assert ranks == dict.fromkeys(steady, 1)
    assert keepers == dict.fromkeys(steady, 1)
    assert not (load.folder / "twice").exists()
    starts = [line.split() for line in (load.folder / "starts").read_text().splitlines()]
    times = Counter((run, rank) for run, rank, _, _ in starts)
    assert set(times.values()) == {1}
    assert {generation for _, _, generation, _ in starts} == {"1"}
    for name, phase in phases.items():
        if name.startswith("quick-"):
            assert phase == "Completed", name
            assert (times[name, "0"], times[name, "1"]) == (1, 1)
        elif name.startswith("held-"):
            assert phase == "Cancelled", name
    # Runs that never stopped still have their first processes.
    for run, _, _, pid in starts:
        if run in steady:
            assert environ(int(pid)).get("QUORATE_RUN") == run


def check_ledger(ledger: Path) -> None:
    """Verify the ledger, and check that its open leases are those of running work."""
    verify(ledger)
    with SqliteStore.read(ledger) as store:
        view = Engine.open(store, SystemClock()).view
        running = {name for name, run in view.runs.items() if run.phase is Phase.RUNNING}
        assert {lease.fact.run for lease in view.leases.values()} == running
        assert all(lease.ending is None for lease in view.leases.values())
        assert len(running) == STEADY
