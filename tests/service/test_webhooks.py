"""Webhooks of a real service: slow, unreachable or killed receivers delay nothing else."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import httpx
import pytest

from quorate.cli.signing import file_signer
from quorate.service.config import configured
from quorate.service.daemon import Daemon, Extras
from tests.bounds import until
from tests.oracles.effort import sized
from tests.service.conftest import documents_of
from tests.service.lives import prepared
from tests.service.program import Program, program
from tests.service.program import client as client_of
from tests.service.receiver import SECRET, Got, receiving, secret_file
from tests.service.serving import Served, new_ledger
from tests.service.worlds import run_tree

KILLS = sized(2, 10)
LONG_S = 60
"""The longest time after which a POST to a receiver is abandoned."""


def configuration(folder: Path, timeout_s: int, **urls: str) -> Path:
    """Return a settings file with a webhook for each of ``urls``, and their time limit."""
    secret = folder / "hook.secret"
    if not secret.exists():
        secret_file(folder)
    file = folder / "q.toml"
    file.write_text(
        "".join(
            f'[[webhooks]]\nname = "{name}"\nurl = "{url}"\nsecret_file = "{secret}"\n'
            f"timeout = {timeout_s}\n"
            for name, url in urls.items()
        ),
        "utf-8",
    )
    return file


@contextmanager
def told(folder: Path, timeout_s: int = 5, **urls: str) -> Iterator[tuple[Served, httpx.Client]]:
    """Serve a ledger that has a fleet, with webhooks to ``urls``."""
    ledger = new_ledger(folder)
    served = Served(ledger, {}, Extras(signer=file_signer(ledger)))
    given = {"listen": "127.0.0.1:0", "ledger": str(ledger)}
    made = configured(given, {}, str(configuration(folder, timeout_s, **urls)))
    served.daemon = Daemon(made, Extras(signer=file_signer(ledger)))
    served.start()
    try:
        with served.client(served.token) as client:
            body = {"documents": documents_of("fleet.yaml", "teams.yaml")}
            assert client.post("/api/v1/apply", json=body).status_code == 200
            yield served, client
    finally:
        served.stop()


def submit(client: httpx.Client, name: str, owner: str = "rai") -> None:
    """Submit a run of one GPU."""
    done = client.post("/api/v1/runs", json={"document": run_tree(name, owner, 1)})
    assert done.status_code == 200, done.text


def test_starts_are_posted_signed_and_counted_and_no_secret_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with receiving() as receiver, told(tmp_path, ops=receiver.url) as (_, client):
        for number in range(3):
            submit(client, f"run-{number}")
        got = receiver.wait(3)
        wanted = 'quorate_webhook_deliveries_total{result="delivered",webhook="ops"} 3.0'
        until(lambda: wanted in client.get("/metrics").text, "all three are counted")
        text = client.get("/metrics").text
    assert [each.data["run"] for each in got] == ["run-0", "run-1", "run-2"]
    assert all(each.is_signed() for each in got)
    assert 'quorate_webhook_up{webhook="ops"} 1.0' in text
    assert SECRET not in caplog.text
    assert SECRET.removeprefix("whsec_") not in caplog.text


def test_a_slow_receiver_delays_neither_submits_nor_other_webhooks(tmp_path: Path) -> None:
    """Other webhooks are sent while the first one is unanswered; it is abandoned after a minute."""
    release = Event()
    with receiving() as slow, receiving() as quick:

        def hang(_: Got) -> int:
            release.wait(LONG_S)
            return 200

        slow.answer = hang
        with told(tmp_path, LONG_S, slow=slow.url, quick=quick.url) as (_, client):
            for number in range(20):
                submit(client, f"run-{number:02d}")
            got = quick.wait(20)
            assert len({each.id for each in slow.got}) == 1
            assert [each.data["run"] for each in got] == [f"run-{n:02d}" for n in range(20)]
            release.set()
            late = slow.wait(20)
    assert list(dict.fromkeys(each.data["run"] for each in late)) == [
        f"run-{n:02d}" for n in range(20)
    ]


def test_a_service_stops_at_once_while_a_receiver_hangs(tmp_path: Path) -> None:
    """A service that waited for the receiver would still run when the test checks it."""
    release = Event()
    with receiving() as slow:
        slow.answer = lambda _: 200 if release.wait(LONG_S) else 500
        with told(tmp_path, LONG_S, slow=slow.url) as (served, client):
            submit(client, "run-0")
            slow.wait(1)
            served.daemon.stop()
            served._thread.join(LONG_S - 10)
            assert not served._thread.is_alive()
        release.set()


def test_a_receiver_that_comes_back_is_told_what_it_missed(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.answer = lambda _: 500 if len(receiver.got) < 4 else 200
        with told(tmp_path, ops=receiver.url) as (_, client):
            submit(client, "run-0")
            got = receiver.wait(4)
            assert len({each.id for each in got}) == 1
            submit(client, "run-1")
            assert receiver.wait(5)[-1].data["run"] == "run-1"


@pytest.mark.soak
def test_killed_between_send_and_acknowledge_it_sends_again_and_loses_nothing(
    tmp_path: Path,
) -> None:
    ledger, token = prepared(tmp_path)
    lives: list[Program] = []
    killed: dict[str, str] = {}

    def kill_first(got: Got) -> int:
        if got.id not in killed:
            killed[got.id] = got.data["run"]
            lives[-1].end(signal.SIGKILL)
        return 200

    with receiving() as receiver:
        receiver.answer = kill_first
        config = configuration(tmp_path, 5, ops=receiver.url)
        words = ("--ledger", str(ledger), "--config", str(config))
        for number in range(KILLS):
            with program(tmp_path, *words) as life:
                lives.append(life)
                # It may be killed before it answers; the run is in the ledger nevertheless.
                with (
                    suppress(httpx.TransportError),
                    client_of(life.wait_ready(), token) as client,
                ):
                    submit(client, f"run-{number}")
                receiver.wait(2 * number + 1)
                assert life.wait() == -signal.SIGKILL
        with program(tmp_path, *words) as last:
            lives.append(last)
            got = receiver.wait(2 * KILLS)
    runs = [each.data["run"] for each in got]
    assert list(dict.fromkeys(runs)) == [f"run-{number}" for number in range(KILLS)]
    assert len(killed) == KILLS
    # Notices that the receiver got before the service died were sent again with the same id.
    for one in killed:
        assert sum(each.id == one for each in got) == 2
    assert all(each.is_signed() for each in got)
