from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from select import select

import httpx
import pytest

from tests.bounds import WAIT_S, until
from tests.service.serving import Served, new_ledger, read_all, serving
from tests.service.worlds import large_run_tree, run_tree

SLOW_S = 0.6
CUT_S = 3.0
"""The time after which a slow client is disconnected, by timers of the service's event loop.

A busy machine delays all timers of a loop alike, and does not change their order.
"""
PATIENT_S = 10 * WAIT_S
"""How long tests wait for clients if slowness is not tested."""


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a service that waits only briefly for slow clients."""
    flags = {"limits.slow_client_s": str(SLOW_S)}
    with serving(new_ledger(tmp_path_factory.mktemp("hasty")), flags) as served:
        yield served


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a service with small limits that waits long for clients."""
    flags = {
        "limits.body_bytes": "2000",
        "limits.header_bytes": "4000",
        "limits.slow_client_s": str(PATIENT_S),
    }
    with serving(new_ledger(tmp_path_factory.mktemp("strict")), flags) as served:
        yield served


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer.split(b" ", 2)[1])


def code_of(answer: bytes) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    return str(json.loads(body)["code"])


def post(served: Served, *headers: str, body: bytes = b"") -> bytes:
    lines = [
        "POST /api/v1/runs HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {served.token}",
        *headers,
    ]
    return served.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def test_a_body_that_is_too_large_is_refused_by_its_length(strict: Served) -> None:
    found = post(strict, "Content-Type: application/json", "Content-Length: 2001")
    assert (status_of(found), code_of(found)) == (413, "too-large")
    assert b"connection: close" in found


@pytest.mark.parametrize("length", ["9" * 30, "18446744073709551615"])
def test_an_absurd_length_is_refused(strict: Served, length: str) -> None:
    found = post(strict, "Content-Type: application/json", f"Content-Length: {length}")
    assert status_of(found) in (400, 413)


def test_a_body_that_is_too_large_is_refused_when_it_comes_in_chunks(strict: Served) -> None:
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    found = post(
        strict, "Content-Type: application/json", "Transfer-Encoding: chunked", body=chunk * 3
    )
    assert (status_of(found), code_of(found)) == (413, "too-large")


def test_a_body_within_the_limit_is_read(strict: Served) -> None:
    with strict.client(strict.token) as client:
        found = client.post("/api/v1/runs", json={"document": run_tree("x", "nobody")})
        assert found.json()["code"] == "unknown-name"


@contextmanager
def cut_in_time(served: Served, first: bytes) -> Iterator[tuple[socket.socket, Future[int]]]:
    """Yield a connection with ``first`` sent, and a future: open connections after ``CUT_S``.

    Fail unless the service has closed the connection by then.
    """
    until(lambda: served.connections.open == 0, "connections of other tests are closed")

    async def open_later() -> int:
        await asyncio.sleep(CUT_S)
        await asyncio.sleep(SLOW_S / 5)  # Actions that were due by then have been done.
        return served.connections.open

    with ExitStack() as stack:
        with served.held_up():
            connection = stack.enter_context(served.connect())
            connection.sendall(first)
            left = served.on_loop(open_later())
        yield connection, left
        assert left.result(WAIT_S) == 0, f"it is still open after {CUT_S:g} s"


def test_a_head_that_comes_too_slowly_is_cut_off(hasty: Served) -> None:
    with cut_in_time(hasty, b"GET /healthz HTTP/1.1\r\nHost: x\r\n") as (connection, _):
        found = read_all(connection)
    assert (status_of(found), code_of(found)) == (408, "too-slow")


def test_a_head_that_drips_is_cut_off_too(hasty: Served) -> None:
    with (
        cut_in_time(hasty, b"GET /healthz HTTP/1.1\r\n") as (connection, left),
        suppress(BrokenPipeError, ConnectionResetError),
    ):
        while not left.done():
            connection.sendall(b"X-A: b\r\n")
            time.sleep(SLOW_S / 5)


def test_a_connection_on_which_nothing_is_asked_is_closed(hasty: Served) -> None:
    with hasty.connect() as connection:
        assert status_of(read_all(connection)) == 408


