"""A caller that disconnects before the answer gets none; its writes are recorded."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from threading import Event

import pytest
from msgspec.structs import replace

from quorate.loop.engine import Engine
from quorate.operations.answer_types import Answer
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.resources import resource_operations
from quorate.operations.table import OPERATIONS
from quorate.service.ledger_thread import LedgerThread
from quorate.service.request_log import Handled
from tests.bounds import WAIT_S, until, until_async
from tests.service.held import held_service
from tests.service.stopping import stopped_readers
from tests.service.worlds import ADMIN, small_ledger

ASKED: list[str] = []


def noted(context: RequestContext, asked: object, operation: Operation) -> Answer:
    """Note that a request was answered."""
    del context, asked, operation
    ASKED.append("answered")
    return Answer(tree=dict, lines=lambda _: [])


def test_a_question_that_nobody_waits_for_is_not_answered() -> None:
    operation = replace(OPERATIONS["list-runs"], handler=f"{__name__}:noted")

    async def scenario() -> None:
        ledger_thread = LedgerThread(small_ledger)
        await ledger_thread.start()
        let_go = Event()
        busy = asyncio.create_task(ledger_thread.run(lambda _: let_go.wait(WAIT_S)))
        asking = [
            asyncio.create_task(ledger_thread.ask(ADMIN, operation, resource_operations.ListRuns()))
            for _ in range(2)
        ]
        await until_async(lambda: ledger_thread.waiting == 2, "both wait behind what is busy")
        asking[0].cancel()
        await asyncio.sleep(0)
        let_go.set()
        await asyncio.gather(busy, asking[1])
        await ledger_thread.stop()

    ASKED.clear()
    asyncio.run(scenario())
    assert ASKED == ["answered"]


def test_those_who_have_gone_do_not_count_as_waiting() -> None:
    async def scenario() -> None:
        ledger_thread = LedgerThread(small_ledger, waiting_max=2)
        await ledger_thread.start()
        begun, let_go = Event(), Event()

        def hold(_: Engine) -> None:
            begun.set()
            assert let_go.wait(WAIT_S)

        busy = asyncio.create_task(ledger_thread.run(hold))
        await until_async(begun.is_set, "the ledger's thread is busy")
        gone = [asyncio.create_task(ledger_thread.run(lambda _: None)) for _ in range(2)]
        await asyncio.sleep(0)
        for each in gone:
            each.cancel()
        await asyncio.sleep(0)
        height = asyncio.create_task(ledger_thread.run(lambda engine: engine.head.height))
        await asyncio.sleep(0)
        let_go.set()
        assert await height == 2
        await busy
        await ledger_thread.stop()

    asyncio.run(scenario())


def _ended(caplog: pytest.LogCaptureFixture, operation: str) -> list[int]:
    """Return the statuses of the finished requests for ``operation``."""
    told = [getattr(record, "handled", None) for record in caplog.records]
    return [
        each.status for each in told if isinstance(each, Handled) and each.operation == operation
    ]


def test_a_read_ends_with_whoever_asked_and_a_write_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with held_service(tmp_path) as held:
        held.hold.set()
        with held.served.connect() as first, held.served.connect() as waiting:
            first.sendall(held.submit("first"))
            assert held.entered.wait(WAIT_S)
            waiting.sendall(held.submit("second"))
            with held.served.client(held.served.token) as client:
                assert client.get("/api/v1/runs").status_code == 200  # The readers have started.
            until(lambda: _ended(caplog, "list-runs") == [200], "that is logged")
            caplog.clear()
            with stopped_readers():
                with held.served.connect() as reading:
                    reading.sendall(held.head("GET /api/v1/runs"))
                    until(lambda: held.served.under_way() == 3, "the read is under way")
                    assert _ended(caplog, "list-runs") == []
                # Ledger thread and readers are still busy, and the caller has disconnected.
                until(lambda: _ended(caplog, "list-runs") == [499], "the read is over")
            assert _ended(caplog, "submit-run") == []
        assert not held.let_go.is_set()
        held.let_go.set()
        with held.served.client(held.served.token) as client:

            def names() -> list[str]:
                runs = client.get("/api/v1/runs").json()["items"]
                return [each["metadata"]["name"] for each in runs]

            # No caller waited for an answer, so this read may come before the writes.
            until(lambda: names() == ["first", "second"], "both runs are there")


def test_a_scrape_ends_with_whoever_asked_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with held_service(tmp_path) as held:
        held.hold.set()
        with held.served.connect() as first:
            first.sendall(held.submit("first"))
            assert held.entered.wait(WAIT_S)
            with held.served.connect() as reading:
                reading.sendall(held.head("GET /metrics"))
                until(lambda: held.served.ledger_thread.waiting == 1, "the scrape waits")
            until(lambda: _ended(caplog, "metrics") == [499], "the scrape is over")
            held.let_go.set()
