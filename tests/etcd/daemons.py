"""Several `quorate serve` on one ledger in etcd, as separate processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from quorate.adapters.clock_system import SystemClock
from quorate.cli.creation import create_ledger
from quorate.ports.errors import StoreDownError
from tests.bounds import until
from tests.etcd_server import pause
from tests.service.program import CLI, LISTENS, START_S, Program, client, got, program

SECRETS = ("key", "lottery")
TOKEN = re.compile(r"(?m)^  (qt_[0-9a-f]+_[0-9a-f]+)$")
_NO_ETCD: Final = re.compile(r"(?m)^error: etcd ")
"""The end of the log of a service that could not start because etcd did not answer."""


@dataclass(slots=True)
class Daemon:
    """One service; ``words`` are its arguments besides the ledger, ``code`` is its program."""

    name: str
    folder: Path
    ledger: str
    words: Sequence[str]
    stack: ExitStack = field(default_factory=ExitStack)
    program: Program | None = None
    address: str = ""
    code: str = CLI

    def begin(self) -> Program:
        """Start the service; return at once."""
        named = ("--ledger", self.ledger, "--quorum-name", self.name)
        served = self.stack.enter_context(program(self.folder, *named, *self.words, code=self.code))
        self.program = served
        return served

    def wait_ready(self) -> None:
        """Return when the service listens; restart it if etcd did not answer at its start."""
        self.address = until(self._listens, f"{self.name} listens", START_S, tell=self.log)

    def _listens(self) -> str:
        assert self.program is not None
        if self.is_without_etcd():
            self.kill()
            self.begin()
        ended = self.program.process.poll()
        assert ended is None or self.is_without_etcd(), f"{self.name} ended: {ended}\n{self.log()}"
        found = re.search(LISTENS, self.program.out)
        return found[1] if found else ""

    def is_without_etcd(self) -> bool:
        """Return whether the service has ended because etcd did not answer at its start."""
        served = self.program
        has_ended = served is not None and served.process.poll() is not None
        return has_ended and _NO_ETCD.search(self.log()) is not None

    def log(self) -> str:
        """Return the end of the service's log."""
        return "" if self.program is None else self.program.err[-3_000:]

    def grpc(self) -> str:
        """Return the service's address for gRPC, from its log."""
        assert self.program is not None
        found = re.search(r"beside REST: grpc://(\S+)", self.program.err)
        assert found is not None, self.program.err
        return found[1]

    def kill(self) -> None:
        """Kill the service, like a lost machine."""
        self.stack.close()
        self.program = None

    def pause(self) -> None:
        """Stop the service with SIGSTOP."""
        assert self.program is not None
        pause(self.program.process)

    def go_on(self) -> None:
        """Continue the service with SIGCONT."""
        assert self.program is not None
        os.kill(self.program.process.pid, signal.SIGCONT)

    def standing(self) -> dict[str, Any]:
        """Return the answer of ``/readyz``; it is empty if the service does not answer."""
        try:
            found = got(f"{self.address}/readyz")
        except httpx.TransportError:
            return {}
        tree: dict[str, Any] = found.json()
        return tree

    def term(self) -> int:
        """Return the term that the service reports, as soon as it answers."""
        return int(until(lambda: self.standing().get("term"), f"{self.name} knows of a term"))


@dataclass(slots=True)
class Cluster:
    """The services of one ledger, and the token of its first admin."""

    daemons: list[Daemon]
    token: str = ""

    def first_token(self) -> str:
        """Return the token that the first leader prints; empty before that."""
        said = "".join(each.program.out for each in self.daemons if each.program is not None)
        found = TOKEN.search(said)
        return found[1] if found else ""

    def by_role(self) -> tuple[Daemon, list[Daemon]]:
        """Return the leader and the other services, when all running services agree who leads."""
        return until(self._agreed, "one leads, and all that run know it", START_S, tell=self._said)

    def term(self) -> int:
        """Return the term on which all running services agree."""

        def agreed() -> int | None:
            terms = {each.term() for each in self._running()}
            return terms.pop() if len(terms) == 1 else None

        return until(agreed, "all that run are of one term", tell=self._said)

    def client(self, daemon: Daemon) -> httpx.Client:
        """Return a client of one service with the admin's token."""
        return client(f"{daemon.address}/api/v1", self.token)

    def _running(self) -> list[Daemon]:
        return [each for each in self.daemons if each.program is not None]

    def _agreed(self) -> tuple[Daemon, list[Daemon]] | None:
        running = self._running()
        said = [each.standing() for each in running]
        leaders = [
            each for each, tree in zip(running, said, strict=True) if tree.get("role") == "leader"
        ]
        if len(leaders) != 1 or {tree.get("leader") for tree in said} != {leaders[0].name}:
            return None
        return leaders[0], [each for each in running if each is not leaders[0]]

    def _said(self) -> list[Any]:
        return [
            (each.name, each.standing(), each.program and each.program.err[-1_500:])
            for each in self._running()
        ]


def _is_created(ledger: str) -> bool:
    """Create a ledger; return whether etcd answered in time. Otherwise remove all of the ledger."""
    try:
        create_ledger(ledger, SystemClock(), actor="test")
    except StoreDownError:
        return False
    return True


@contextmanager
def cluster(
    endpoints: str | Callable[[str], str],
    name: str,
    folder: Path,
    *words: str,
    daemons: int = 3,
    code: str = CLI,
) -> Iterator[Cluster]:
    """Serve one new ledger by several services until the end of the block.

    ``endpoints`` are the addresses of etcd, for all services or by the name of the service.
    """
    found = Cluster([])
    with ExitStack() as stack:
        for number in range(1, daemons + 1):
            own = folder / f"daemon-{number}"
            own.mkdir()
            where = endpoints if isinstance(endpoints, str) else endpoints(own.name)
            ledger = f"etcd://{where}/{name}?local={own / 'ledger'}&archive={folder / 'old'}"
            daemon = Daemon(own.name, own, ledger, words, code=code)
            stack.callback(daemon.stack.close)
            found.daemons.append(daemon)
            if number == 1:
                until(partial(_is_created, ledger), "the ledger is made", START_S)
            else:
                for secret in SECRETS:
                    shutil.copy(folder / f"daemon-1/ledger.{secret}", own / f"ledger.{secret}")
        # All services start at once, because each needs seconds to import its modules.
        for daemon in found.daemons:
            daemon.begin()
        for daemon in found.daemons:
            daemon.wait_ready()
        found.token = until(found.first_token, "the first leader prints a token", START_S)
        yield found
