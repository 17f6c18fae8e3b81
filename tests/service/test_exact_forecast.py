"""An exact forecast can be requested over every interface, and a reader computes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from msgspec.structs import replace

from quorate import AsyncClient, Client
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.main import main
from quorate.cli.settings import Settings
from quorate.core.commands import Apply
from quorate.core.planning.foresight import EXACT_RUNS_MAX
from quorate.documents import render
from quorate.documents.emit import to_yaml
from quorate.documents.times import time_text
from quorate.loop.engine import Engine
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.specs import Owner, Run
from quorate.operations.answered_by import Place, place_of
from quorate.operations.ledger.plan_operations import AboutRun, PlanRuns
from quorate.operations.table import OPERATIONS
from quorate.service.config import configured
from quorate.service.daemon import Extras
from quorate.service.grpc.grpc_codec import write_struct
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import name_of, schema
from quorate.service.grpc.grpc_surface import configured_surface
from quorate.testing.builders import budget, envelope, fleet
from quorate.testing.memory_engines import HandClock
from tests.service.program import reserved_port
from tests.service.serving import Served, new_ledger, serving

METHODS: Final = {method.operation.name: method for method in schema().methods}
WAITING: Final = 24
LAST: Final = f"w{WAITING - 1:02d}"
"""The last run of the queue; the pool plans 20 runs."""


def _run(name: str) -> Run:
    return Run(
        name=name,
        owner="team",
        flavors=("H100",),
        gpus=16,
        user="u",
        expected_duration_ms=HOUR_MS,
        nonce=name,
    )


@dataclass(frozen=True)
class Both:
    """A service by REST and gRPC with a queue of one owner; ``clock`` does not advance."""

    served: Served
    grpc_address: str
    clock: HandClock
    folder: Path

    @property
    def token(self) -> str:
        assert self.served.token is not None
        return self.served.token

    def start_of(self, place: int) -> str:
        """Return the start of the run at ``place`` in the queue, from 0: each run takes an hour."""
        return time_text(self.clock.ms - 1_000 + (place + 1) * HOUR_MS)

    def call(self, name: str, question: AboutRun | PlanRuns) -> Any:
        """Return the answer of gRPC to ``question``."""
        method = METHODS[name]
        given = message_class(name_of(method.gives))
        with grpc.insecure_channel(self.grpc_address) as channel:
            call = channel.unary_unary(method.path, bytes, given.FromString)
            data = write_struct(question).SerializeToString()
            return call(data, metadata=(("authorization", f"Bearer {self.token}"),), timeout=60)

    def type(self, *words: str, code: int = 0) -> str:
        """Return the output of the command ``words``."""
        environ = {"QUORATE_SERVER": self.served.url, "QUORATE_TOKEN": self.token}
        with (
            chdir(self.folder),
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as err,
        ):
            assert main(words, Settings(environ=environ)) == code, err.getvalue()
        return out.getvalue() + err.getvalue()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("exact")
    ledger = new_ledger(folder)
    with SqliteStore.open(ledger) as store:
        clock = HandClock(Engine.open(store, HandClock()).recorded_ms + 1_000)
        engine = Engine.open(store, clock)
        names = ["running", *(f"w{number:02d}" for number in range(WAITING))]
        line = envelope("e", 16, start_ms=clock.ms, end_ms=clock.ms + 30 * DAY_MS)
        money = budget("b", "team", line)
        room = Apply((Owner(name="team"), *fleet({"A": 16}), money))
        for command in (room, Apply(tuple(map(_run, names)))):
            assert not engine.execute(command, actor="test").decision.refusals
    clock.ms += 1_000
    with reserved_port() as port:
        address = f"127.0.0.1:{port}"
        flags = {"grpc.listen": address}
        named = {"listen": "127.0.0.1:0", "ledger": str(ledger), **flags}
        surfaces = [configured_surface(configured(named, {}, None))]
        with serving(ledger, flags, Extras(clock=clock, surfaces=surfaces)) as served:
            yield Both(served, address, clock, folder)


REACHED: Final = {"reached": True, "runs": WAITING, "runsMax": EXACT_RUNS_MAX}


def test_rest_tells_the_exact_start_of_the_last_in_the_queue(both: Both) -> None:
    with both.served.client(both.token) as client:
        short = client.get(f"/api/v1/runs/{LAST}/plan").json()
        assert (short["planState"], short["exact"], short["plannedStart"]) == (
            "not-before",
            None,
            None,
        )
        found = client.get(f"/api/v1/runs/{LAST}/plan", params={"exact": "true"}).json()
        assert (found["planState"], found["exact"]) == ("tentative", REACHED)
        assert found["plannedStart"] == both.start_of(WAITING - 1)
        plan = client.get(f"/api/v1/runs/{LAST}/explanation?exact=true").json()["plan"]
        assert (plan["state"], plan["exact"]) == ("tentative", REACHED)
        assert plan["start"] == both.start_of(WAITING - 1)
        bad = client.get(f"/api/v1/runs/{LAST}/plan", params={"exact": "maybe"})
        assert bad.status_code == 400
        assert "exact" in bad.json()["detail"]


def test_rest_plans_one_new_run_exactly_and_refuses_several(both: Both) -> None:
    trees = [render(_run(name)) for name in ("new1", "new2")]
    with both.served.client(both.token) as client:
        body = {"documents": trees[:1], "exact": True}
        found = client.post("/api/v1/plan", json=body).json()
        assert (found["planState"], found["plannedStart"]) == (
            "tentative",
            both.start_of(WAITING),
        )
        refused = client.post("/api/v1/plan", json={"documents": trees, "exact": True})
        assert refused.status_code == 422
        assert "exact is for one run, but documents has 2" in refused.json()["detail"]


def test_grpc_tells_the_exact_start(both: Both) -> None:
    found = both.call("plan-run", AboutRun(run=LAST, exact=True))
    assert (found.plan_state, found.planned_start) == ("tentative", both.start_of(WAITING - 1))
    assert dict(found.exact) == REACHED
    told = both.call("explain-run", AboutRun(run=LAST, exact=True))
    assert told.plan["start"] == both.start_of(WAITING - 1)
    new = both.call("plan-runs", PlanRuns(documents=(render(_run("new")),), exact=True))
    assert both.start_of(WAITING) in str(new)


def test_clients_tell_the_exact_start(both: Both) -> None:
    async def ask() -> tuple[Any, Any]:
        async with AsyncClient(both.served.url, token=both.token) as client:
            handle = client.run(LAST)
            return await handle.plan(exact=True), await handle.explain(exact=True)

    with Client(both.served.url, token=both.token) as client:
        handle = client.run(LAST)
        answers = [(handle.plan(exact=True), handle.explain(exact=True)), asyncio.run(ask())]
        assert handle.plan().plan_state == "not-before"
        (new,) = [client.plan_runs([render(_run("new"))], exact=True)]
    for plan, explained in answers:
        assert (plan.plan_state, plan.planned_start) == (
            "tentative",
            both.start_of(WAITING - 1),
        )
        assert explained.plan["start"] == both.start_of(WAITING - 1)
    assert not isinstance(new, tuple)
    assert new.planned_start == both.start_of(WAITING)


def test_command_line_tells_the_exact_start_and_how_to_ask_for_it(both: Both) -> None:
    short = both.type("plan", LAST)
    assert "it starts not before" in short
    assert f"in the present queue: quorate plan {LAST} --exact" in short
    assert f"quorate plan {LAST} --exact" in both.type("explain", LAST)
    text = both.type("plan", LAST, "--exact")
    assert "it has a tentative start" in text
    assert both.start_of(WAITING - 1) in text
    assert f"for this answer all {WAITING - 1} runs before it were planned, too" in text
    assert "it has a tentative start" in both.type("explain", LAST, "--exact")
    tree = json.loads(both.type("plan", LAST, "--exact", "-o", "json"))
    assert tree["exact"] == REACHED
    (both.folder / "new.yaml").write_text(to_yaml(render(_run("new"))), encoding="utf-8")
    new = both.type("plan", "-f", "new.yaml", "--dry-run", "--exact")
    assert both.start_of(WAITING) in new


def test_start_is_named_firm_tentative_or_none_wherever_it_is_told(both: Both) -> None:
    """``submit``, ``plan``, ``queue`` and ``explain`` show the same for one run."""
    queue = both.type("queue", "--limit", "30")
    for name, word in (("w00", "firm"), ("w05", "tentative"), (LAST, "not before")):
        assert word in both.type("plan", name)
        assert word in both.type("explain", name)
        (line,) = [line for line in queue.splitlines() if name in line]
        assert ("not planned" if name == LAST else word) in line
    never = render(replace(_run("never"), gpus=32))
    (both.folder / "never.yaml").write_text(to_yaml(never), encoding="utf-8")
    said = both.type("submit", "-f", "never.yaml", "--dry-run")
    assert "has no planned start" in said
    assert "waiting alone will not help" in both.type("plan", "-f", "never.yaml", "--dry-run")
    (both.folder / "new.yaml").write_text(to_yaml(render(_run("new"))), encoding="utf-8")
    assert "starts not before" in both.type("submit", "-f", "new.yaml", "--dry-run")


@pytest.mark.parametrize("name", ["plan-run", "explain-run"])
def test_exact_forecast_is_answered_by_a_reader(name: str) -> None:
    assert place_of(OPERATIONS[name], AboutRun(run="r", exact=True)) is Place.QUEUE
