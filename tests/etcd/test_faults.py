"""Schedulers over three members of etcd while machines and links fail: every answer is true.

Each scheduler is a process with an engine of its own; they race for one ledger, whose older blocks
move to an archive meanwhile. Members and schedulers are killed, paused and started again, links are
slow, flap, and are cut in one direction or both. Afterwards the ledger must be a sound chain, no
prefix of it may exceed a quota or lease a slot twice, and one order of all requests must explain
what every client was answered (``quorate.testing.client_history``).

A failure prints its seed. ``QUORATE_FAULT_SEED=17`` has that schedule again.
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
from random import Random

import pytest

from quorate.adapters.stores import store_urls
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply
from quorate.ledger.chain import Block, Broken, open_blocks, verify_blocks
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.testing.builders import budget, envelope, fleet
from quorate.testing.client_history import Operation, Written, check_history
from quorate.testing.memory_engines import HandClock
from tests.bounds import WAIT_S, until
from tests.etcd.fault_cluster import MEMBERS, Cluster, faulty_cluster
from tests.etcd.fault_schedule import Fault, Kind, schedule
from tests.etcd.fault_writer import OWNERS
from tests.etcd.history_file import counts_of, read_histories
from tests.etcd_server import pause, running

WRITER = Path(__file__).with_name("fault_writer.py")
WRITERS = 4
FORMS = [
    pytest.param(6, id="short"),
    pytest.param(120, id="two-minutes", marks=pytest.mark.soak),
    pytest.param(1_200, id="twenty-minutes", marks=pytest.mark.soak),
]


def chosen_seed() -> int:
    """Return the seed that is asked for, or another one each time."""
    named = os.environ.get("QUORATE_FAULT_SEED")
    return Random().randrange(1_000_000) if named is None else int(named)


class Race:
    """Schedulers ``w0`` ... over one ledger; each writes a history of its own."""

    def __init__(self, cluster: Cluster, folder: Path, stack: ExitStack, seed: int) -> None:
        self._cluster, self._folder, self._stack, self._seed = cluster, folder, stack, seed
        self._archive = folder / "archive"
        self.url = self._url(cluster.endpoints, "test")
        self._urls = {
            f"w{at}": self._url(cluster.endpoints_for(f"w{at}"), f"w{at}") for at in range(WRITERS)
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, str] = {}
        self._starts = 0
        self.bug = ""

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
        words += [self._urls[name], history, client, str(self._seed), self.bug]
        self._clients[name] = client
        self._running[name] = self._stack.enter_context(
            running(words, self._folder / f"{name}.log")
        )

    def start_all(self) -> None:
        for name in self._urls:
            self.start(name)

    def process(self, name: str) -> subprocess.Popen[bytes]:
        return self._running[name]

    def kill(self, name: str) -> None:
        process = self._running[name]
        assert process.poll() is None, f"{name} has ended by itself\n{self.logs()}"
        process.kill()
        process.wait(WAIT_S)

    def end(self) -> None:
        """Have every scheduler end, and see that none has ended by itself."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            assert process.wait(WAIT_S) == 0, self.logs()

    def wait_answered(self) -> None:
        """Wait until each scheduler that runs now has got something recorded after now."""
        now = time.monotonic_ns()
        until(
            lambda: self._recorded_after(now) >= set(self._clients.values()),
            "every scheduler gets something recorded",
            tell=self.logs,
        )

    def operations(self) -> list[Operation]:
        return read_histories(sorted(self._folder.glob("*.history")))

    def logs(self) -> str:
        logs = sorted(self._folder.glob("w*.log"))
        return "\n".join(f"{each.name}: {each.read_text('utf-8')[-3_000:]}" for each in logs)

    def _recorded_after(self, now: int) -> set[str]:
        """Return the clients that have sent something after ``now`` and had it recorded."""
        return {
            each.client
            for each in self.operations()
            if each.sent > now
            and each.answer is not None
            and isinstance(each.answer, Written)
            and each.answer.seq is not None
        }

    def _url(self, endpoints: str, local: str) -> str:
        return f"etcd://{endpoints}/f?local={self._folder / local}&archive={self._archive}"