def test_a_body_that_comes_too_slowly_is_cut_off(hasty: Served) -> None:
    head = (
        f"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {hasty.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with cut_in_time(hasty, head.encode()) as (connection, _):
        found = read_all(connection)
    assert (status_of(found), code_of(found)) == (408, "too-slow")


def test_one_slow_client_does_not_hold_up_others(wide: Served) -> None:
    with wide.connect() as connection, wide.client(wide.token) as client:
        connection.sendall(b"GET /heal")
        assert client.get("/api/v1/whoami").status_code == 200
        assert not select([connection], [], [], 0)[0], "the slow one is still waited for"


def read_one(answers: BufferedReader) -> int:
    """Return the status of the next answer, and read it to the end of its body."""
    status, length = status_of(answers.readline()), 0
    while (line := answers.readline().lower()) not in (b"\r\n", b""):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    assert len(answers.read(length)) == length
    return status


def test_a_connection_is_used_again_after_more_than_the_slow_time(hasty: Served) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as stack:
        with hasty.held_up():
            connection = stack.enter_context(hasty.connect())
            connection.sendall(request)
        answers = stack.enter_context(connection.makefile("rb"))
        assert read_one(answers) == 200
        with hasty.connect() as later:
            assert status_of(read_all(later)) == 408
        connection.sendall(request)
        assert read_one(answers) == 200


@pytest.mark.parametrize("piece", [10, 200])
def test_headers_that_are_too_large_are_refused(strict: Served, piece: int) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    many = b"".join(b"X-%d: %s\r\n" % (n, b"a" * piece) for n in range(10_000 // piece))
    found = strict.raw(head + many + b"\r\n")
    assert (status_of(found), code_of(found)) == (431, "headers-too-large")


def test_a_request_that_comes_at_once_is_not_all_head(tmp_path: Path) -> None:
    flags = {"limits.header_bytes": "1024"}
    with serving(new_ledger(tmp_path), flags) as served:
        body = b" " * 4_000 + b"{}"
        headers = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        answer = post(served, *headers, "Connection: close", body=body)
        assert (status_of(answer), code_of(answer)) == (400, "usage")
        assert "give either document or like" in answer.decode()


def test_a_header_without_an_end_is_refused(strict: Served) -> None:
    with strict.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-A: ")
        try:
            for _ in range(100):
                connection.sendall(b"a" * 1_000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        found = read_all(connection)
    assert not found or status_of(found) == 431


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/%2e%2e/healthz", 400),
        ("/api/v1/runs/..", 400),
        ("/api/v1/runs/.", 400),
        ("/api/v1/runs/%2e%2e%2fhealthz", 404),
        ("//healthz", 404),
        ("/api//v1/runs", 404),
        ("/healthz/", 404),
        ("/api/v1/runs/a%00b", 400),
        ("/api/v1/runs/a%0d%0ab", 400),
        ("/api/v1/runs/%c0%ae%c0%ae", 400),
        ("/api/v1/runs/%ff", 400),
        ("/api/v1/runs/%zz", 400),
        ("/api/v1/runs/%", 400),
        ("/api/v1/runs/" + "a" * 5_000, 414),
        ("/healthz?" + "a=b&" * 5_000, 414),
        ("/API/V1/RUNS", 404),
        ("/api/v1/runs;x=y", 404),
        ("*", 404),
        ("http://elsewhere/healthz", 200),
        ("/api/v1/runs/caf\u00e9", 400),
    ],
)
def test_a_path_can_be_read_in_one_way_only(wide: Served, path: str, status: int) -> None:
    lines = [f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {wide.token}"]
    data = "\r\n".join([*lines, "Connection: close", "", ""]).encode()
    found = wide.raw(data)
    assert status_of(found) == status, found
    if status != 200:
        code_of(found)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a service with the usual limits, except for its waiting times."""
    ledger = new_ledger(tmp_path_factory.mktemp("wide"))
    with serving(ledger, {"limits.slow_client_s": str(PATIENT_S)}) as served:
        yield served


@pytest.mark.parametrize(
    "headers",
    [
        ["Authorization: Bearer qt_x_y", "Authorization: Bearer TOKEN"],
        ["Authorization: Bearer TOKEN", "Authorization: Bearer TOKEN"],
        ["Authorization: Bearer TOKEN", "Content-Length: 2", "Content-Length: 3"],
        ["Authorization: Bearer TOKEN", "Content-Length: two"],
        ["Authorization: Bearer TOKEN", "Content-Length: -1"],
        ["Authorization: Bearer TOKEN", "Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Authorization: Bearer TOKEN", "Transfer-Encoding: gzip, identity"],
        ["Authorization: Bearer TOKEN", "If-Match: 1", "If-Match: 2"],
        ["Authorization: Bearer TOKEN", "Idempotency-Key: a", "Idempotency-Key: b"],
        ["Authorization: Bearer TOKEN", "X-A : b"],
        ["Authorization: Bearer TOKEN", "X-A: a\x00b"],
        ["Authorization: Bearer TOKEN", " X-A: folded"],
    ],
)
def test_headers_that_could_be_read_in_two_ways_are_refused(
    wide: Served, headers: list[str]
) -> None:
    sent = [header.replace("TOKEN", str(wide.token)) for header in headers]
    data = ["POST /api/v1/runs HTTP/1.1", "Host: x", "Content-Type: application/json", *sent]
    found = wide.raw("\r\n".join([*data, "Connection: close", "", "{}"]).encode())
    assert status_of(found) == 400, found
    assert code_of(found) == "usage"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(wide: Served, data: bytes) -> None:
    found = wide.raw(data + b"\r\n\r\n")
    assert (status_of(found), code_of(found)) == (400, "usage")


@pytest.mark.parametrize(
    "value",
    [
        "Basic cm9vdDpyb290",
        "Bearer",
        "bearer qt_",
        "Bearer qt__",
        "Bearer qt_a_b_c",
        "Bearer qt_000000000000_" + "0" * 64,
        "Bearer a b",
        "Bearer " + "x" * 20_000,
        "Bearer ..",
    ],
)
def test_what_proves_nothing_lets_nobody_in(wide: Served, value: str) -> None:
    with wide.client(None) as client:

        def asked() -> httpx.Response | None:
            # An address with too many failures has to wait.
            answer = client.get("/api/v1/whoami", headers={"Authorization": value})
            return answer if answer.status_code != 429 else None

        found = until(asked, "this address may try again")
        assert (found.status_code, found.json()["code"]) == (401, "unauthenticated"), found.text


def test_who_asks_too_often_is_told_to_wait(tmp_path: Path) -> None:
    with (
        serving(new_ledger(tmp_path), {"limits.requests_per_s": "5"}) as served,
        served.client(served.token) as client,
    ):
        found = until(lambda: refused_at_once(served, str(served.token)), "it is much", every_s=0)
        assert code_of(found[0]) == "too-many-requests"
        assert b"\r\nretry-after: 1\r\n" in found[0]
        until(lambda: client.get("/api/v1/whoami").status_code == 200, "it may ask again")


def refused_at_once(served: Served, token: str) -> list[bytes]:
    """Return the 429 answers to requests that are sent at once, however slow this client is."""
    asked = f"GET /api/v1/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode()
    found = served.raw((asked + b"\r\n") * 99 + asked + b"Connection: close\r\n\r\n")
    answers = re.split(rb"(?=HTTP/1\.1 \d{3} )", found)[1:]
    assert len(answers) == 100
    return [each for each in answers if status_of(each) == 429]


def test_who_guesses_tokens_is_told_to_wait_and_others_are_not(tmp_path: Path) -> None:
    with serving(new_ledger(tmp_path)) as served, served.client("qt_0_0") as guesser:
        assert guesser.get("/api/v1/whoami").status_code == 401
        assert guesser.get("/healthz").status_code == 200
        with served.client(served.token) as other:
            for _ in range(3):
                until(lambda: refused_at_once(served, "qt_0_0"), "nothing is left", every_s=0)
                # The users' address, from which this request comes, has no allowance left.
                assert other.get("/api/v1/whoami").status_code == 200


def test_beyond_what_is_under_way_at_once_one_is_told_to_come_back(tmp_path: Path) -> None:
    flags = {"limits.concurrent": "2", "limits.slow_client_s": str(PATIENT_S)}
    with (
        serving(new_ledger(tmp_path), flags) as served,
        served.connect() as one,
        served.connect() as two,
        served.client(None) as client,
    ):
        for connection in (one, two):
            connection.sendall(
                b"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
                b"Authorization: Bearer %s\r\n\r\n" % str(served.token).encode()
            )
        until(lambda: client.get("/healthz").status_code != 200, "two are under way")
        found = client.get("/healthz")
        assert (found.status_code, found.json()["code"]) == (503, "unavailable")
        assert found.headers["retry-after"] == "1"


def test_beyond_the_connections_one_is_told_to_come_back(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    flags = {"limits.connections": "3", "limits.slow_client_s": str(PATIENT_S)}
    with serving(ledger, flags) as served:
        # These connections are at work, so none of them can be closed to make room.
        head = (
            b"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
            b"Authorization: Bearer %s\r\n\r\n" % str(served.token).encode()
        )
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(served.connect()).sendall(head)
            until(lambda: served.under_way() == 3, "three are at work")
            with served.connect() as late:
                assert status_of(read_all(late)) == 503


@pytest.mark.slow
def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    """The export is larger than all buffers on the way, and the client does not read it."""
    ledger = new_ledger(tmp_path)
    with serving(ledger, {"limits.slow_client_s": "1"}) as served:
        with served.client(served.token) as client:
            assert client.post("/api/v1/tenants", json={"id": "team"}).status_code == 200
            runs = [large_run_tree(f"run-{number}", "team") for number in range(120)]
            done = client.post("/api/v1/runs/batch", json={"documents": runs}, timeout=120)
            assert done.status_code == 200, done.text
        with served.connect(receive_bytes=4_096) as connection:
            connection.sendall(
                b"GET /api/v1/ledger/export HTTP/1.1\r\nHost: x\r\n"
                b"Authorization: Bearer %s\r\n\r\n" % str(served.token).encode()
            )
            with served.client(served.token) as client:
                until(
                    lambda: 'operation="export-ledger"' in client.get("/metrics").text,
                    "the export is over",
                    every_s=0.5,
                )
            found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 200 ")
        assert not found.endswith(b"0\r\n\r\n")


def test_many_at_once_are_all_answered(wide: Served) -> None:
    found: list[int] = []

    def ask() -> None:
        with wide.client(wide.token) as client:
            found.extend(client.get("/api/v1/whoami").status_code for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert found == [200] * 100
