"""Commands are forwarded with TLS only to a leader whose certificate is accepted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_server
from threading import Event, Thread
from typing import Any

import pytest

from quorate.ports.leader_port import LeaderRecord
from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.http_forward import http_forward
from quorate.service.quorum.leader_role import Leadership
from quorate.service.request_log import KEY, Handled
from quorate.views.exits import CommandError
from quorate.views.statuses import status_of
from tests.bounds import WAIT_S, until
from tests.service.certificates import certificate
from tests.service.worlds import small_ledger

_ANSWER = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


@contextmanager
def leader_at(cert: Path, key: Path, got: list[bytes]) -> Iterator[int]:
    """Answer requests with TLS, one after the other, and keep them in ``got``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    ending = Event()

    def answer_all() -> None:
        while not ending.is_set():
            with suppress(TimeoutError):
                accepted, _ = listening.accept()
                accepted.settimeout(WAIT_S)
                # A client that does not accept the certificate closes the connection.
                with (
                    suppress(OSError),
                    context.wrap_socket(accepted, server_side=True) as caller,
                ):
                    answer(caller)

    def answer(caller: ssl.SSLSocket) -> None:
        request = b""
        while not request.endswith(b"\r\n\r\n{}") and (more := caller.recv(65_536)):
            request += more
        if request:
            got.append(request)
            caller.sendall(_ANSWER)

    with create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        thread = Thread(target=answer_all, name="leader")
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            ending.set()
            thread.join(2 * WAIT_S)


def forwarded(address: str, ca: Path) -> int:
    """Return the status with which a leader at ``address`` answers a command."""
    following = LedgerThread(small_ledger)
    leader = LeaderRecord(name="one", address=address, term=3)
    following.leadership = Leadership(leads=False, leader=leader)
    scope: dict[str, Any] = {
        KEY: Handled(request_id="r", method="POST", path="/api/v1/runs"),
        "method": "POST",
        "raw_path": b"/api/v1/runs",
        "query_string": b"",
    }
    sent: list[Any] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    async def forward() -> None:
        async with http_forward(following, str(ca)) as forward:
            await forward.send(scope, {b"authorization": "Bearer qt_secret"}, b"{}", keep)

    def status() -> int | None:
        """Return the status; None on a machine too busy to connect in time."""
        try:
            asyncio.run(forward())
        except CommandError as error:
            if "cannot be reached" in str(error):
                return None
            raise
        found: int = sent[0]["status"]
        return found

    return until(status, "the leader is connected to")


def test_command_goes_to_a_leader_whose_certificate_is_accepted(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    got: list[bytes] = []
    with leader_at(cert, key, got) as port:
        assert forwarded(f"https://localhost:{port}", cert) == 201
    assert b"qt_secret" in got[0]


def test_leader_of_another_authority_gets_no_token_and_the_error_names_the_file(
    tmp_path: Path,
) -> None:
    for name in ("own", "eve"):
        (tmp_path / name).mkdir()
    own, _ = certificate(tmp_path / "own")
    got: list[bytes] = []
    with (
        leader_at(*certificate(tmp_path / "eve"), got) as port,
        pytest.raises(CommandError, match="certificate of the leader, one, is not accepted") as bad,
    ):
        forwarded(f"https://localhost:{port}", own)
    assert got == []
    assert status_of(bad.value.fault).http == 503
    assert f"quorum.ca, {own}: set quorum.ca to a file with the authority" in str(bad.value)


def test_leader_with_a_certificate_for_another_host_gets_no_token(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    got: list[bytes] = []
    with (
        leader_at(cert, key, got) as port,
        pytest.raises(CommandError, match=r"127\.0\.0\.1") as bad,
    ):
        forwarded(f"https://127.0.0.1:{port}", cert)
    assert got == []
    assert f"let that certificate name the host of https://127.0.0.1:{port}" in str(bad.value)
