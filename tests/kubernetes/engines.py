"""Real servers of Kubernetes for tests: etcd, kube-apiserver, and a CRD server of a newer version.

They are in the folder named by ``KUBEBUILDER_ASSETS``, as other tools expect, or beside the
checkout, where ``engines/unpack`` puts them. Only kubelets are simulated, by ``kubelet.py``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from quorate.adapters.kubernetes.cluster_access import ClusterAccess, from_kubeconfig
from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.ports.errors import ClusterError
from tests.bounds import WAIT_S, until
from tests.etcd_server import free_port, one_member, running
from tests.tidy.tree import ROOT

TOKEN = "secret"  # noqa: S105 - of a server on the loopback that ends with the test
PROGRAMS = ("etcd", "kube-apiserver")
READY_S = 180.0
"""The time limit for the start of an API server: it needs 5 s of CPU on a busy machine."""


class NoProgramsError(Exception):
    """There is no control plane on this machine; the message says what is missing."""


def find_programs(folder: Path) -> Path:
    """Return the folder with the programs, unpacked into ``folder`` if needed, or skip."""
    try:
        return located_programs(folder)
    except NoProgramsError as error:
        pytest.skip(str(error))


def located_programs(folder: Path) -> Path:
    """Return the folder with the programs; unpack them into ``folder`` if needed.

    Raise ``NoProgramsError`` if there are none.
    """
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if named:
        missing = [each for each in PROGRAMS if not (Path(named) / each).is_file()]
        if missing:
            raise NoProgramsError(f"KUBEBUILDER_ASSETS={named} has no {missing[0]}")
        return Path(named)
    unpack = ROOT.parent / "shared" / "engines" / "unpack"
    if not unpack.is_file():
        raise NoProgramsError(
            "no control plane: set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver"
        )
    if (folder / PROGRAMS[-1]).is_file():
        return folder
    done = subprocess.run([unpack, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoProgramsError(
            f"the control plane beside the checkout cannot be unpacked: {done.stderr}"
        )
    return folder


@contextmanager
def etcd(programs: Path, folder: Path) -> Iterator[str]:
    """Run etcd; yield its address."""
    with one_member(programs / "etcd", folder) as member:
        yield member.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running API server."""

    kubeconfig: Path
    process: subprocess.Popen[bytes] | None = None
    store: str = ""

    @property
    def access(self) -> ClusterAccess:
        """The address and the credentials of the server."""
        return from_kubeconfig(self.kubeconfig)

    def api(self) -> KubeApi:
        """Return a new client with the long time limits of tests."""
        return KubeApi(self.access, timeout_s=WAIT_S)

    def compact(self, version: str) -> None:
        """Compact etcd up to ``version``, as a control plane does at times."""
        answer = httpx.post(
            f"{self.store}/v3/kv/compaction", json={"revision": version}, timeout=WAIT_S
        )
        assert answer.is_success, answer.text


@contextmanager
def api_server(programs: Path, folder: Path, uncached: str = "pods") -> Iterator[Server]:
    """Run etcd and kube-apiserver; yield the server when it is ready.

    Watches of the ``uncached`` resource come from etcd itself, so compacting etcd ends them.
    """
    with ExitStack() as stack:
        store = stack.enter_context(etcd(programs, folder))
        port = free_port()
        arguments = _arguments(programs, folder, store, port, uncached)
        process = stack.enter_context(running(arguments, folder / "apiserver.log"))
        ready = _ready(folder, port, process, folder / "certs" / "apiserver.crt")
        yield replace(ready, store=store)


class MortalServer:
    """An API server that a test can kill, and restart with the data in etcd."""

    def __init__(self, programs: Path, folder: Path, store: str) -> None:
        self._folder = folder
        self._store = store
        self._port = free_port()
        self._arguments = _arguments(programs, folder, store, self._port, "pods")
        self._life = ExitStack()

    def start(self) -> Server:
        """Return the server when it is ready."""
        process = self._life.enter_context(running(self._arguments, self._folder / "apiserver.log"))
        ready = _ready(self._folder, self._port, process, self._folder / "certs" / "apiserver.crt")
        self._process = process
        return replace(ready, store=self._store)

    def kill(self) -> None:
        """Kill the server; nothing answers at its port until it is started again."""
        self._process.kill()
        self._life.close()

    def close(self) -> None:
        self._life.close()


@contextmanager
def mortal_server(programs: Path, folder: Path) -> Iterator[MortalServer]:
    """Run etcd, and yield an API server that is not started yet."""
    with etcd(programs, folder) as store:
        found = MortalServer(programs, folder, store)
        try:
            yield found
        finally:
            found.close()


def _arguments(
    programs: Path, folder: Path, store: str, port: int, uncached: str
) -> list[str | Path]:
    """Return the arguments of kube-apiserver."""
    private, public = _signing_key(folder)
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n", "utf-8")
    return [
        programs / "kube-apiserver",
        f"--etcd-servers={store}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}",
        "--service-cluster-ip-range=10.96.0.0/24",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={private}",
        f"--service-account-issuer=https://127.0.0.1:{port}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--enable-priority-and-fairness=false",
        f"--watch-cache-sizes={uncached}#0",
    ]


@contextmanager
def crd_server(programs: Path, folder: Path) -> Iterator[Server]:
    """Run etcd and the CRD server; yield the server when it is ready."""
    with ExitStack() as stack:
        store = stack.enter_context(etcd(programs, folder))
        port = free_port()
        arguments: list[str | Path] = [
            *(programs / "crdserver", "-etcd-servers", store),
            *("-secure-port", str(port), "-cert-dir", folder / "certs"),
        ]
        process = stack.enter_context(running(arguments, folder / "crdserver.log"))
        yield _ready(folder, port, process, None)


def _ready(
    folder: Path, port: int, process: subprocess.Popen[bytes], certificate: Path | None
) -> Server:
    """Return the server when it answers; its certificate is trusted if it is known."""
    kubeconfig = folder / "kubeconfig"
    trust = (
        "insecure-skip-tls-verify: true"
        if certificate is None
        else f"certificate-authority: {certificate}"
    )
    kubeconfig.write_text(
        f"""\
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters: [{{name: test, cluster: {{server: "https://127.0.0.1:{port}", {trust}}}}}]
users: [{{name: test, user: {{token: {TOKEN}}}}}]
""",
        "utf-8",
    )
    server = Server(kubeconfig=kubeconfig, process=process)

    def answers() -> bool:
        try:
            api = server.api()
        except ClusterError:
            return False  # Its certificate does not exist yet.
        try:
            api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", limit="1")
            if certificate is not None:
                api.get("/api/v1/namespaces/default")
        except ClusterError:
            return False
        finally:
            api.close()
        return True

    until(answers, "the API server answers", READY_S, server=process, every_s=0.2)
    return server


def _signing_key(folder: Path) -> tuple[Path, Path]:
    """Return the files of a new key pair that signs tokens of service accounts."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    private, public = folder / "sa.key", folder / "sa.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public
