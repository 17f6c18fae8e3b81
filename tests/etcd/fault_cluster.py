"""Members of etcd with links, between members and to clients, that a test controls."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import httpx

from tests.bounds import WAIT_S, until
from tests.etcd.fault_proxy import Links, process_of
from tests.etcd_server import pause, running
from tests.service.program import START_S, got, reserved_port

MEMBERS: Final = 3


class Cluster:
    """Members ``m0`` ...; each can be killed, paused and restarted with its data."""

    def __init__(
        self, program: Path, folder: Path, links: Links, stack: ExitStack, members: int
    ) -> None:
        self.links = links
        self._stack = stack
        self._folder = folder
        # A restarted member needs its old ports, so they stay reserved until the end.
        self.client_ports = [stack.enter_context(reserved_port()) for _ in range(members)]
        peer_ports = [stack.enter_context(reserved_port()) for _ in range(members)]
        shown = [links.listen(self._caller, f"m{at}", port) for at, port in enumerate(peer_ports)]
        cluster = ",".join(f"m{at}=http://127.0.0.1:{port}" for at, port in enumerate(shown))
        self._arguments: list[list[str | Path]] = []
        for at in range(members):
            url = f"http://127.0.0.1:{self.client_ports[at]}"
            self._arguments.append(
                [
                    *(program, "--name", f"m{at}", "--data-dir", folder / f"m{at}"),
                    *("--listen-client-urls", url, "--advertise-client-urls", url),
                    *("--listen-peer-urls", f"http://127.0.0.1:{peer_ports[at]}"),
                    *("--initial-advertise-peer-urls", f"http://127.0.0.1:{shown[at]}"),
                    *("--initial-cluster", cluster, "--log-level", "error"),
                    # The kernel still writes what a killed process has written.
                    "--unsafe-no-fsync",
                ]
            )
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def endpoints_for(self, client: str) -> str:
        """Return addresses of all members that only ``client`` uses."""
        ports = [
            self.links.listen(client, f"m{at}", port) for at, port in enumerate(self.client_ports)
        ]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    @property
    def endpoints(self) -> str:
        """Addresses of all members, without links of the test in between."""
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports)

    @property
    def names(self) -> Sequence[str]:
        """The names of all members."""
        return [f"m{at}" for at in range(len(self._arguments))]

    def start(self, name: str) -> None:
        """Start the member ``name`` unless it is running."""
        known = self._running.get(name)
        if known is None or known.poll() is not None:
            arguments = self._arguments[int(name[1:])]
            block = running(arguments, self._folder / f"{name}.log")
            self._running[name] = self._stack.enter_context(block)

    def start_all(self) -> None:
        """Start the members that are not running; return when a quorum answers."""
        for name in self.names:
            self.start(name)
        until(self._answers, "etcd answers", START_S, tell=self._logs)

    def pause(self, name: str) -> None:
        """Stop the member ``name`` with SIGSTOP."""
        pause(self._running[name])

    def go_on(self, name: str) -> None:
        """Continue the member ``name`` with SIGCONT."""
        self._running[name].send_signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Kill the member ``name``."""
        process = self._running[name]
        process.kill()
        process.wait(WAIT_S)

    def _caller(self, port: int) -> str:
        """Return the name of the member that connected from ``port``."""
        pids = {process.pid: name for name, process in self._running.items()}
        pid = process_of(port, pids)
        return "" if pid is None else pids[pid]

    def _answers(self) -> bool:
        try:
            for port in self.client_ports:
                if '"true"' not in got(f"http://127.0.0.1:{port}/health").text:
                    return False
        except httpx.TransportError:
            return False
        return True

    def _logs(self) -> str:
        logs = sorted(self._folder.glob("m*.log"))
        return "\n".join(each.read_text("utf-8", "replace")[-1_000:] for each in logs)


@contextmanager
def faulty_cluster(program: Path, folder: Path, members: int = MEMBERS) -> Iterator[Cluster]:
    """Run a cluster of ``members`` members until the end of the block."""
    with Links() as links, ExitStack() as stack:
        cluster = Cluster(program, folder, links, stack, members)
        cluster.start_all()
        yield cluster
