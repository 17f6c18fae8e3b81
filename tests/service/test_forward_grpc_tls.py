"""Calls of gRPC are forwarded with TLS only to a leader whose certificate is accepted.

Client, follower and leader really use TLS; only the choice of the leader comes from the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from typing import Any

import grpc
import pytest

from quorate.ports.leader_port import LeaderRecord
from quorate.service.grpc.grpc_quorum import GrpcQuorum
from quorate.service.grpc.grpc_server import GrpcTls
from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.leader_role import Leadership
from quorate.service.quorum.leader_trust import LeaderTrust
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, until
from tests.service.certificates import certificate
from tests.service.grpc_world import ADMIN, Counter, Served, document, refused
from tests.service.worlds import run_tree, small_ledger

UNREACHED = "cannot be reached"


@dataclass(frozen=True, slots=True)
class Pair:
    """A follower, the leader to which it forwards, and the follower's record of the leader."""

    follower: Served
    leader: Served
    known: LedgerThread

    def submit(self, name: str) -> Any:
        """Return the follower's answer to a submit; raise ``grpc.RpcError`` if refused."""
        asked = document(run_tree(name, "team", 1))
        return self.follower.call("submit-run", ADMIN, document=asked)

    def submitted(self, name: str) -> Any:
        """Return the follower's answer to a submit; retry if a busy machine connects late.

        Raise any other error of the call.
        """

        def answer() -> Any:
            try:
                return self.submit(name)
            except grpc.RpcError as error:
                if UNREACHED in str(error):
                    return None
                raise

        return until(answer, "the leader is connected to")

    def refusal(self) -> str:
        """Return the follower's message that the leader is not available."""
        problem = refused(grpc.StatusCode.UNAVAILABLE, self.submitted, "refused")
        (line,) = problem.lines
        return str(line)


def pems(files: tuple[Path, Path]) -> GrpcTls:
    cert, key = files
    return GrpcTls(certificate=cert.read_bytes(), key=key.read_bytes())


@contextmanager
def pair(
    own: tuple[Path, Path], leaders: tuple[Path, Path] | None, ca: str, host: str = "localhost"
) -> Iterator[Pair]:
    """Serve by a follower with the certificate ``own``; the leader's address has ``host``."""
    with ExitStack() as stack:
        leader = Served(Counter(small_ledger()), tls=None if leaders is None else pems(leaders))
        stack.callback(leader.close)
        grpc_address = f"{host}:{leader.port}"
        record = LeaderRecord(name="one", address="https://one:1", term=3, grpc=grpc_address)
        known = LedgerThread(small_ledger)
        known.leadership = Leadership(leads=False, leader=record)
        quorum = GrpcQuorum(known, LeaderTrust(ca))
        follower = Served(Counter(small_ledger()), tls=pems(own), quorum=quorum)
        stack.callback(follower.close)
        yield Pair(follower, leader, known)


@pytest.fixture
def own(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "own").mkdir()
    return certificate(tmp_path / "own")


@pytest.fixture
def other(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "other").mkdir()
    return certificate(tmp_path / "other")


def test_call_by_tls_goes_to_a_leader_whose_certificate_is_accepted(
    own: tuple[Path, Path], other: tuple[Path, Path]
) -> None:
    with pair(own, other, str(other[0])) as found:
        found.submitted("forwarded")
        assert found.leader.call("get-run", ADMIN, name="forwarded")
        refused(grpc.StatusCode.NOT_FOUND, found.follower.call, "get-run", ADMIN, name="forwarded")


def test_call_goes_to_a_leader_whose_certificate_the_machine_trusts(
    own: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own[0]))
    with pair(own, own, "") as found:
        found.submitted("forwarded")
        assert found.leader.call("get-run", ADMIN, name="forwarded")


def test_certificates_in_the_folder_of_the_machine_are_trusted(
    own: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "trusted"
    folder.mkdir()
    (folder / "0a1b2c3d.0").symlink_to(own[0])
    (folder / "0a1b2c3e.0").symlink_to(tmp_path / "gone")
    (folder / "README").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    assert LeaderTrust("").roots() == own[0].read_bytes()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    assert LeaderTrust("").roots() is None, "then gRPC has its own"


def test_leader_of_another_authority_gets_no_call_and_the_error_names_the_file(
    own: tuple[Path, Path], other: tuple[Path, Path]
) -> None:
    with pair(own, other, str(own[0])) as found:
        said = found.refusal()
        assert found.leader.counter.begun == 0
    assert "the certificate of the leader, one, is not accepted" in said
    assert "nothing was sent or recorded" in said
    assert f"quorum.ca, {own[0]}: set quorum.ca to a file with the authority" in said


def test_leader_with_a_certificate_for_another_host_gets_no_call(own: tuple[Path, Path]) -> None:
    with pair(own, own, str(own[0]), host="127.0.0.1") as found:
        said = found.refusal()
        assert found.leader.counter.begun == 0
        assert f"let that certificate name the host of 127.0.0.1:{found.leader.port}" in said


def test_leader_without_tls_is_said_to_have_none(own: tuple[Path, Path]) -> None:
    with pair(own, None, str(own[0])) as found:

        def said() -> str:
            """Return the refusal; on a busy machine the call may time out before TLS has failed."""
            with pytest.raises(grpc.RpcError, match=UNREACHED) as raised:
                found.submit("refused")
            error: Any = raised.value
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            details = str(error.details())
            return details if "give all services tls.cert" in details else ""

        until(said, "what was in the way is said")
        assert found.leader.counter.begun == 0


def test_file_of_certificates_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone.pem"
    with pytest.raises(CommandError, match=rf"quorum\.ca: {gone}: No such file"):
        LeaderTrust(str(gone)).roots()


def test_call_that_waits_for_a_leader_is_refused_once_another_one_leads(
    own: tuple[Path, Path],
) -> None:
    """Another call, which goes to the new leader, closes the connection to the old one."""
    with pair(own, own, str(own[0])) as found, create_server(("127.0.0.1", 0)) as silent:
        new = found.known.leadership
        gone = LeaderRecord(
            name="gone",
            address="https://gone:1",
            term=2,
            grpc=f"localhost:{silent.getsockname()[1]}",
        )
        found.known.leadership = Leadership(leads=False, leader=gone)
        silent.settimeout(WAIT_S)
        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(refused, grpc.StatusCode.UNAVAILABLE, found.submit, "waits")
            accepted, _ = silent.accept()
            with accepted:
                found.known.leadership = new
                found.submitted("forwarded")
                (line,) = waiting.result(WAIT_S).lines
    assert "the leader, gone, cannot be reached" in line
