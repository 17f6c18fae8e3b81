"""A ledger whose thread can be held in the middle of a commit, and a service on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import sleep

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Block, Head
from quorate.service.daemon import Extras
from tests.bounds import WAIT_S
from tests.service.serving import Served, new_ledger
from tests.service.worlds import run_tree

HELD_S_MAX = 5 * WAIT_S


class HeldLedger(SqliteStore):
    """A store that waits before it appends, from when it is told to hold until it is released.

    Otherwise each append takes ``append_s`` longer than usual.
    """

    hold: Event
    entered: Event
    let_go: Event
    append_s = 0.0

    def append(self, block: Block, *, expected: Head) -> None:
        sleep(self.append_s)
        if self.hold.is_set():
            self.entered.set()
            assert self.let_go.wait(HELD_S_MAX)
        super().append(block, expected=expected)


class Held:
    """A service whose ledger can be held."""

    def __init__(self, folder: Path, **flags: str) -> None:
        self.hold, self.entered, self.let_go = Event(), Event(), Event()
        self.stores: list[HeldLedger] = []
        path = new_ledger(folder)
        extras = Extras(open_store=self._open)
        self.served = Served(path, {key.replace("__", "."): flags[key] for key in flags}, extras)

    def _open(self, url: str, *, wait_s: float) -> HeldLedger:
        found = HeldLedger.open(Path(url), wait_s=wait_s)
        found.hold, found.entered, found.let_go = self.hold, self.entered, self.let_go
        self.stores.append(found)
        return found

    def slow_down(self, append_s: float) -> None:
        """Let each append take ``append_s`` longer from now on."""
        for store in self.stores:
            store.append_s = append_s

    def head(self, request: str, body: bytes = b"", token: str | None = None) -> bytes:
        """Return the bytes of a request with ``token``, or with an admin's token."""
        lines = [
            f"{request} HTTP/1.1",
            "Host: held",
            f"Authorization: Bearer {token or self.served.token}",
            f"Content-Length: {len(body)}",
            "Content-Type: application/json",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def submit(self, name: str) -> bytes:
        """Return the bytes of an admin's request that submits a run."""
        document = run_tree(name, "team")
        return self.head("POST /api/v1/runs", json.dumps({"document": document}).encode())


@contextmanager
def held_service(folder: Path, **flags: str) -> Iterator[Held]:
    """Serve a ledger with one owner; ``flags`` are settings, with ``__`` for the dot."""
    found = Held(folder, **flags)
    found.served.start()
    try:
        with found.served.client(found.served.token) as client:
            tenant = client.post("/api/v1/tenants", json={"id": "team"})
            assert tenant.status_code == 200, tenant.text
        yield found
    finally:
        found.let_go.set()
        found.served.stop()
