"""A receiver of webhooks on a free port of loopback: keeps POSTs, answers as a test says."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from tests.bounds import WAIT_S

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass(frozen=True, slots=True)
class Got:
    """One POST."""

    id: str
    at_s: int
    signature: str
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        """The notice."""
        found: dict[str, Any] = json.loads(self.body)["data"]
        return found

    def is_signed(self, key: bytes = KEY) -> bool:
        """Return whether the POST has a valid signature."""
        signed = f"{self.id}.{self.at_s}.".encode() + self.body
        wanted = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return self.signature == f"v1,{wanted}"


class Receiver:
    """``answer`` gets each POST, on a separate thread, and returns the status."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answer: Callable[[Got], int] = lambda _: 200
        self.headers: dict[str, str] = {}
        self._came = Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/in"

    def wait(self, count: int, timeout_s: float = WAIT_S) -> list[Got]:
        """Return the POSTs as soon as there are at least ``count``."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.got) >= count, timeout_s), self.got
            return list(self.got)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                got = Got(
                    self.headers["webhook-id"],
                    int(self.headers["webhook-timestamp"]),
                    self.headers["webhook-signature"],
                    body,
                )
                with receiver._came:
                    receiver.got.append(got)
                    receiver._came.notify_all()
                status = receiver.answer(got)
                try:
                    self.send_response(status)
                    for name, value in receiver.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                except OSError:
                    return  # The sender did not wait for the answer.

            def log_message(self, *args: object) -> None:
                del args

        return Handler


def receiving() -> AbstractContextManager[Receiver]:
    """Listen until the end of the block."""
    return closing(Receiver())


def secret_file(folder: Path, text: str = SECRET, name: str = "hook.secret") -> Path:
    """Return the path of a new file with a secret, readable only by its owner."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(text + "\n", "utf-8")
    return path
