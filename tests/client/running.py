"""A real service on a free port of this machine, in a thread of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from quorate.adapters.clock_system import SystemClock
from quorate.cli.main import main
from quorate.cli.settings import Settings
from quorate.ports.clock_port import Clock
from quorate.service.config import configured
from quorate.service.config_values import Address
from quorate.service.daemon import Daemon, Extras


@dataclass(frozen=True, slots=True)
class Running:
    """The address of a service, and the token of its admin."""

    url: str
    token: str
    ledger: Path


@contextmanager
def running(
    ledger: Path, *, port: int = 0, token: str = "", clock: Clock | None = None
) -> Iterator[Running]:
    """Serve ``ledger``, which is created if it is missing; ``token`` is from an earlier start.

    ``clock`` None means the clock of the machine.
    """
    if not ledger.exists():
        assert main(["--ledger", str(ledger), "init"], Settings(environ={}, clock=clock)) == 0
    flags = {"listen": f"127.0.0.1:{port}", "ledger": str(ledger), "log.level": "error"}
    daemon = Daemon(configured(flags, {}, None), Extras(clock=clock or SystemClock()))
    told: Future[tuple[Address, str | None]] = Future()

    def run() -> None:
        try:
            asyncio.run(daemon.run(lambda address, first: told.set_result((address, first))))
        except BaseException as error:
            if not told.done():
                told.set_exception(error)
            raise

    thread = Thread(target=run, daemon=True)
    thread.start()
    address, first = told.result(timeout=60)
    try:
        yield Running(f"http://127.0.0.1:{address.port}", first or token, ledger)
    finally:
        daemon.stop()
        thread.join(timeout=60)
        assert not thread.is_alive()
