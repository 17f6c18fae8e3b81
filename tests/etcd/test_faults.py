"""Schedulers over members of etcd while machines and links fail: every answer is true.

Each scheduler is a process with an engine of its own; they race for one ledger, whose older blocks
move to an archive meanwhile. Members and schedulers are killed, paused and started again, links are
slow, flap, and are cut in one direction or both. Afterwards the ledger must be a sound chain, no
prefix of it may exceed a quota or lease a slot twice, and one order of all requests must explain
what every client was answered (``quorate.testing.client_history``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from quorate.adapters.stores import store_urls
from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.testing.builders import budget, envelope, fleet
from quorate.testing.client_history import Operation
from quorate.testing.memory_engines import HandClock
from tests.bounds import WAIT_S, until
from tests.etcd.fault_cluster import Cluster, faulty_cluster
from tests.etcd.fault_play import FORMS, Form, assert_sound, check, play
from tests.etcd.fault_writer import OWNERS
from tests.etcd.history_file import counts_of, has_recorded_after, read_histories
from tests.etcd_server import pause, running
from tests.service.program import START_S

WRITER = Path(__file__).with_name("fault_writer.py")
WRITERS = 4


class Race:
    """Schedulers ``w0`` ... over one ledger; each writes a history of its own."""

    def __init__(
        self, cluster: Cluster, folder: Path, stack: ExitStack, seed: int, next_s: float
    ) -> None:
        self._cluster, self._folder, self._stack = cluster, folder, stack
        self._seed, self._next_s = seed, next_s
        self._archive = folder / "archive"
        self.url = self._url(cluster.endpoints, "test")
        self._urls = {
            f"w{at}": self._url(cluster.endpoints_for(f"w{at}"), f"w{at}") for at in range(WRITERS)
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, str] = {}
        self._starts = 0
        self._bug_file = folder / "bug"

    def make_ledger(self) -> None:
        """Make the ledger that they race for: a small fleet, and quotas that are soon reached."""
        with store_urls.create_store(self.url) as store:
            clock = HandClock()
            engine = Engine.create(store, clock, ledger_id="f", public_key="", actor="test")
            budgets = [budget(each.name, each.name, envelope("all", 500)) for each in OWNERS]
            nodes = fleet({"A": 48, "B": 48})
            engine.execute(Apply((*nodes, *OWNERS, *budgets)), actor="test")

    def start(self, name: str) -> None:
        """Start the scheduler ``name``; it is another client than the one before."""
        self._starts += 1
        client = f"{name}.{self._starts}"
        history = self._folder / f"{client}.history"
        paths = os.pathsep.join(sys.path)
        words: list[str | Path] = ["env", f"PYTHONPATH={paths}", sys.executable, WRITER]
        words += [
            self._urls[name],
            history,
            client,
            str(self._seed),
            str(self._next_s),
            self._bug_file,
        ]
        self._clients[name] = client
        self._running[name] = self._stack.enter_context(
            running(words, self._folder / f"{name}.log")
        )

    def plant(self, bug: str) -> None:
        """Have every scheduler be wrong in one way from now on."""
        draft = self._bug_file.with_suffix(".draft")
        draft.write_text(bug, "utf-8")
        draft.replace(self._bug_file)

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
        """Have every scheduler end, and see that none has ended by itself."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            assert process.wait(START_S) == 0, self.logs()

    def wait_recorded(self, fewest: int = WRITERS) -> None:
        """Wait until so many of the schedulers that run have got something recorded after now."""
        now = time.monotonic_ns()
        until(
            lambda: self._recorded_after(now) >= fewest,
            f"{fewest} schedulers get something recorded",
            START_S,
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

    def _url(self, endpoints: str, local: str) -> str:
        return f"etcd://{endpoints}/f?local={self._folder / local}&archive={self._archive}"


@contextmanager
def racing(program: Path, folder: Path, seed: int, form: Form) -> Iterator[tuple[Cluster, Race]]:
    with faulty_cluster(program, folder, form.members) as cluster, ExitStack() as stack:
        race = Race(cluster, folder, stack, seed, form.next_s)
        race.make_ledger()
        yield cluster, race


@pytest.mark.slow
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("form", FORMS)
def test_every_answer_is_true_while_machines_and_links_fail(
    etcd_program: Path, tmp_path: Path, form: Form
) -> None:
    seed = form.chosen_seed()
    print(f"QUORATE_FAULT_SEED={seed}")  # noqa: T201 - shown when it fails
    with racing(etcd_program, tmp_path, seed, form) as (cluster, race):
        race.start_all()
        race.wait_recorded()
        faults = play(seed, form, cluster, race, lambda: race.wait_recorded(fewest=1))
        race.wait_recorded()
        race.end()
        counts = counts_of(race.operations())
        print(f"{faults} faults; answers: {dict(counts)}")  # noqa: T201
        assert_sound(race.url, race.operations())
    assert counts["done"] >= 2 * WRITERS


@pytest.mark.soak
@pytest.mark.parametrize("bug", ["no-compare", "early-answer", "stale-reads"])
def test_a_planted_bug_is_found(etcd_program: Path, tmp_path: Path, bug: str) -> None:
    with racing(etcd_program, tmp_path, 1, Form(for_s=0, next_s=0)) as (_, race):
        race.start_all()
        until(lambda: len(race.clients()) == WRITERS, "all have begun", START_S, tell=race.logs)
        race.plant(bug)
        more = len(race.operations()) + 1_500
        until(
            lambda: len(race.operations()) > more, "they race", START_S, every_s=1.0, tell=race.logs
        )
        race.end()
        found = check(race.url, race.operations())
        print(f"{bug}: {len(found)} found, first: {found[:3]}")  # noqa: T201 - shown with -s
        assert [each for each in found if "run e" in each or "of e" in each], found