def carry_out(fault: Fault, cluster: Cluster, race: Race) -> None:
    """Do what ``fault`` says, wait for as long as it says, and undo it."""
    end_s = time.monotonic() + fault.for_s
    links = cluster.links
    is_member = fault.machine.startswith("m")
    machines: Cluster | Race = cluster if is_member else race
    match fault.kind:
        case Kind.KILL:
            machines.kill(fault.machine)
            _wait(end_s)
            machines.start(fault.machine)
        case Kind.PAUSE:
            process = machines.process(fault.machine)
            pause(process)
            _wait(end_s)
            process.send_signal(signal.SIGCONT)
        case Kind.RESTART_ALL:
            for at in range(WRITERS):
                race.kill(f"w{at}")
            for at in range(MEMBERS):
                cluster.kill(f"m{at}")
            _wait(end_s)
            cluster.start_all()
            race.start_all()
        case Kind.SLOW:
            links.slow(fault.links, fault.delay_s)
            _wait(end_s)
        case Kind.FLAP:
            while time.monotonic() < end_s:
                links.cut(fault.links)
                _wait(time.monotonic() + fault.delay_s)
                links.mend(fault.links)
                links.reset(fault.links)
                _wait(time.monotonic() + fault.delay_s)
        case Kind.CUT | Kind.CUT_THERE | Kind.CUT_BACK:
            there = fault.kind is not Kind.CUT_BACK
            links.cut(fault.links, there=there, back=fault.kind is not Kind.CUT_THERE)
            _wait(end_s)
    links.mend()


def _wait(end_s: float) -> None:
    """Let a fault last until ``end_s``: it is what is tried, and not what a test waits for."""
    time.sleep(max(0.0, end_s - time.monotonic()))


def check(race: Race) -> list[str]:
    """Return what is wrong with the ledger, and with what clients were answered."""
    with store_urls.read_store(race.url) as store:
        blocks = list(store.blocks())
        found = verify_blocks(blocks, deep=True)
        if isinstance(found, Broken):
            sound = events_in(blocks[: found.height - 1])
            return [str(found), *check_history(race.operations(), sound)]
        view = Engine.open(store, HandClock()).view
        violations = [str(each) for each in sweep(view)]
    events = events_in(blocks)
    violations += [str(each) for each in audit(events, view=view)]
    return violations + check_history(race.operations(), events)


def events_in(blocks: Sequence[Block]) -> list[Event]:
    return [event for _, events in open_blocks(blocks) for event in events]


@contextmanager
def racing(program: Path, folder: Path, seed: int) -> Iterator[tuple[Cluster, Race]]:
    with faulty_cluster(program, folder) as cluster, ExitStack() as stack:
        race = Race(cluster, folder, stack, seed)
        race.make_ledger()
        yield cluster, race


@pytest.mark.slow
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("for_s", FORMS)
def test_every_answer_is_true_while_machines_and_links_fail(
    etcd_program: Path, tmp_path: Path, for_s: float
) -> None:
    seed = chosen_seed()
    print(f"QUORATE_FAULT_SEED={seed}")  # noqa: T201 - shown when it fails
    faults = schedule(seed, for_s, members=MEMBERS, writers=WRITERS)
    with racing(etcd_program, tmp_path, seed) as (cluster, race):
        race.start_all()
        race.wait_answered()
        began_s = time.monotonic()
        for fault in faults:
            _wait(began_s + fault.at_s)
            if time.monotonic() - began_s > for_s:
                break
            print(f"{time.monotonic() - began_s:7.2f} s: {fault}")  # noqa: T201
            carry_out(fault, cluster, race)
        race.wait_answered()
        race.end()
        counts = counts_of(race.operations())
        print(f"{len(faults)} faults; answers: {dict(counts)}")  # noqa: T201
        assert check(race) == []
    assert counts["done"] > for_s


@pytest.mark.soak
@pytest.mark.parametrize("bug", ["no-compare", "early-answer", "stale-reads"])
def test_a_planted_bug_is_found(etcd_program: Path, tmp_path: Path, bug: str) -> None:
    with racing(etcd_program, tmp_path, 1) as (_, race):
        race.bug = bug
        race.start_all()
        until(lambda: len(race.operations()) > 300, "the schedulers race", tell=race.logs)
        race.end()
        found = check(race)
        print(f"{bug}: {len(found)} found, first: {found[:3]}")  # noqa: T201 - shown with -s
        assert [each for each in found if "run e" in each or "of e" in each], found
