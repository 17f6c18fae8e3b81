"""The client of an API server: what closing it leaves open."""

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
        # The other thread waits for the handshake, so that its pool has no connection yet.
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
