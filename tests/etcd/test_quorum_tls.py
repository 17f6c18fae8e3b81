"""Services of one ledger with REST and gRPC over TLS: each accepts commands."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import grpc
import httpx
import pytest

from tests.bounds import WAIT_S, until
from tests.etcd.certificates import make_certificates
from tests.etcd.daemons import Daemon, cluster
from tests.etcd.test_quorum import called
from tests.etcd_server import Member
from tests.service.conftest import documents_of
from tests.service.grpc_world import document
from tests.service.worlds import run_tree

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(480)]


def test_command_over_tls_is_taken_by_every_service(etcd_member: Member, tmp_path: Path) -> None:
    """One of the two leads, so the other one forwards."""
    made = make_certificates(tmp_path)
    made.server_key.chmod(0o600)
    tls = ("--tls-cert", str(made.server_cert), "--tls-key", str(made.server_key))
    words = ("--grpc-listen", "127.0.0.1:0", *tls, "--quorum-ca", str(made.ca))
    accepted = ssl.create_default_context(cafile=made.ca)
    credentials = grpc.ssl_channel_credentials(made.ca.read_bytes())
    with cluster(etcd_member.endpoint, "tls", tmp_path, *words, daemons=2) as found:
        headers = {"Authorization": f"Bearer {found.token}"}
        said: list[object] = []

        def by_rest(daemon: Daemon, path: str, body: Mapping[str, object]) -> bool:
            with httpx.Client(
                base_url=f"{daemon.address}/api/v1", headers=headers, verify=accepted
            ) as http:
                answer = http.post(path, json=body, timeout=WAIT_S)
            said.append(answer.text)
            return answer.is_success

        def by_grpc(daemon: Daemon, name: str) -> bool:
            with grpc.secure_channel(daemon.grpc(), credentials) as channel:
                try:
                    submitted = document(run_tree(name, "rai", 1))
                    called(channel, "submit-run", found.token, document=submitted)
                except grpc.RpcError as error:
                    said.append(error)
                    return False
            return True

        def tell() -> object:
            return said[-1]

        documents = {"documents": documents_of("fleet.yaml", "teams.yaml")}
        first = found.daemons[0]
        until(lambda: by_rest(first, "/apply", documents), "documents are applied", tell=tell)
        for daemon in found.daemons:
            rest, by_name = f"rest-{daemon.name}", f"grpc-{daemon.name}"
            body = {"document": run_tree(rest, "rai", 1)}
            until(partial(by_rest, daemon, "/runs", body), f"{rest} is taken", tell=tell)
            until(partial(by_grpc, daemon, by_name), f"{by_name} is taken", tell=tell)
