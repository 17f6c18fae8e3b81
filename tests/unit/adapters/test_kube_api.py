"""The client of an API server: closing it closes all connections."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from threading import Thread

import pytest

from quorate.adapters.kubernetes.cluster_access import ClusterAccess
from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.ports.errors import ClusterDownError
from tests.bounds import WAIT_S
from tests.service.certificates import certificate

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_a_connection_that_is_made_while_the_client_closes_is_closed_as_well(
    tmp_path: Path,
) -> None:
    chain, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    answers: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)
        port = listening.getsockname()[1]
        trust = ssl.create_default_context(cafile=chain)
        trust.check_hostname = False
        api = KubeApi(ClusterAccess(server=f"https://127.0.0.1:{port}", trust=trust))
        asking = Thread(target=lambda: answers.append(api.get("/version")))
        asking.start()
        taken, _ = listening.accept()
        # The other thread waits for the handshake, so its pool has no connection yet.
        api.close()
        taken.settimeout(WAIT_S)
        with context.wrap_socket(taken, server_side=True) as secured:
            assert secured.recv(1024).startswith(b"GET /version ")
            secured.sendall(ANSWER)
            asking.join(WAIT_S)
            assert answers == [{}]
            assert secured.recv(1024) == b"", "the connection is still open"


def test_a_closed_client_asks_nothing_more() -> None:
    api = KubeApi(ClusterAccess(server="http://127.0.0.1:9"))
    api.close()
    with pytest.raises(ClusterDownError, match="the connection is closed"):
        api.get("/version")
    with pytest.raises(ClusterDownError, match="the connection is closed"):
        list(api.watch("/api/v1/pods", "1"))


def _served(listening: socket.socket, *answers: bytes) -> list[bytes]:
    """Answer one request on each new connection and close it; return the first lines."""
    asked: list[bytes] = []
    for answer in answers:
        taken, _ = listening.accept()
        with taken:
            taken.settimeout(WAIT_S)
            asked.append(taken.recv(4096).partition(b"\r\n")[0])
            taken.sendall(answer)
    return asked


def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)
        api = KubeApi(ClusterAccess(server=f"http://127.0.0.1:{listening.getsockname()[1]}/at"))
        asked: list[bytes] = []
        for name in ("a b", "c"):
            answering = Thread(target=lambda: asked.extend(_served(listening, ANSWER)))
            answering.start()
            assert api.get(f"/{name}", limit="1") == {}
            answering.join(WAIT_S)
        assert asked == [
            *(b"GET /at/a%20b?limit=1 HTTP/1.1", b"GET /at/c?limit=1 HTTP/1.1"),
        ]
        api.close()


def test_a_watch_that_is_cut_inside_an_event_is_lost_and_not_at_its_end() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'{"type":"ADDED","object":{"a":1}}\n'
    whole, cut = b"%x\r\n%b\r\n" % (len(event), event), b"%x\r\n%b" % (len(event), event[:9])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)
        api = KubeApi(ClusterAccess(server=f"http://127.0.0.1:{listening.getsockname()[1]}"))
        answers = (head + whole + b"0\r\n\r\n", head + whole + cut, head + whole)
        answering = Thread(target=_served, args=(listening, *answers))
        answering.start()
        assert [each.object for each in api.watch("/pods", "1")] == [{"a": 1}]
        for _ in answers[1:]:
            seen = []
            with pytest.raises(ClusterDownError):  # noqa: PT012 - what came before it counts
                for each in api.watch("/pods", "1"):
                    seen.append(each.object)  # noqa: PERF401
            assert seen == [{"a": 1}]
        answering.join(WAIT_S)
        api.close()
