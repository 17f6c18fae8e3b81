"""A stuck ledger thread is reported, and does not prevent the service from ending."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from select import select
from threading import Event

import httpx
import pytest

from quorate.loop.engine import Engine
from quorate.service.ledger_thread import LedgerThread
from quorate.service.watchdog import STUCK_S, Watchdog
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, until, until_async
from tests.service.held import Held, held_service
from tests.service.serving import read_all
from tests.service.worlds import small_ledger


def test_what_takes_too_long_is_told_with_its_name() -> None:
    now_s = 100.0
    pulse = Watchdog(lambda: now_s)
    assert pulse.trouble == ""
    pulse.begin("3 submits")
    now_s += STUCK_S
    assert pulse.trouble == ""
    now_s += 1.5
    assert pulse.trouble == "the ledger thread has been busy with 3 submits for 12 s"
    pulse.begin("due timers")
    assert pulse.trouble == ""
    now_s += 60
    pulse.rest()
    assert pulse.trouble == ""


def test_an_office_ends_though_its_thread_does_not() -> None:
    async def scenario() -> None:
        ledger_thread = LedgerThread(small_ledger)
        await ledger_thread.start()
        begun, let_go = Event(), Event()

        def hold(_: Engine) -> None:
            begun.set()
            assert let_go.wait(WAIT_S)

        busy = asyncio.create_task(ledger_thread.run(hold))
        await until_async(begun.is_set, "the ledger's thread is busy")
        with pytest.raises(CommandError, match="did not end within") as caught:
            await ledger_thread.stop(0.2)
        assert "every acknowledged command is recorded" in caught.value.lines[0]
        let_go.set()
        await busy
        await ledger_thread.stop()

    asyncio.run(scenario())


def test_a_service_whose_ledger_is_stuck_is_alive_and_not_ready(tmp_path: Path) -> None:
    with held_service(tmp_path) as held, held.served.client(None) as client:
        held.hold.set()
        with held.served.connect() as first:
            first.sendall(held.submit("first"))
            assert held.entered.wait(WAIT_S)
            ready = until(lambda: _readyz(client, 503), "not ready", STUCK_S + WAIT_S, every_s=0.2)
            assert ready.headers["retry-after"]
            said = "not ready: the ledger thread has been busy with submits for "
            assert ready.json()["detail"].startswith(said)
            assert client.get("/healthz").status_code == 200
            held.let_go.set()
            until(lambda: _readyz(client, 200), "it is ready again")


def _readyz(client: httpx.Client, status: int) -> httpx.Response | None:
    """Return the answer of ``/readyz`` if it has ``status``."""
    found = client.get("/readyz")
    return found if found.status_code == status else None


def test_write_given_up_at_the_end_may_be_recorded_and_is_not_called_unavailable(
    tmp_path: Path,
) -> None:
    held = Held(tmp_path, limits__stop_s="1")
    held.served.start()
    held.hold.set()
    try:
        with held.served.connect() as writing, held.served.connect() as reading:
            writing.sendall(held.head("POST /api/v1/tenants", b'{"id": "team"}'))
            assert held.entered.wait(WAIT_S)
            reading.sendall(held.head("GET /api/v1/runs"))
            until(lambda: select([reading], [], [], 0)[0], "the read is answered")
            held.served.daemon.stop()
            answers = [read_all(connection) for connection in (writing, reading)]
    finally:
        held.let_go.set()
        held.served.stop()
    head, _, body = answers[0].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 504 ")
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["code"] == "timed-out"
    assert b"the command may be recorded: check first, or repeat it" in body
    # A read does not wait for writes.
    assert answers[1].startswith(b"HTTP/1.1 200 ")


def test_a_service_ends_with_an_error_though_its_ledger_is_stuck(tmp_path: Path) -> None:
    held = Held(tmp_path, limits__stop_s="1")
    held.served.start()
    held.hold.set()
    try:
        with held.served.connect() as first:
            first.sendall(held.head("POST /api/v1/tenants", b'{"id": "team"}'))
            assert held.entered.wait(WAIT_S)
            with pytest.raises(CommandError, match="the ledger thread did not end within 10 s"):
                held.served.stop()
            assert not held.let_go.is_set()
    finally:
        held.let_go.set()
        # The thread still logs something, which must not appear in the next test.
        thread = held.served.ledger_thread._thread
        assert thread is not None
        thread.join(WAIT_S)
        assert not thread.is_alive()
