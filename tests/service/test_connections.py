"""Connections count before the caller is known, and descriptors are reserved for the ledger."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from quorate.service.daemon import Extras
from quorate.service.descriptors import RESERVE, connections_within
from quorate.service.http.accepting import IDLE_S_MIN, Connections
from tests.bounds import WAIT_S, until
from tests.service.certificates import certificate
from tests.service.serving import Served, new_ledger, serving

CLI = "from quorate.cli.main import run; run()"
FILES = RESERVE + 60


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the other side has closed by now."""
    connection.settimeout(0)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_the_one_that_is_idle_longest_makes_room_and_one_at_work_never() -> None:
    now = [0.0]
    connections = Connections(2, lambda: now[0])
    gone: list[str] = []
    for name in ("first", "second"):
        connections.opened()
        connections.idle(name, lambda name=name: gone.append(name))  # type: ignore[misc]
    assert connections.trouble
    now[0] += IDLE_S_MIN
    connections.busy("first")
    assert connections.trouble == ""
    connections.opened()
    assert gone == ["second"]
    connections.lost("second")
    assert connections.open == 2
    connections.opened()
    assert connections.is_over
    connections.lost("late")
    assert connections.open == 2


def test_handshakes_that_do_not_end_count_and_make_room_for_others(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    flags = {"limits.connections": "3", "tls.cert": str(cert), "tls.key": str(key)}
    served = Served(new_ledger(tmp_path), flags, Extras())
    context = ssl.create_default_context(cafile=str(cert))
    with _started(served), ExitStack() as stack:
        assert served.address is not None
        silent = [stack.enter_context(served.connect()) for _ in range(10)]
        # No more connections wait for a handshake than may be open.
        until(lambda: sum(map(_is_closed, silent)) >= 7, "those beyond the limit are closed")
        until(lambda: not served.connections.trouble, "one has been idle long enough")
        url = f"https://localhost:{served.address.port}/healthz"
        with httpx.Client(verify=context, trust_env=False, timeout=WAIT_S) as client:
            assert client.get(url).status_code == 200


def test_idle_connections_make_room_for_one_that_asks(tmp_path: Path) -> None:
    with serving(new_ledger(tmp_path), {"limits.connections": "4"}) as served, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(served.connect())
        until(lambda: served.connections.open >= 4, "all are connected")
        until(lambda: not served.connections.trouble, "one has been idle long enough")
        with served.client(served.token) as client:
            assert client.get("/api/v1/whoami").status_code == 200


@contextmanager
def _started(served: Served) -> Iterator[None]:
    """Let ``served`` listen, without checking that it is ready, which would need a certificate."""
    served.begin()
    try:
        yield
    finally:
        served.stop()


@contextmanager
def _limited(folder: Path, files: int) -> Iterator[tuple[str, str, Path]]:
    """Serve in a process that may open ``files`` files: yield its address, token and log."""
    log = folder / "log.txt"

    with log.open("w") as written:
        daemon = subprocess.Popen(
            [
                *("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"),
                *(sys.executable, "-c", CLI, "serve", "--listen", "127.0.0.1:0"),
            ],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
        )
    assert daemon.stdout is not None
    try:
        told = ""
        while not (re.search(r"http://\S+:\d+", told) and re.search(r"\bqt_\w+", told)):
            line = daemon.stdout.readline()
            assert line, log.read_text()
            told += line
        address, token = re.search(r"http://(\S+:\d+)", told), re.search(r"\bqt_\w+", told)
        assert address is not None
        assert token is not None
        yield address[1], token[0], log
    finally:
        daemon.terminate()
        daemon.wait(WAIT_S)
        daemon.stdout.close()


def _is_ready(client: httpx.Client) -> bool:
    """Return whether a service is ready; a service without free connections closes this one."""
    with suppress(httpx.TransportError):
        return client.get("/readyz").status_code == 200
    return False


@pytest.mark.soak
def test_connections_leave_descriptors_to_the_ledger(tmp_path: Path) -> None:
    with _limited(tmp_path, FILES) as (address, token, log), ExitStack() as stack:
        host, _, port = address.partition(":")
        for _ in range(FILES + 50):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=WAIT_S))
        headers = {"Authorization": f"Bearer {token}"}
        base = f"http://{address}"
        with httpx.Client(
            base_url=base, headers=headers, trust_env=False, timeout=WAIT_S
        ) as client:
            until(lambda: _is_ready(client), "idle connections have made room")
            made = client.post("/api/v1/tenants", json={"id": "team"})
            assert made.status_code == 200, made.text
        written = log.read_text()
        assert "limits.connections: 60 instead of 8000" in written
        assert "Too many open files" not in written


@pytest.mark.soak
def test_a_service_that_could_not_open_its_files_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="open files: this process may open"):
        _limited(tmp_path, RESERVE + 5).__enter__()


def test_connections_are_as_many_as_wanted_where_they_fit() -> None:
    assert connections_within(10) == 10
    assert connections_within(10, surfaces=2) == 10
