"""A daemon of its own for a test: on a free loopback port, over a ledger in a temporary folder."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import httpx

from quorate.adapters.clock_system import SystemClock
from quorate.cli.creation import create_ledger
from quorate.cli.signing import file_signer
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import configured
from quorate.service.config_values import Address
from quorate.service.daemon import Daemon, Extras
from quorate.service.http.accepting import Connections
from quorate.service.ledger_thread import LedgerThread
from tests.bounds import WAIT_S
from tests.service.program import TRUSTING_NOBODY

START_S = 2 * WAIT_S
"""How long a start or an end may take: what a service waits for itself, on a busy machine."""
T = TypeVar("T")
LOCAL = {"executor": "local", "executor.allow_root": "true"}
"""Work runs on this machine as the user who runs the tests, also where that is root."""


class Served:
    """A daemon that runs in a thread until it is stopped.

    ``ledger_thread`` is there once it has started: for how many wait, or are connected.
    """

    ledger_thread: LedgerThread

    def __init__(
        self, ledger: Path, flags: Mapping[str, str], extras: Extras, file: str | None = None
    ) -> None:
        given = {"listen": "127.0.0.1:0", "ledger": str(ledger), **flags}
        surfaces = [*extras.surfaces, self._beside]
        self.daemon = Daemon(configured(given, {}, file), replace(extras, surfaces=surfaces))
        self.address: Address | None = None
        self.token: str | None = None
        self._told = Event()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="served", daemon=True)

    async def _beside(self, ledger_thread: LedgerThread, _: Authenticator) -> AsyncIterator[str]:
        self.ledger_thread = ledger_thread
        yield "a test that looks at it"

    def _run(self) -> None:
        try:
            asyncio.run(self.daemon.run(self._tell))
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits
            self._error = error
        finally:
            self._told.set()

    def _tell(self, address: Address, token: str | None) -> None:
        self.address, self.token = address, token
        self._told.set()

    def start(self) -> None:
        """Return when it is ready; raises what keeps it from that."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Return when it listens; raises what keeps it from that."""
        self._thread.start()
        assert self._told.wait(START_S), "it did not start in time"
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Return when it has ended; raises what it ended by."""
        self.daemon.stop()
        self._thread.join(START_S)
        assert not self._thread.is_alive(), "it did not stop in time"
        if self._error is not None:
            raise self._error

    def wait_ready(self) -> None:
        """Return when it is ready."""
        with self.client(None) as client:
            assert client.get("/readyz").status_code == 200

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.address}"

    def client(self, token: str | None, **more: Any) -> httpx.Client:
        """Return a client that shows ``token``."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        more.setdefault("timeout", WAIT_S)
        more.setdefault("verify", TRUSTING_NOBODY)
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, **more)

    @property
    def connections(self) -> Connections:
        """Those that are open."""
        found = self.ledger_thread.connections
        assert found is not None
        return found

    def on_loop(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have ``work`` done in the service's event loop; return what will be its result."""
        loop = self.ledger_thread._loop
        assert loop is not None
        return asyncio.run_coroutine_threadsafe(work, loop)

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Have the service's event loop do nothing while this is entered.

        What a client does meanwhile comes to the service at once, however slow the client is.
        """
        begun, let_go = Event(), Event()

        async def hold() -> None:
            begun.set()
            assert let_go.wait(WAIT_S)

        holding = self.on_loop(hold())
        assert begun.wait(WAIT_S)
        try:
            yield
        finally:
            let_go.set()
            holding.result(WAIT_S)

    def under_way(self) -> int:
        """Return how many requests have come with their heads and are not answered yet."""
        server = self.daemon._server
        return 0 if server is None else len(server.server_state.tasks)

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        """Return a bare connection, on which little waits to be read if that is asked for."""
        assert self.address is not None
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_bytes is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        found.settimeout(WAIT_S)
        found.connect((self.address.host, self.address.port))
        return found

    def raw(self, data: bytes) -> bytes:
        """Return everything that is answered to ``data`` until the connection is closed."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    parts = []
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def new_ledger(folder: Path) -> Path:
    """Return the path of a new ledger in ``folder``: a copy of the one that this process made."""
    for each in _first_ledger().iterdir():
        shutil.copy2(each, folder)
    return folder / LEDGER


LEDGER = "ledger.db"


@cache
def _first_ledger() -> Path:
    """Return a folder with a new ledger; hashing the chain of its lottery takes a tenth second."""
    folder = Path(tempfile.mkdtemp(prefix="quorate-ledger-"))
    atexit.register(shutil.rmtree, folder)
    create_ledger(str(folder / LEDGER), SystemClock(), actor="test")
    return folder


@contextmanager
def serving(
    ledger: Path, flags: Mapping[str, str] | None = None, extras: Extras | None = None
) -> Iterator[Served]:
    """Serve ``ledger`` for as long as the test needs it; ``flags`` are settings by their keys."""
    found = Served(ledger, flags or {}, extras or Extras(signer=file_signer(ledger)))
    found.start()
    try:
        yield found
    finally:
        found.stop()
