"""`quorate serve` as a program of its own, for tests: it ends with the test at the latest."""

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
"""What it prints when it answers, with its address."""
START_S: Final = 4 * WAIT_S
"""How long a start may take: it is seconds of one core, for which many others may wait."""


class Program:
    """`quorate serve` as a program of its own."""

    def __init__(
        self, folder: Path, *words: str, python: Sequence[str] = (), code: str = CLI
    ) -> None:
        # Written to files: a pipe that nobody reads would stop the program.
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
        """Return where it listens."""
        return self.said(LISTENS)

    @property
    def token(self) -> str:
        """The token that it shows when it begins a ledger."""
        return self.said(r"(?m)^  (qt_[0-9a-f]+_[0-9a-f]+)$")

    def said(self, pattern: str) -> str:
        """Return the first group of ``pattern``, once it is in what the program prints."""
        found = until(
            lambda: re.search(pattern, self.out),
            f"{pattern!r} is printed",
            START_S,
            server=self.process,
            tell=lambda: self.out + self.err,
        )
        return found[1]

    def logged(self, text: str, within_s: float = WAIT_S) -> None:
        """Return once ``text`` is in its log."""
        until(
            lambda: text in self.err,
            f"{text!r} is logged",
            within_s,
            server=self.process,
            tell=lambda: self.err,
        )

    def wait(self) -> int:
        """Return its exit code, once it has ended by itself."""
        return self.process.wait(WAIT_S)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Return the exit code after a signal."""
        self.process.send_signal(number)
        return self.wait()

    def clear(self) -> None:
        """End it, whatever state it is in."""
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
    """Serve in ``folder`` until the block ends, at the latest."""
    found = Program(folder, "--listen", listen, *words, python=python, code=code)
    try:
        yield found
    finally:
        found.clear()


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port of this machine that no other process gets until the block ends.

    It is bound here and never listened on. On Linux a service that may reuse addresses can listen
    there beside that; the system gives it to no process that asks for any port, and to none that
    connects: between two lives a client would otherwise be connected to itself.
    """
    with socket.socket() as reserving:
        reserving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving.bind(("127.0.0.1", 0))
        port: int = reserving.getsockname()[1]
        if sys.platform != "linux":
            reserving.close()
        yield port


TRUSTING_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For what is not encrypted: reading trusted roots takes 80 ms for each client."""


def client(url: str, token: str) -> httpx.Client:
    """Return a client that shows ``token``."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(
        base_url=url, headers=headers, trust_env=False, timeout=WAIT_S, verify=TRUSTING_NOBODY
    )


def got(url: str) -> httpx.Response:
    """Return the answer of a service that is asked without a token; it comes soon, or never."""
    return httpx.get(url, timeout=5.0, trust_env=False, verify=TRUSTING_NOBODY)
