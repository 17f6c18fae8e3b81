"""HTTP over one socket: answers in any pieces, and data that is no answer."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.http_exchange import Exchange, NotHttpError, Response
from tests.bounds import WAIT_S

HEADERS = {"Accept": "application/json"}


@contextmanager
def answering(*pieces: bytes) -> Iterator[tuple[Exchange, list[bytes]]]:
    """Send ``pieces``, one write each, as the answer to the first request; then close."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.settimeout(WAIT_S)
                got.append(peer.recv(1 << 16))
                for piece in pieces:
                    peer.sendall(piece)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        exchange = Exchange(*server.getsockname()[:2], tls=None, timeout_s=WAIT_S)
        exchange.connect()
        try:
            yield exchange, got
        finally:
            exchange.close()
            thread.join(WAIT_S)
            assert not thread.is_alive()


def asked(exchange: Exchange, method: str = "GET", body: bytes | None = None) -> Response:
    return exchange.ask(method, "/a?b=c", HEADERS, body)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[low:high] for low, high in itertools.pairwise(edges)]


def chunked(body: bytes, places: list[int]) -> bytes:
    parts = [b"%x;note\r\n%s\r\n" % (len(part), part) for part in cut(body, places)]
    return b"".join(parts) + b"0\r\nTrailer: x\r\n\r\n"


@given(
    st.binary(max_size=300),
    st.lists(st.integers(0, 400), max_size=4),
    st.lists(st.integers(0, 900), max_size=5),
    st.sampled_from(["length", "chunked", "close"]),
)
def test_a_body_is_what_was_sent_in_whatever_pieces_it_comes(
    body: bytes, chunks: list[int], pieces: list[int], form: str
) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-One: a\r\nx-one:  b \r\n"
    data = {
        "length": b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
        "chunked": b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, chunks),
        "close": b"\r\n" + body,
    }[form]
    with answering(*cut(head + data, pieces)) as (exchange, got):
        response = asked(exchange)
        assert (response.status, response.headers["x-one"]) == (200, "a, b")
        assert b"".join(response.body) == body
        assert (exchange.sock is None) == (form == "close")
    lines = got[0].decode().splitlines()
    assert lines[0] == "GET /a?b=c HTTP/1.1"
    assert "Accept: application/json" in lines


def test_what_is_sent_has_its_length() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    with answering(answer) as (exchange, got):
        response = asked(exchange, "POST", b"12345")
        assert (response.status, list(response.body)) == (204, [])
    head, _, body = got[0].partition(b"\r\n\r\n")
    assert b"Content-Length: 5" in head
    assert body == b"12345"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "the connection was closed"),
        (b"HTTP/1.1 200", "the answer broke off"),
        (b"SSH-2.0-OpenSSH\r\n", "the response begins with 'SSH-2.0-OpenSSH'"),
        (b"HTTP/1.1 abc\r\n\r\n", "the response begins with"),
        (b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", "malformed or too many headers"),
        (b"HTTP/1.1 200 OK\r\n" + b"\xff" * 70_000, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "the length '-1'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "the answer broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "has the size 'zz'"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "the answer broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", "longer"),
    ],
)
def test_what_is_not_http_is_an_error(answer: bytes, text: str) -> None:
    with answering(answer) as (exchange, _), pytest.raises(NotHttpError, match=text):
        b"".join(asked(exchange).body)


def test_a_header_cannot_hold_another_line() -> None:
    with (
        answering() as (exchange, _),
        pytest.raises(ValueError, match="not valid in a header line"),
    ):
        exchange.ask("GET", "/", {"X": "a\r\nY: b"}, None)


def test_too_many_headers_are_an_error() -> None:
    head = b"".join(b"h%d: x\r\n" % number for number in range(200))
    answer = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n"
    with (
        answering(answer) as (exchange, _),
        pytest.raises(NotHttpError, match="malformed or too many headers"),
    ):
        asked(exchange)
