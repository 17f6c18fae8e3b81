"""`quorate serve` as a separate process, for tests: it ends with the test at the latest."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from tests.bounds import WAIT_S, until

CLI: Final = "from quorate.cli.program import run; run()"
LISTENS: Final = r"serving .* at (https?://\S+)\n"
"""The line that it prints when it listens, with its address."""
START_S: Final = 4 * WAIT_S
"""The time limit of a start, which takes seconds of CPU on a busy machine."""


class Program:
    """`quorate serve` as a separate process."""

    def __init__(
        self, folder: Path, *words: str, python: Sequence[str] = (), code: str = CLI
    ) -> None:
        # Output goes to files, because a pipe that no process reads would block the program.
        self._out = folder / "out.txt"
        self._err = folder / "err.txt"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, *python, "-c", code, "serve", *words],
                cwd=folder,
                env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        return self._out.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._err.read_text(encoding="utf-8")

    def wait_ready(self) -> str:
        """Return its address when it listens."""
        return self.said(LISTENS)

    @property
    def token(self) -> str:
        """The token that it prints when it creates a ledger."""
        return self.said(r"(?m)^  (qt_[0-9a-f]+_[0-9a-f]+)$")

    def said(self, pattern: str) -> str:
        """Return the first group of ``pattern`` as soon as the output matches."""
        found = until(
            lambda: re.search(pattern, self.out),
            f"{pattern!r} is printed",
            START_S,
            server=self.process,
            tell=lambda: self.out + self.err,
        )
        return found[1]

    def logged(self, text: str, within_s: float = WAIT_S) -> None:
        """Return as soon as ``text`` is in its log."""
        until(
            lambda: text in self.err,
            f"{text!r} is logged",
            within_s,
            server=self.process,
            tell=lambda: self.err,
        )

    def wait(self) -> int:
        """Return its exit code when it has ended by itself."""
        return self.process.wait(WAIT_S)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Return the exit code after a signal."""
        self.process.send_signal(number)
        return self.wait()

    def clear(self) -> None:
        """End it in any state."""
        self.process.kill()
        self.wait()


@contextmanager
def program(
    folder: Path,
    *words: str,
    listen: str = "127.0.0.1:0",
    python: Sequence[str] = (),
    code: str = CLI,
) -> Iterator[Program]:
    """Serve in ``folder`` until the end of the block at the latest."""
    found = Program(folder, "--listen", listen, *words, python=python, code=code)
    try:
        yield found
    finally:
        found.clear()


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port of this machine that no other process gets until the end of the block.

    The port is bound here, and no process listens on this socket. On Linux a service that may reuse
    addresses can listen on the port nevertheless; the system gives the port to no process that asks
    for any port, and to no process that connects: otherwise a client could be connected to itself
    between two lives of a service.
    """
    with socket.socket() as reserving:
        reserving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving.bind(("127.0.0.1", 0))
        port: int = reserving.getsockname()[1]
        if sys.platform != "linux":
            reserving.close()
        yield port


TRUSTING_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For connections without TLS: reading the trusted roots takes 80 ms for each client."""


def client(url: str, token: str) -> httpx.Client:
    """Return a client that sends ``token``."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(
        base_url=url, headers=headers, trust_env=False, timeout=WAIT_S, verify=TRUSTING_NOBODY
    )


def got(url: str) -> httpx.Response:
    """Return the answer of a service to a request without a token, with a short time limit."""
    return httpx.get(url, timeout=5.0, trust_env=False, verify=TRUSTING_NOBODY)
