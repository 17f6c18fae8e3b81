"""Services of one ledger, and clients that send requests to any of them by REST.

One service leads, and the others forward to it. The answers of a service are right, even if it was
paused, cut off or killed meanwhile, and a read that does not say that it lags includes everything
acknowledged before it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Lock, Thread

from quorate.adapters.clock_system import SystemClock
from quorate.cli.creation import create_ledger
from quorate.testing.client_history import Operation
from tests.bounds import WAIT_S, until
from tests.etcd import daemons
from tests.etcd.daemons import SECRETS, Daemon
from tests.etcd.fault_cluster import Cluster
from tests.etcd.fault_schedulers import ledger_url
from tests.etcd.fault_world import RECORDED_S
from tests.etcd.rest_client import RestClient
from tests.etcd.stepped_clock import AHEAD_FILE, CODE, set_ahead
from tests.etcd_server import pause
from tests.service.program import START_S, client, reserved_port

SERVICES = 3
CLIENTS = 4


class Services:
    """Services ``s0`` to ``s2`` of one ledger, at fixed addresses.

    A service that could not start because etcd did not answer is restarted, as by its unit.
    """

    def __init__(self, cluster: Cluster, folder: Path, stack: ExitStack) -> None:
        self.names: Sequence[str] = [f"s{at}" for at in range(SERVICES)]
        self._all: dict[str, Daemon] = {}
        for name in self.names:
            own = folder / name
            own.mkdir()
            url = ledger_url(cluster.endpoints_for(name), folder, f"{name}/ledger")
            listen = f"127.0.0.1:{stack.enter_context(reserved_port())}"
            words = ("--listen", listen)
            daemon = Daemon(name, own, url, words, code=CODE)
            daemon.address = f"http://{listen}"
            self._all[name] = daemon
        self.url = ledger_url(cluster.endpoints, folder, "test")
        self.token = ""
        self._turn = Lock()
        self._ending = Event()
        self._unit = Thread(target=self._keep_up, name="unit")

    @property
    def addresses(self) -> list[str]:
        return [each.address for each in self._all.values()]

    def begin(self) -> None:
        """Create the ledger, and start all services; return when they agree who leads."""
        first, *others = self._all.values()
        create_ledger(first.ledger, SystemClock(), actor="test")
        for each in others:
            for secret in SECRETS:
                shutil.copy(first.folder / f"ledger.{secret}", each.folder / f"ledger.{secret}")
        self.start_all()
        self._unit.start()
        served = daemons.Cluster(list(self._all.values()))
        self.token = until(served.first_token, "a leader prints a token", START_S)
        self.wait_agreed()

    def wait_agreed(self) -> str:
        """Return the name of the leader when all services agree."""
        leader, _ = daemons.Cluster(list(self._all.values())).by_role()
        return leader.name

    def apply(self, trees: Sequence[Mapping[str, object]]) -> None:
        """Apply documents through one of the services, when it knows the token and a leader."""
        answers: list[str] = []

        def is_applied() -> bool:
            applied = http.post("/apply", json={"documents": trees})
            answers.append(applied.text)
            return applied.is_success

        with client(f"{self.addresses[0]}/api/v1", self.token) as http:
            until(is_applied, "documents are applied", START_S, tell=lambda: answers[-1])

    def pause(self, name: str) -> None:
        with self._turn:
            self._check(name)
            pause(self._process(name))

    def go_on(self, name: str) -> None:
        with self._turn:
            self._process(name).send_signal(signal.SIGCONT)

    def _process(self, name: str) -> subprocess.Popen[bytes]:
        served = self._all[name].program
        assert served is not None, name
        return served.process

    def set_ahead(self, name: str, ahead_ms: int) -> None:
        set_ahead(self._all[name].folder / AHEAD_FILE, ahead_ms)

    def kill(self, name: str) -> None:
        with self._turn:
            self._check(name)
            self._all[name].kill()

    def start(self, name: str) -> None:
        with self._turn:
            self._all[name].begin()

    def _check(self, name: str) -> None:
        """Fail if ``name`` has ended by itself, unless etcd did not answer at its start."""
        ended = self._process(name).poll()
        is_excused = ended is None or self._all[name].is_without_etcd()
        assert is_excused, f"{name} ended: {ended}\n{self.log(name)}"

    def _keep_up(self) -> None:
        """Restart services that ended because etcd did not answer."""
        while not self._ending.wait(0.2):
            with self._turn:
                for each in self._all.values():
                    if each.is_without_etcd():
                        each.kill()
                        each.begin()

    def start_all(self) -> None:
        for name in self.names:
            self.start(name)

    def end(self) -> None:
        """End the services like an operator; each must have run until then."""
        self._stop_unit()
        for name in self.names:
            process = self._process(name)
            assert process.poll() is None, self.log(name)
            process.terminate()
        for name in self.names:
            assert self._process(name).wait(START_S) == 0, self.log(name)

    def _stop_unit(self) -> None:
        self._ending.set()
        if self._unit.is_alive():
            self._unit.join(WAIT_S)

    def close(self) -> None:
        self._stop_unit()
        for each in self._all.values():
            each.stack.close()

    def log(self, name: str) -> str:
        return self._all[name].log()


class Clients:
    """Clients that send requests until the end of the block."""

    def __init__(self, services: Services, seed: int, *, next_s: float, way_s: float) -> None:
        asked = services.addresses
        names = [f"c{number}" for number in range(CLIENTS)]
        self._all = [
            RestClient(name, asked, services.token, seed, next_s=next_s, way_s=way_s)
            for name in names
        ]

    @contextmanager
    def asking(self) -> Iterator[None]:
        try:
            for each in self._all:
                each.start()
            yield
        finally:
            for each in self._all:
                each.stop()

    def wait_recorded(self, fewest: int = CLIENTS) -> None:
        """Return when ``fewest`` clients have recorded a request that they sent after now."""
        now = time.monotonic_ns()
        until(
            lambda: self._recorded_after(now) >= fewest or self._trouble(),
            f"{fewest} clients get something recorded",
            RECORDED_S,
            every_s=0.1,
            tell=lambda: [each.operations[-2:] for each in self._all],
        )
        assert self._trouble() == []

    def _recorded_after(self, now: int) -> int:
        return sum(each.recorded_after(now) for each in self._all)

    def _trouble(self) -> list[str]:
        return [each.trouble for each in self._all if each.trouble]

    def operations(self) -> list[Operation]:
        return [each for some in self._all for each in some.operations]
