"""Schedulers of one ledger, one for each pool: each is a process with a separate engine.

They append to the ledger themselves, and compete with each other and with the services of the
ledger; meanwhile older blocks move to an archive.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores import store_urls
from quorate.core.commands import Apply
from quorate.documents.parse import Documents, parse_documents
from quorate.loop.engine import Engine
from quorate.testing.client_history import Operation
from tests.bounds import WAIT_S, until
from tests.etcd.fault_cluster import Cluster
from tests.etcd.fault_world import POOLS, RECORDED_S, documents
from tests.etcd.history_file import has_recorded_after, read_histories
from tests.etcd.stepped_clock import set_ahead
from tests.etcd_server import pause, running
from tests.service.program import START_S

PROGRAM = Path(__file__).with_name("fault_scheduler.py")
SCHEDULERS = POOLS


class Schedulers:
    """Schedulers ``w0`` ... of the pools ``p0`` ...; each writes a separate history."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        stack: ExitStack,
        seed: int,
        *,
        next_s: float,
        way_s: float = 0.0,
    ) -> None:
        self._folder, self._stack = folder, stack
        self._seed, self._next_s, self._way_s = seed, next_s, way_s
        self.url = ledger_url(cluster.endpoints, folder, "test")
        self._urls = {
            name: ledger_url(cluster.endpoints_for(name), folder, name)
            for name in (f"w{at}" for at in range(SCHEDULERS))
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, str] = {}
        self._starts = 0
        self._bug_file = folder / "bug"

    def make_ledger(self) -> None:
        """Create the ledger for which they compete."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents()})
        parsed = parse_documents(text, source="fleet")
        assert isinstance(parsed, Documents), parsed
        with store_urls.create_store(self.url) as store:
            engine = Engine.create(store, SystemClock(), ledger_id="f", public_key="", actor="test")
            engine.execute(Apply(tuple(each.spec for each in parsed.items)), actor="test")

    def start(self, name: str) -> None:
        """Start the scheduler ``name``; it counts as another client than before."""
        self._starts += 1
        client = f"{name}.{self._starts}"
        history = self._folder / f"{client}.history"
        paths = os.pathsep.join(sys.path)
        words: list[str | Path] = ["env", f"PYTHONPATH={paths}", sys.executable, PROGRAM]
        words += [
            self._urls[name],
            history,
            client,
            str(self._seed),
            str(self._next_s),
            str(self._way_s),
            self._bug_file,
            self._clock_file(name),
            name.removeprefix("w"),
        ]
        self._clients[name] = client
        self._running[name] = self._stack.enter_context(
            running(words, self._folder / f"{name}.log")
        )

    def plant(self, bug: str) -> None:
        """Give every scheduler the bug ``bug`` from now on."""
        draft = self._bug_file.with_suffix(".draft")
        draft.write_text(bug, "utf-8")
        draft.replace(self._bug_file)

    def set_ahead(self, name: str, ahead_ms: int) -> None:
        set_ahead(self._clock_file(name), ahead_ms)

    @property
    def names(self) -> Sequence[str]:
        return list(self._urls)

    def start_all(self) -> None:
        for name in self._urls:
            self.start(name)

    def pause(self, name: str) -> None:
        pause(self._runs(name))

    def go_on(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        process = self._runs(name)
        process.kill()
        process.wait(WAIT_S)

    def _runs(self, name: str) -> subprocess.Popen[bytes]:
        process = self._running[name]
        assert process.poll() is None, f"{name} has ended by itself\n{self.logs()}"
        return process

    def end(self) -> None:
        """End every scheduler, and check that none has ended by itself."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            assert process.wait(START_S) == 0, self.logs()

    def wait_recorded(self, fewest: int = SCHEDULERS) -> None:
        """Wait until ``fewest`` running schedulers have recorded something sent after now."""
        now = time.monotonic_ns()
        until(
            lambda: self._recorded_after(now) >= fewest,
            f"{fewest} schedulers get something recorded",
            RECORDED_S,
            every_s=0.1,
            tell=self.logs,
        )

    def operations(self) -> list[Operation]:
        return read_histories(sorted(self._folder.glob("*.history")))

    def clients(self) -> set[str]:
        """Return the clients that were answered anything."""
        return {each.client for each in self.operations() if each.answer is not None}

    def logs(self) -> str:
        logs = sorted(self._folder.glob("w*.log"))
        return "\n".join(f"{each.name}: {each.read_text('utf-8')[-3_000:]}" for each in logs)

    def _recorded_after(self, now: int) -> int:
        """Return how many schedulers have sent something after ``now`` and had it recorded."""
        paths = [self._folder / f"{client}.history" for client in self._clients.values()]
        return sum(path.exists() and has_recorded_after(path, now) for path in paths)

    def _clock_file(self, name: str) -> Path:
        return self._folder / f"{name}.ahead"


def ledger_url(endpoints: str, folder: Path, local: str) -> str:
    """Return the URL of the ledger for the program whose files begin with ``local``."""
    return f"etcd://{endpoints}/f?local={folder / local}&archive={folder / 'archive'}"
