"""The service linked to Waldur: killed, restarted, and changed by Waldur."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import httpx
import pytest

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.head_file import head_path
from quorate.adapters.stores.outbox_sqlite import outbox_path
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.signing import file_signer
from quorate.core.commands import Apply
from quorate.ledger.chain import GENESIS, open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import DAY_MS
from quorate.model.events import BudgetReported, OwnerApplied
from quorate.model.events import Event as Fact
from quorate.model.specs import Owner, Quota
from quorate.service.accounting.consumption import HUNDREDTH_MS
from quorate.service.accounting.waldur_thread import linked_surface
from quorate.service.config import configured
from quorate.service.daemon import Extras
from quorate.testing.builders import budget, envelope, fleet
from tests.bounds import WAIT_S, until
from tests.oracles.accounts import CHEMISTRY, PHYSICS, truth
from tests.oracles.effort import sized
from tests.service.program import Program
from tests.service.serving import Served, new_ledger
from tests.waldur.server import TOKEN, Waldur, gone, held, month_of, new_waldur, waldur_served

KILLS = sized(1, 3)


class Serve:
    """A service in a folder, linked to a Waldur; it may be stopped and restarted.

    ``has_process``: it is a separate process, which may be killed. It loads Waldur's client at each
    start, which takes seconds.
    """

    def __init__(self, folder: Path, url: str, *, has_process: bool) -> None:
        self._has_process = has_process
        self.ledger = new_ledger(folder)
        secret = folder / "waldur.token"
        secret.touch(mode=0o600)
        secret.write_text(TOKEN + "\n", encoding="utf-8")
        self.config = folder / "quorate.toml"
        self._url, self._secret = url, secret
        self.configure()
        self.program: Program | None = None
        self.served: Served | None = None
        self.url = self.admin = ""
        self._declare()

    def configure(self, stale_s: int = 600) -> None:
        """Write the configuration; an answer is valid for ``stale_s``."""
        self.config.write_text(
            f"""
            listen = "127.0.0.1:0"
            ledger = "{self.ledger}"
            [waldur]
            url = "{self._url}"
            token_file = "{self._secret}"
            timeout_s = 60
            refresh_s = 1
            stale_s = {stale_s}
            report_s = 1
            [waldur.links.physics]
            resource = "{PHYSICS.resource}"
            gpu_hours = "gpu"
            node_hours = "node"
            [waldur.links.chemistry]
            resource = "{CHEMISTRY.resource}"
            gpu_hours = "gpu"
            """,
            encoding="utf-8",
        )

    def _declare(self) -> None:
        now_ms = SystemClock().now_ms()
        money = envelope("e", 512, start_ms=now_ms - DAY_MS, end_ms=now_ms + 900 * DAY_MS)
        names = ("physics", "chemistry", "loner")
        engine = Engine.open(SqliteStore.open(self.ledger), SystemClock())
        declared = Apply(
            (
                *fleet({"A": 512}),
                *(Owner(name=n, quota=Quota(nodes_max=64)) for n in names),
                *(budget(n, n, money) for n in names),
            )
        )
        assert not engine.execute(declared, actor="test").decision.refusals
        engine.close()

    def start(self) -> None:
        """Return when the service answers."""
        if self._has_process:
            self.program = Program(self.ledger.parent, "--config", str(self.config))
            self.url = self.program.wait_ready()
            self.admin = self.admin or self.program.token
            return
        file, clock = str(self.config), SystemClock()
        link = linked_surface(configured({}, {}, file), clock)
        extras = Extras(signer=file_signer(self.ledger), clock=clock, surfaces=[link])
        self.served = Served(self.ledger, {}, extras, file)
        self.served.start()
        self.url = self.served.url
        self.admin = self.admin or self.served.token or ""

    def kill(self) -> None:
        """Kill the service."""
        assert self.program is not None
        self.program.end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the service like a supervisor."""
        assert self.served is not None
        self.served.stop()
        self.served = None

    def wait_for(self, look: Callable[[], object]) -> None:
        """Return as soon as ``look`` returns something true; fail if the service has ended."""
        program = self.program
        until(
            look,
            "it comes to that",
            2 * WAIT_S,
            server=None if program is None else program.process,
            every_s=0.2,  # A look may read the whole ledger.
            tell=lambda: "" if program is None else program.err,
        )

    def clear(self) -> None:
        """End it, whatever state it is in."""
        if self.program is not None:
            self.program.clear()
        if self.served is not None:
            self.served.stop()

    def ask(self, method: str, path: str, token: str = "", **more: Any) -> httpx.Response:
        """Return the answer to a request."""
        headers = {"Authorization": f"Bearer {token or self.admin}"} | more.pop("headers", {})
        url = f"{self.url}/api/v1{path}"
        return httpx.request(method, url, headers=headers, timeout=60, trust_env=False, **more)

    def metrics(self) -> str:
        """Return its metrics."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        found = httpx.get(f"{self.url}/metrics", headers=headers, trust_env=False, timeout=WAIT_S)
        return found.text

    def submit(self, name: str, owner: str, gpus: int) -> None:
        """Submit a run that starts at once."""
        body = {
            "apiVersion": "quorate.dev/v1",
            "kind": "Run",
            "metadata": {"name": name},
            "spec": {
                "owner": owner,
                "resources": {"gpuType": "H100", "totalGPUs": gpus},
                "runtime": {"expectedDuration": "10h"},
            },
        }
        found = self.ask("POST", "/apply", json={"documents": [body]})
        assert found.status_code == 200, found.text

    def events(self) -> list[Fact]:
        """Return all events of the ledger."""
        with SqliteStore.read(self.ledger) as store:
            blocks = store.blocks()
            return [event for _, found in open_blocks(blocks, after=GENESIS) for event in found]


@pytest.fixture
def waldur() -> Waldur:
    found = new_waldur()
    found.month = month_of(SystemClock().now_ms())
    return found


@contextmanager
def linked(waldur: Waldur, folder: Path, *, has_process: bool) -> Iterator[Serve]:
    """Serve a ledger in ``folder`` that is linked to ``waldur``."""
    with waldur_served(waldur) as url:
        found = Serve(folder, url, has_process=has_process)
        try:
            found.start()
            yield found
        finally:
            found.clear()


@pytest.fixture
def serve(waldur: Waldur, tmp_path: Path) -> Iterator[Serve]:
    with linked(waldur, tmp_path, has_process=False) as found:
        yield found


@pytest.fixture
def process(waldur: Waldur, tmp_path: Path) -> Iterator[Serve]:
    with linked(waldur, tmp_path, has_process=True) as found:
        yield found


@pytest.mark.soak
def test_killed_between_send_and_acknowledge_it_tells_everything_once(
    process: Serve, waldur: Waldur
) -> None:
    serve = process
    serve.submit("big", "physics", 512)
    serve.wait_for(lambda: waldur.told)
    for _ in range(KILLS):
        until, told = Event(), len(waldur.told)
        waldur.fault_after = held(until, "POST")
        serve.wait_for(lambda told=told: len(waldur.told) > told)  # type: ignore[misc]
        # Waldur has the amount, but the service does not know that.
        serve.kill()
        waldur.fault_after = None
        until.set()
        serve.start()
    assert serve.ask("POST", "/runs/big/complete", json={}).status_code == 200
    now_ms = SystemClock().now_ms()
    expected = {
        (UUID(resource), component, month): Decimal(ms // HUNDREDTH_MS) / 100
        for (resource, component, month), ms in truth(
            serve.events(), (PHYSICS, CHEMISTRY), now_ms
        ).items()
    }
    assert sum(expected.values()) > 0
    serve.wait_for(lambda: waldur.usage == expected)
    asked = waldur.asked
    serve.wait_for(lambda: waldur.asked >= asked + 4)
    assert waldur.usage == expected, "it is asked for budgets again, and told nothing more"


def test_an_older_ledger_beside_the_outbox_is_said_in_the_status(
    serve: Serve, waldur: Waldur
) -> None:
    serve.wait_for(lambda: any(isinstance(e, BudgetReported) for e in serve.events()))
    serve.stop()
    older = serve.ledger.read_bytes()
    serve.start()
    serve.submit("r1", "physics", 64)
    serve.wait_for(lambda: waldur.told)
    serve.stop()
    serve.ledger.write_bytes(older)
    head_path(serve.ledger).unlink()
    told = dict(waldur.usage)
    serve.start()
    serve.wait_for(lambda: "has replaced it" in serve.ask("GET", "/accounting").json()["trouble"])
    assert "move the outbox away" in serve.ask("GET", "/accounting").json()["trouble"]
    assert waldur.usage == told
    serve.stop()
    outbox_path(serve.ledger).unlink()
    serve.start()
    serve.wait_for(lambda: serve.ask("GET", "/accounting").json()["waiting"] is not None)
    assert serve.ask("GET", "/accounting").json()["trouble"] == ""


def test_what_waldur_pushes_is_applied_once_under_its_identity(
    serve: Serve, waldur: Waldur
) -> None:
    del waldur
    serve.wait_for(lambda: any(isinstance(e, BudgetReported) for e in serve.events()))
    issued = serve.ask("POST", "/tokens", json={"role": "accounting", "user": "waldur"})
    token = issued.json()["token"]["secret"]
    pushed = {"max_nodes": 7, "gpu_hours_budget": 150}
    key = {"Idempotency-Key": "contract-17"}
    for headers in (key, key, {}):
        found = serve.ask("PUT", "/tenants/physics", token, json=pushed, headers=headers)
        assert found.status_code == 200, found.text
    applied = [e for e in serve.events() if isinstance(e, OwnerApplied) and e.actor == "waldur"]
    assert [(e.owner.name, e.owner.quota.nodes_max) for e in applied] == [("physics", 7)]
    for method, path, body in (
        ("PUT", "/tenants/loner", pushed),
        ("PUT", "/tenants/physics", {"fair_share_target": 0.5}),
        ("PUT", "/tenants/physics", {"parents": ["loner"]}),
        ("POST", "/tenants", {"id": "new"}),
        ("DELETE", "/tenants/physics", None),
        ("GET", "/runs", None),
        ("GET", "/ledger/export", None),
        ("POST", "/tokens", {"role": "admin", "user": "me"}),
    ):
        found = serve.ask(method, path, token, json=body)
        assert found.status_code in {403, 404}, (method, path, found.status_code, found.text)
    assert serve.ask("GET", "/tenants/physics", token).status_code == 200
    assert serve.ask("GET", "/tenants/loner", token).status_code == 404


def test_whose_figure_counts_is_shown_everywhere(serve: Serve, waldur: Waldur) -> None:
    def source() -> str:
        found = serve.ask("GET", "/tenants/physics/usage").json()["status"]
        return str(found["budget_source"])

    waldur.limits[PHYSICS_ID]["gpu"] = 250.0
    serve.wait_for(lambda: source() == "waldur")
    usage = serve.ask("GET", "/tenants/physics/usage").json()["status"]
    serve.wait_for(
        lambda: (
            serve.ask("GET", "/tenants/physics/usage").json()["status"]["gpu_hours_remaining"]
            == 250
        )
    )
    assert usage["budget_source_since"]
    told = serve.ask("GET", "/owners/physics").json()["status"]["budgetReport"]
    assert (told["source"], told["gpuHours"]) == ("waldur", {"granted": 250, "remaining": 250})
    lines = serve.ask("GET", "/owners/physics/description").text
    assert "waldur reports 250.00 of 250.00 GPU-hours" in lines
    serve.submit("small", "physics", 1)
    serve.wait_for(lambda: 'quorate_accounting_owners{source="accounting"} 2.0' in serve.metrics())
    serve.wait_for(lambda: serve.ask("GET", "/accounting").json()["waiting"] is not None)
    status = serve.ask("GET", "/accounting").json()
    assert [each["owner"] for each in status["items"]] == ["chemistry", "physics"]
    assert status["items"][1]["lastAnswer"]
    waldur.fault = gone
    serve.stop()
    serve.configure(stale_s=1)
    serve.start()
    serve.wait_for(lambda: source() == "ledger")
    assert serve.ask("GET", "/owners/physics").json()["status"]["budgetReport"]["note"]


PHYSICS_ID = UUID(PHYSICS.resource)
