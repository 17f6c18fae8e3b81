"""One POST ends in time and names the obstacle, whatever the receiver does."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select
from threading import Event, Thread

import pytest

from quorate.service.receivers.bounded_link import Found, addresses
from quorate.service.receivers.delivery_result import Posted, Result
from quorate.service.receivers.webhook_post import Poster
from tests.bounds import WAIT_S, until
from tests.service.certificates import certificate
from tests.service.receiver import receiving

HEADERS = {
    "content-type": "application/json",
    "webhook-id": "msg_1",
    "webhook-timestamp": "1",
    "webhook-signature": "v1,x",
}


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Listen on loopback and answer one connection by hand."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                answer(connection)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/in"
    finally:
        listening.close()
        thread.join(WAIT_S)


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (200, Result.DELIVERED),
        (202, Result.DELIVERED),
        (204, Result.DELIVERED),
        (302, Result.REFUSED),
        (400, Result.REFUSED),
        (404, Result.REFUSED),
        (408, Result.UNREACHABLE),
        (410, Result.GONE),
        (429, Result.UNREACHABLE),
        (500, Result.UNREACHABLE),
        (503, Result.UNREACHABLE),
    ],
)
def test_a_status_says_what_came_of_it(status: int, result: Result) -> None:
    with receiving() as receiver:
        receiver.headers = {"location": receiver.url}
        receiver.answer = lambda _: status
        found = Poster(receiver.url, WAIT_S).post(HEADERS, b"{}")
    assert found.result is result
    assert found.why == ("" if result is Result.DELIVERED else f"status {status}")
    assert len(receiver.got) == 1, "redirects are not followed"


def _read(connection: socket.socket) -> bytes:
    """Return a whole request: closing the connection earlier would cut off the answer, too."""
    found = b""
    while not found.endswith(b"{}"):
        part = connection.recv(65_536)
        assert part, f"the request breaks off: {found!r}"
        found += part
    return found


def test_the_path_and_the_query_are_kept() -> None:
    heard: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        heard.append(_read(connection))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with answering(answer) as url:
        assert Poster(f"{url}/deep?a=1", WAIT_S).post(HEADERS, b"{}") == Posted(Result.DELIVERED)
    assert heard[0].startswith(b"POST /in/deep?a=1 HTTP/1.1\r\n")


@pytest.mark.slow
def test_one_that_answers_a_byte_at_a_time_is_cut_off_in_time() -> None:
    def drip(connection: socket.socket) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1_000:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    with answering(drip) as url:
        began_s = time.monotonic()
        found = Poster(url, 0.3).post(HEADERS, b"{}")
        took_s = time.monotonic() - began_s
    assert found == Posted(Result.UNREACHABLE, "no answer within 0.3 s")
    assert took_s < WAIT_S, "the answer takes twice as long"


def test_a_whole_status_line_is_an_answer_though_the_rest_does_not_come() -> None:
    is_told = Event()

    def begin(connection: socket.socket) -> None:
        _read(connection)
        connection.sendall(b"HTTP/1.1 102 Processing\r\nx: y\r\n\r\nHTTP/1.1 204 No Content\r\n")
        connection.sendall(b"x: y\r\n")
        assert is_told.wait(2 * WAIT_S)

    with answering(begin) as url:
        assert Poster(url, WAIT_S).post(HEADERS, b"{}") == Posted(Result.DELIVERED)
        is_told.set()


@contextmanager
def black_hole(port: int) -> Iterator[str]:
    """Accept no connection at an address, by filling its queue of connections."""
    host = "127.0.0.2"
    with ExitStack() as stack:
        hole = stack.enter_context(socket.socket())
        hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hole.bind((host, port))
        hole.listen(0)
        waiting = [stack.enter_context(socket.socket()) for _ in range(8)]
        for each in waiting:
            each.settimeout(0)
            with suppress(BlockingIOError):
                each.connect((host, port))
        until(lambda: select([], waiting, [], 0)[1], "one is connected, and the others wait")
        yield host


def found_at(*hosts: str) -> Callable[[str, int], list[Found]]:
    """Return a function that resolves every host to these addresses, in this order."""
    return lambda _, port: [each for host in hosts for each in addresses(host, port)]


@pytest.mark.slow
def test_behind_an_address_that_nobody_answers_at_the_next_is_tried_in_time() -> None:
    def answer(connection: socket.socket) -> None:
        _read(connection)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with answering(answer) as url, black_hole(int(url.split(":")[2].split("/")[0])) as hole:
        began_s = time.monotonic()
        found = Poster(url, 9.0, found_at(hole, "127.0.0.1")).post(HEADERS, b"{}")
        took_s = time.monotonic() - began_s
    assert found == Posted(Result.DELIVERED)
    assert took_s >= 2.0, "the first was not a black hole"


@pytest.mark.slow
def test_where_no_address_answers_that_is_said_in_time() -> None:
    with answering(lambda _: None) as url, black_hole(int(url.split(":")[2].split("/")[0])) as hole:
        began_s = time.monotonic()
        found = Poster(url, 0.6, found_at(*[hole] * 20)).post(HEADERS, b"{}")
        assert time.monotonic() - began_s < WAIT_S
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))):
            pass  # So that the answering thread ends.
    assert found == Posted(Result.UNREACHABLE, "no answer within 0.6 s")


def test_one_that_says_something_else_is_unreachable() -> None:
    with answering(lambda connection: connection.sendall(b"220 mail.example ESMTP\r\n")) as url:
        found = Poster(url, WAIT_S).post(HEADERS, b"{}")
    assert found.result is Result.UNREACHABLE
    assert found.why


def test_what_is_aborted_ends_at_once_and_nothing_more_is_sent() -> None:
    poster: list[Poster] = []
    with answering(lambda _: poster[0].abort()) as url:
        poster.append(Poster(url, 2 * WAIT_S))
        began_s = time.monotonic()
        assert poster[0].post(HEADERS, b"{}").result is Result.UNREACHABLE
        assert poster[0].post(HEADERS, b"{}") == Posted(Result.UNREACHABLE, "stopping")
    assert time.monotonic() - began_s < WAIT_S


def _with_tls(url: str) -> str:
    return url.replace("http://127.0.0.1", "https://localhost")


def test_a_certificate_that_nobody_vouches_for_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            _read(secured)
            secured.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with answering(answer) as url:
        found = Poster(_with_tls(url), WAIT_S).post(HEADERS, b"{}")
    assert found.result is Result.UNREACHABLE
    assert "certificate verify failed" in found.why
    monkeypatch.setenv("SSL_CERT_FILE", str(chain))
    with answering(answer) as url:
        found = Poster(_with_tls(url), WAIT_S).post(HEADERS, b"{}")
    assert found == Posted(Result.DELIVERED)
