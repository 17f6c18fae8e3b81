"""A service stops deciding after a step of its clock or a violated invariant."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import local
from typing import Any, TypeVar

import httpx
import pytest
from msgspec.structs import replace

from quorate.adapters.clock_guard import STEP_MS_MAX, clock_path
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.signing import file_signer
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.ports.clock_port import Steady
from quorate.service.auth.authenticator import Authenticator
from quorate.service.daemon import Extras
from quorate.service.ledger_thread import LedgerThread
from quorate.service.service_log import JsonFormatter, TextFormatter
from quorate.service.violations import evidence_path
from tests.bounds import WAIT_S
from tests.service.conftest import documents_of
from tests.service.serving import Served, new_ledger, serving
from tests.service.worlds import run_tree

T = TypeVar("T")
STEPPED = 45 * DAY_MS


@dataclass
class SteeredClock:
    """The system's clocks, each shifted as a test says.

    A service reads one clock after the other, on separate threads; a test that advances both clocks
    does so between such reads.
    """

    step_ms: int = 0
    passed_ms: int = 0
    boot: str = "boot-1"
    system: SystemClock = field(default_factory=SystemClock)
    _read: local = field(default_factory=local)

    def now_ms(self) -> int:
        self._read.passed_ms = passed_ms = self.passed_ms
        return self.system.now_ms() + passed_ms + self.step_ms

    def steady(self) -> Steady:
        passed_ms = self._read.__dict__.pop("passed_ms", self.passed_ms)
        return Steady(self.boot, self.system.steady().ms + passed_ms)


class Inside:
    """Access to the ledger thread of a service."""

    def __init__(self) -> None:
        self._ledger_thread: LedgerThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def surface(
        self, ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        del authenticator
        self._ledger_thread, self._loop = ledger_thread, asyncio.get_running_loop()
        yield "the inside, for a test"

    def run(self, do: Callable[[Engine], T]) -> T:
        assert self._ledger_thread is not None
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._ledger_thread.run(do), self._loop).result(
            WAIT_S
        )


def extras(ledger: Path, clock: SteeredClock, inside: Inside | None = None) -> Extras:
    surfaces = [] if inside is None else [inside.surface]
    return Extras(signer=file_signer(ledger), clock=clock, surfaces=surfaces)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return new_ledger(tmp_path)


@contextmanager
def begin(served: Served) -> Iterator[httpx.Client]:
    """Apply a fleet, teams and one run to a service; yield a client of its admin."""
    with served.client(served.token) as client:
        body = {"documents": documents_of("fleet.yaml", "teams.yaml")}
        assert client.post("/api/v1/apply", json=body).status_code == 200
        assert submit(client, "train").status_code == 200
        yield client


def submit(client: httpx.Client, name: str, gpus: int = 4) -> httpx.Response:
    return client.post("/api/v1/runs", json={"document": run_tree(name, "rai", gpus=gpus)})


def last_event_ms(ledger: Path) -> int:
    with SqliteStore.read(ledger) as store:
        return max(event.at_ms for _, events in open_blocks(store.blocks()) for event in events)


def phase(client: httpx.Client, run: str) -> str:
    answer = client.get(f"/api/v1/runs/{run}")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["status"]["phase"])


def assert_stopped(client: httpx.Client, said: str) -> None:
    """Check that no command is decided, and that reads are answered."""
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert "nothing is decided" in ready.text
    assert said in ready.text
    refused = submit(client, "late")
    assert refused.status_code == 503, refused.text
    assert said in refused.text
    assert phase(client, "train") == "Running"


@pytest.mark.parametrize("step_ms", [STEPPED, -STEPPED, 2 * STEP_MS_MAX])
def test_step_of_the_wall_clock_stops_deciding_until_an_admin_accepts(
    ledger: Path, step_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteeredClock()
    with serving(ledger, extras=extras(ledger, clock)) as served, begin(served) as client:
        before_ms = last_event_ms(ledger)
        clock.step_ms = step_ms
        assert_stopped(client, "quorate admin clock accept")
        assert "deciding is stopped: the wall clock shows" in caplog.text
        clock.step_ms = 0
        # The clock was wrong and is right again: an operator has to confirm this, too.
        assert_stopped(client, "quorate admin clock accept")
        shown = client.get("/api/v1/clock").json()
        assert (shown["deciding"], abs(shown["stepMs"]) < STEP_MS_MAX) == (False, True)
        accepted = client.post("/api/v1/clock")
        assert accepted.status_code == 200, accepted.text
        assert accepted.json()["deciding"] is True
        assert client.get("/readyz").status_code == 200
        assert submit(client, "after").status_code == 200
        assert phase(client, "train") == "Running"
    assert last_event_ms(ledger) - before_ms < HOUR_MS


def test_time_that_passes_on_both_clocks_stops_nothing(ledger: Path) -> None:
    clock = SteeredClock()
    with serving(ledger, extras=extras(ledger, clock)) as served, begin(served) as client:
        clock.passed_ms = HOUR_MS
        assert client.get("/readyz").status_code == 200
        clock.step_ms = STEP_MS_MAX - 60_000
        assert submit(client, "after").status_code == 200


@pytest.mark.parametrize(
    ("boot", "step_ms", "is_stopped"),
    [
        ("boot-1", STEPPED, True),
        ("boot-1", -STEPPED, True),
        ("boot-1", 0, False),
        ("boot-2", -STEPPED, True),
        # A machine that was switched off for long looks the same.
        ("boot-2", STEPPED, False),
    ],
)
def test_step_between_two_starts_stops_deciding(
    ledger: Path, boot: str, step_ms: int, *, is_stopped: bool
) -> None:
    clock = SteeredClock()
    with serving(ledger, extras=extras(ledger, clock)) as served:
        token = served.token
        with begin(served):
            pass
    clock.boot, clock.step_ms = boot, step_ms
    started = Served(ledger, {}, extras(ledger, clock))
    start(started)
    try:
        with started.client(token) as client:
            if not is_stopped:
                assert client.get("/readyz").status_code == 200
                return
            assert_stopped(client, "quorate admin clock accept")
    finally:
        started.stop()
    # After another start, on another boot and with a right clock, the service is still stopped.
    clock.boot, clock.step_ms = "boot-3", 0
    again = Served(ledger, {}, extras(ledger, clock))
    start(again)
    try:
        with again.client(token) as client:
            assert_stopped(client, "quorate admin clock accept")
            assert client.post("/api/v1/clock").status_code == 200
            assert submit(client, "after").status_code == 200
    finally:
        again.stop()


def start(served: Served) -> None:
    """Return when the service listens, ready or not."""
    try:
        served.start()
    except AssertionError:
        assert served.address is not None


def test_clock_behind_the_ledger_is_accepted_once(ledger: Path) -> None:
    clock = SteeredClock()
    with serving(ledger, extras=extras(ledger, clock)) as served:
        token = served.token
        with begin(served):
            pass
    clock_path(ledger).unlink()
    clock.step_ms = -STEPPED
    for is_stopped in (True, False):
        started = Served(ledger, {}, extras(ledger, clock))
        start(started)
        try:
            with started.client(token) as client:
                if is_stopped:
                    assert_stopped(client, "from the ledger's last event")
                    assert client.post("/api/v1/clock").status_code == 200
                assert submit(client, f"run-{is_stopped}").status_code == 200
        finally:
            started.stop()


def test_violation_stops_deciding_and_keeps_its_evidence(
    ledger: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside, clock = Inside(), SteeredClock()

    def corrupt(engine: Engine) -> None:
        """Change the lease of a run to the whole node, like a bug of Quorate."""
        for lease in engine.view.leases.values():
            slots = tuple((node, 0xFF) for node, _ in lease.fact.slots)
            lease.fact = replace(lease.fact, slots=slots)

    with serving(ledger, extras=extras(ledger, clock, inside)) as served, begin(served) as client:
        token = served.token
        inside.run(corrupt)
        # This run shares the node with the first one, so its decision is not recorded.
        broken = submit(client, "second")
        assert broken.status_code == 503, broken.text
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert "an invariant would not hold after sequence" in ready.text
        refused = submit(client, "third")
        assert refused.status_code == 503, refused.text
        assert client.get("/api/v1/runs/second").status_code == 404
        assert client.get("/api/v1/ledger/verification").status_code == 200
    assert "deciding is stopped: an invariant" in caplog.text
    evidence = json.loads(evidence_path(ledger).read_text(encoding="utf-8"))
    assert "I1" in evidence["violations"][0]
    assert evidence["events"][0]["tag"] == "run-submitted/1"
    assert evidence["recorded"] is False
    with SqliteStore.read(ledger) as store:
        assert evidence["head"]["hash"] == store.head().hash.hex()
    again = Served(ledger, {}, extras(ledger, clock))
    start(again)
    try:
        with again.client(token) as client:
            assert_stopped(client, "did not hold before this start")
    finally:
        again.stop()
    evidence_path(ledger).unlink()
    with serving(ledger, extras=extras(ledger, clock)) as served, served.client(token) as client:
        assert submit(client, "fourth").status_code == 200


def test_resolver_decisions_are_in_the_log_of_the_service(
    ledger: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteeredClock()
    with (
        caplog.at_level(logging.INFO, logger="quorate.loop.resolver_log"),
        serving(ledger, extras=extras(ledger, clock)) as served,
        begin(served) as client,
    ):
        clock.passed_ms += 2 * HOUR_MS
        body: dict[str, Any] = {"pool": "default", "flavor": "H100", "deficit": 4}
        answer = client.post("/api/v1/resolver/conflicts", json=body)
        assert answer.status_code == 200, answer.text
        clock.passed_ms += HOUR_MS
        assert client.post("/api/v1/tick").status_code == 200
    found = [r for r in caplog.records if r.name == "quorate.loop.resolver_log"]
    assert [r.getMessage() for r in found] == [
        "resolver: conflict declared",
        "resolver: conflict settled",
    ]
    tree = json.loads(JsonFormatter().format(found[1]))
    assert tree["scope"] == {"pool": "default", "flavor": "H100", "domains": [], "limit": ""}
    assert tree["deficit"] == body["deficit"]
    assert len(tree["seed"]) == 64
    assert [cut["run"] for cut in tree["cut"]] == ["train"]
    assert tree["drawn"] == [{"owner": "rai", "run": "train", "spared": False}]
    line = TextFormatter().format(found[1])
    assert f"seed={tree['seed']}" in line
    assert '"run":"train"' in line
