"""The metrics of a service show its requests, refusals, commits and watches."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.ledger.chain import Block, Head
from quorate.model.events import Outcome
from quorate.operations.resources import run_operations
from quorate.operations.table import OPERATIONS
from quorate.ports.errors import StoreError, StoreFullError
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config_values import Address
from quorate.service.daemon import Extras
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_shape import message_name
from quorate.service.grpc.grpc_surface import GrpcSettings, grpc_surface
from quorate.service.http.event_stream import WatchRegistry
from quorate.service.http.request_guard import Guard, Limits
from quorate.service.http.rest import SCRAPES_PER_S_MAX, Parts, application
from quorate.service.ledger_thread import LedgerThread
from quorate.service.metrics.metric_table import METRICS, Kind
from quorate.service.metrics.registry import CONTENT_TYPE
from tests.bounds import WAIT_S, until
from tests.service.conftest import Stage, documents_of
from tests.service.grpc_world import METHODS, document
from tests.service.serving import new_ledger, serving
from tests.service.worlds import ALICE, run_tree, small_ledger


class Samples:
    """A scrape, read as Prometheus reads it."""

    def __init__(self, text: str) -> None:
        self.families = {each.name: each for each in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Return a sample; a sample that does not exist is 0."""
        return self._values.get((f"quorate_{name}", tuple(sorted(labels.items()))), 0.0)

    def requests(self, operation: str, status_class: str, surface: str = "rest") -> float:
        labels = {"operation": operation, "status_class": status_class, "surface": surface}
        return self.value("requests_total", **labels)


def scraped(client: httpx.Client) -> Samples:
    found = client.get("/metrics")
    assert found.status_code == 200, found.text
    assert found.headers["content-type"] == CONTENT_TYPE
    return Samples(found.text)


def without_watchers(client: httpx.Client) -> Samples:
    """Return a scrape after all watches have ended, because a disconnect is noticed late.

    A watch is over when its request is over; its watcher has ended before.
    """

    def found() -> Samples | None:
        samples = scraped(client)
        under_way = [samples.value("requests_in_flight", surface=each) for each in ("rest", "grpc")]
        return samples if under_way == [1, 0] else None

    return until(found, "nothing but the scrape is under way")


def submit(client: httpx.Client, name: str, gpus: int = 4, **more: Any) -> httpx.Response:
    body = {"document": run_tree(name, "rai", gpus)}
    return client.post("/api/v1/runs", json=body, **more)


@contextmanager
def staged(folder: Path, extras: Extras | None = None, **flags: str) -> Iterator[Stage]:
    """Serve a ledger with the fleet and the teams of the examples."""
    given = {name.replace("_", "."): value for name, value in flags.items()}
    with (
        serving(new_ledger(folder), given, extras) as served,
        served.client(served.token) as admin,
    ):
        body = {"documents": documents_of("fleet.yaml", "teams.yaml")}
        assert admin.post("/api/v1/apply", json=body).status_code == 200
        yield Stage(served, admin, admin, admin, admin)


