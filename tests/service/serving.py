"""A separate daemon for a test: on a free loopback port, with a ledger in a temporary folder."""

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
"""The time limit of a start or an end, which includes the waits of the service itself."""
T = TypeVar("T")
LOCAL = {"executor": "local", "executor.allow_root": "true"}
"""Work runs on this machine as the user who runs the tests, even if that user is root."""


class Served:
    """A daemon that runs in a thread until it is stopped.

    ``ledger_thread`` is set after the start; tests read the waiting requests and connections there.
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
        """Return when it is ready; raise the error that prevents this."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Return when it listens; raise the error that prevents this."""
        self._thread.start()
        assert self._told.wait(START_S), "it did not start in time"
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Return when it has ended; raise the error that ended it."""
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
        """Its address."""
        return f"http://{self.address}"

    def client(self, token: str | None, **more: Any) -> httpx.Client:
        """Return a client that sends ``token``."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        more.setdefault("timeout", WAIT_S)
        more.setdefault("verify", TRUSTING_NOBODY)
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, **more)

    @property
    def connections(self) -> Connections:
        """Its open connections."""
        found = self.ledger_thread.connections
        assert found is not None
        return found

    def on_loop(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` in the service's event loop; return a future for its result."""
        loop = self.ledger_thread._loop
        assert loop is not None
        return asyncio.run_coroutine_threadsafe(work, loop)

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Block the service's event loop during the block.

        So all requests that a slow client sends meanwhile reach the service at once.
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
        """Return the number of requests whose heads have arrived and that are not answered yet."""
        server = self.daemon._server
        return 0 if server is None else len(server.server_state.tasks)

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        """Return a plain connection, with a small receive buffer if requested."""
        assert self.address is not None
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_bytes is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        found.settimeout(WAIT_S)
        found.connect((self.address.host, self.address.port))
        return found

    def raw(self, data: bytes) -> bytes:
        """Return everything that the service answers to ``data`` until it closes the connection."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    """Return everything that arrives until the other side closes the connection."""
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
    """Return the path of a new ledger in ``folder``: a copy of the first ledger of this process."""
    for each in _first_ledger().iterdir():
        shutil.copy2(each, folder)
    return folder / LEDGER


LEDGER = "ledger.db"


@cache
def _first_ledger() -> Path:
    """Return a folder with a new ledger; hashing its lottery's chain takes a tenth of a second."""
    folder = Path(tempfile.mkdtemp(prefix="quorate-ledger-"))
    atexit.register(shutil.rmtree, folder)
    create_ledger(str(folder / LEDGER), SystemClock(), actor="test")
    return folder


@contextmanager
def serving(
    ledger: Path, flags: Mapping[str, str] | None = None, extras: Extras | None = None
) -> Iterator[Served]:
    """Serve ``ledger`` until the end of the block; ``flags`` are settings by their keys."""
    found = Served(ledger, flags or {}, extras or Extras(signer=file_signer(ledger)))
    found.start()
    try:
        yield found
    finally:
        found.stop()