def test_every_number_is_what_was_done(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        client = stage.admin
        before = scraped(client)
        assert submit(client, "r1").status_code == 200
        assert submit(client, "r1", gpus=8).status_code == 409
        assert submit(client, "r2").status_code == 200
        assert submit(client, "r3", params={"dryRun": "true"}).status_code == 200
        assert client.post("/api/v1/runs/r2/cancel").status_code == 200
        assert client.get("/api/v1/nowhere").status_code == 404
        assert client.get("/api/v1/runs/nobody").status_code == 404
        after = scraped(client)
        end = client.get("/readyz").json()["sequence"]

    def more(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert more("runs_submitted_total") == 2
    assert more("runs_ended_total", outcome=Outcome.CANCELLED) == 1
    assert more("refusals_total", code="already-exists", where="door") == 1
    assert (after.requests("submit-run", "2xx"), after.requests("submit-run", "4xx")) == (3, 1)
    assert after.requests("cancel-run", "2xx") == after.requests("get-run", "4xx") == 1
    assert after.requests("unknown", "4xx") == 1
    assert after.requests("metrics", "2xx") == 1, "the scrape itself is not over"
    one = {"operation": "submit-run", "surface": "rest"}
    assert after.value("request_seconds_count", **one) == 4
    assert more("commit_commands_count") == more("commit_commands_sum") == 3
    assert more("commit_seconds_count") == 3
    assert after.value("ledger_sequence") == end
    assert more("ledger_events_total") == more("ledger_sequence") > 0
    assert after.value("ledger_lag_seconds_count") > 0
    assert after.value("requests_in_flight", surface="rest") == 1, "the scrape"
    assert after.value("ready") == 1
    assert after.value("disk_free_bytes") > 0


def test_every_metric_of_the_table_is_told(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        found = scraped(stage.admin)
    for name, metric in METRICS.items():
        family = found.families[name.removesuffix("_total")]
        assert family.type == metric.kind.value, name
        assert (family.documentation == metric.help) or metric.kind is Kind.COUNTER, name


def test_watches_are_counted_while_they_are_open(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        with (
            stage.served.client(stage.served.token) as other,
            other.stream("GET", "/api/v1/watch") as answer,
        ):
            lines = answer.iter_lines()
            next(lines)
            found = scraped(stage.admin)
            assert found.value("watchers") == 1
            assert found.value("requests_in_flight", surface="rest") == 2
        found = without_watchers(stage.admin)
        assert found.value("watchers") == 0
        assert found.value("watchers_dropped_total") == 0
        assert found.requests("watch-events", "2xx") == 1


def test_metrics_are_for_those_who_oversee(stage: Stage) -> None:
    for client, status in ((stage.admin, 200), (stage.auditor, 200), (stage.user, 403)):
        assert client.get("/metrics").status_code == status
    with stage.served.client(None) as nobody:
        assert nobody.get("/metrics").status_code == 401


def test_public_metrics_need_no_token_and_are_not_told_too_often(tmp_path: Path) -> None:
    with staged(tmp_path, metrics_public="true") as stage, stage.served.client(None) as nobody:
        assert scraped(nobody).value("tenants") > 0
        assert nobody.get("/api/v1/runs").status_code == 401
        until(lambda: 429 in at_once(stage, 10 * SCRAPES_PER_S_MAX), "some are refused", every_s=0)
        until(lambda: nobody.get("/metrics").status_code == 200, "it may be scraped again")


def at_once(stage: Stage, scrapes: int) -> set[int]:
    """Return the statuses of ``scrapes`` scrapes sent at once, however slow this client is."""
    scrape = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
    last = scrape + b"Connection: close\r\n\r\n"
    found = stage.served.raw((scrape + b"\r\n") * (scrapes - 1) + last)
    return {int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", found)}


class Failing(MemoryStore):
    """A store that refuses appends or cannot be read when a test says so."""

    is_full = False
    is_unreadable = False

    def append(self, block: Block, *, expected: Head) -> None:
        if self.is_full:
            raise StoreFullError("the disk is full; make room")
        super().append(block, expected=expected)

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        if self.is_unreadable:
            raise StoreError("the disk is gone")
        return super().blocks(from_height=from_height)


def test_what_the_store_does_not_take_is_counted_and_nothing_else_is() -> None:
    async def scenario() -> Samples:
        store = Failing()
        ledger_thread = LedgerThread(lambda: small_ledger(store))
        await ledger_thread.start()
        operations = (OPERATIONS["submit-run"], OPERATIONS["cancel-run"])
        submit_run, cancel = operations
        await ledger_thread.ask(
            ALICE, submit_run, run_operations.SubmitRun(document=run_tree("r1"))
        )
        store.is_full = True
        with pytest.raises(StoreFullError):
            await ledger_thread.ask(
                ALICE, submit_run, run_operations.SubmitRun(document=run_tree("r2"))
            )
        with pytest.raises(StoreFullError):
            await ledger_thread.ask(ALICE, cancel, run_operations.EndRun(run="r1"))
        store.is_full = False
        text = ledger_thread.metrics.render(())
        await ledger_thread.stop()
        return Samples(text.decode())

    found = asyncio.run(scenario())
    assert found.value("commit_failures_total") == 2
    assert found.value("commit_commands_count") == 1


def test_events_that_could_not_be_read_back_are_counted_with_the_next_ones() -> None:
    async def scenario() -> Samples:
        store = Failing()
        ledger_thread = LedgerThread(lambda: small_ledger(store))
        await ledger_thread.start()
        submit_run = OPERATIONS["submit-run"]
        store.is_unreadable = True
        await ledger_thread.ask(
            ALICE, submit_run, run_operations.SubmitRun(document=run_tree("r1"))
        )
        assert Samples(ledger_thread.metrics.render(()).decode()).value("runs_submitted_total") == 0
        store.is_unreadable = False
        await ledger_thread.ask(
            ALICE, submit_run, run_operations.SubmitRun(document=run_tree("r2"))
        )
        text = ledger_thread.metrics.render(())
        await ledger_thread.stop()
        return Samples(text.decode())

    assert asyncio.run(scenario()).value("runs_submitted_total") == 2


def test_a_ledger_that_cannot_be_read_is_told_as_not_ready() -> None:
    async def scenario() -> tuple[Samples, Samples]:
        store = Failing()
        ledger_thread = LedgerThread(lambda: small_ledger(store))
        await ledger_thread.start()
        parts = Parts(
            ledger_thread=ledger_thread,
            authenticator=Authenticator(ledger_thread.token, SystemClock()),
            requests_per_s_max=100,
            concurrent_max=100,
            watchers=WatchRegistry(ledger_thread, heartbeat_s=15),
            has_public_metrics=True,
        )
        limits = Limits(
            body_bytes_max=1_000, header_bytes_max=1_000, concurrent_max=10, slow_s_max=10
        )
        app = httpx.ASGITransport(app=Guard(application(parts), limits, ledger_thread.metrics))
        async with httpx.AsyncClient(transport=app, base_url="http://test") as client:
            sound = Samples((await client.get("/metrics")).text)
            store.is_full = store.is_unreadable = True
            submit_run = OPERATIONS["submit-run"]
            with pytest.raises(StoreError):
                await ledger_thread.ask(
                    ALICE, submit_run, run_operations.SubmitRun(document=run_tree("r1"))
                )
            broken = Samples((await client.get("/metrics")).text)
        store.is_full = store.is_unreadable = False
        await ledger_thread.stop()
        return sound, broken

    sound, broken = asyncio.run(scenario())
    assert (sound.value("ready"), sound.value("tenants")) == (1, 3)
    assert broken.value("ready") == 0
    assert "quorate_tenants" not in broken.families
    assert broken.requests("metrics", "2xx") == 1


def test_submits_that_share_a_block_are_one_commit() -> None:
    async def scenario() -> Samples:
        ledger_thread = LedgerThread(small_ledger)
        await ledger_thread.start()
        wanted = [run_operations.SubmitRun(document=run_tree(f"r{number}")) for number in range(40)]
        operation = OPERATIONS["submit-run"]
        await asyncio.gather(*(ledger_thread.ask(ALICE, operation, each) for each in wanted))
        text = ledger_thread.metrics.render(())
        await ledger_thread.stop()
        return Samples(text.decode())

    found = asyncio.run(scenario())
    assert found.value("commit_commands_sum") == 40
    assert found.value("commit_commands_count") < 40
    assert found.value("runs_submitted_total") == 40


def _telling(told: list[str]) -> Extras:
    """Return a gRPC server that reports its address."""
    settings = GrpcSettings(
        listen=Address(host="127.0.0.1", port=0), requests_per_s_max=1_000, stop_s_max=1.0
    )
    surface = grpc_surface(settings)

    async def telling(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        async for where in surface(ledger_thread, authenticator):
            told.append(where.removeprefix("grpc://"))
            yield where

    return Extras(surfaces=[telling])


class Calls:
    """A client of gRPC."""

    def __init__(self, channel: grpc.Channel, token: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {token}"),)

    def __call__(self, name: str, **fields: Any) -> Any:
        method = METHODS[name]
        data = message_class(message_name(method.operation.takes))(**fields).SerializeToString()
        kind = self._channel.unary_stream if method.is_stream else self._channel.unary_unary
        return kind(method.path, bytes, bytes)(data, metadata=self._metadata, timeout=WAIT_S)


def test_calls_of_grpc_are_counted_with_the_status_of_rest(tmp_path: Path) -> None:
    told: list[str] = []
    with staged(tmp_path, _telling(told)) as stage, grpc.insecure_channel(told[0]) as channel:
        calls = Calls(channel, str(stage.served.token))
        calls("submit-run", document=document(run_tree("r1", "rai")))
        with pytest.raises(grpc.RpcError):
            calls("submit-run", document=document(run_tree("r1", "rai", 8)))
        with pytest.raises(grpc.RpcError):
            Calls(channel, "nobody")("whoami")
        watch = calls("watch-events", first=1)
        next(iter(watch))
        during = scraped(stage.admin)
        watch.cancel()
        after = without_watchers(stage.admin)
    assert during.value("watchers") == during.value("requests_in_flight", surface="grpc") == 1
    assert after.value("watchers") == 0
    assert after.requests("submit-run", "2xx", "grpc") == 1
    assert after.requests("submit-run", "4xx", "grpc") == 1
    assert after.requests("whoami", "4xx", "grpc") == 1
    assert after.requests("watch-events", "2xx", "grpc") == 1
    assert after.value("refusals_total", code="already-exists", where="door") == 1
    assert after.value("runs_submitted_total") == 1
