"""Every executor passes the same contract."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from quorate.adapters.executors.exec_local import LocalExecutor
from quorate.adapters.executors.keepers import run_folder
from quorate.adapters.executors.logs_local import LocalLogs
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import RoundsWork, Run
from quorate.ports.executor_port import ServedExecutor
from quorate.service.simulated_room import SimulatedRoom
from quorate.sim.room_work import Truth
from quorate.sim.simulation import VirtualClock
from quorate.testing import builders
from quorate.testing.executor_contract import CODE_FAILED, ExecutorContract, Work
from tests.bounds import WAIT_S
from tests.executor.room import PYTHON, marked, sweep

BEGUN = "begun"
LOOK_MS = 10
"""How long a test watches whether a simulated run makes progress."""
COUNTING = "import time; from quorate.runtime import report; report(7); time.sleep(1000)"
SCRIPTS = {
    Work.ENDS: "echo {begun}; sleep {lasts_s}",
    Work.FAILS: "echo {begun}; sleep {lasts_s}; exit {code}",
    Work.STAYS: "echo {begun}; exec sleep 1000",
    Work.DEFIES: "trap '' TERM; echo {begun}; while :; do sleep 0.05; done",
    Work.COUNTS: 'echo {begun}; exec {python} -c "{counting}"',
}


class TestSimulatedRoom(ExecutorContract):
    outlives_service = False

    @pytest.fixture(autouse=True)
    def _machines(self) -> None:
        self.clock = VirtualClock(builders.NOW_MS)
        self.truths: dict[str, Truth] = {}
        self.defying: set[str] = set()
        self.started: list[str] = []

    def make_executor(self) -> ServedExecutor:
        self.room = SimulatedRoom(
            self.clock,
            truth_of=self.truth_of,
            stop_delay=lambda left_ms: left_ms if self.defying else 0,
        )
        return self.room

    def reopen(self, executor: ServedExecutor) -> ServedExecutor:
        executor.close()
        return self.make_executor()

    def truth_of(self, run: Run) -> Truth:
        self.started.append(run.name)
        return self.truths[run.name]

    def run_of(self, name: str, work: Work, *, lasts_ms: int) -> Run:
        is_over = work in (Work.ENDS, Work.FAILS)
        self.truths[name] = Truth(
            work_ms=lasts_ms if is_over else HOUR_MS,
            checkpoint_every_ms=HOUR_MS,
            code=CODE_FAILED if work is Work.FAILS else 0,
        )
        if work is Work.DEFIES:
            self.defying.add(name)
        rounds = RoundsWork(total_steps=HOUR_MS) if work is Work.COUNTS else None
        return builders.run(name, 1, rounds=rounds)

    def now_ms(self) -> int:
        return self.clock.true_ms

    def let_time_pass(self, until_ms: int | None) -> None:
        assert until_ms is not None, "nothing will ever happen here"
        self.clock.true_ms = max(self.clock.true_ms, until_ms)

    def is_at_work(self, run: str) -> bool:
        before = self._done(run)
        self.clock.true_ms += LOOK_MS
        return self._done(run) > before

    def _done(self, run: str) -> int:
        self.room.reports()
        return self.room.machines.done_gpu_ms([run])

    def starts_of(self, run: str) -> int:
        return self.started.count(run)


@pytest.mark.slow
class TestLocalExecutor(ExecutorContract):
    wipes_nodes = False

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path / "work"
        self.woken = Event()
        yield
        sweep(self.folder)

    def make_executor(self) -> ServedExecutor:
        executor = LocalExecutor(self.folder)
        executor.listen(self.woken.set)
        return executor

    def reopen(self, executor: ServedExecutor) -> ServedExecutor:
        executor.close()
        return self.make_executor()

    def run_of(self, name: str, work: Work, *, lasts_ms: int) -> Run:
        script = SCRIPTS[work].format(
            begun=BEGUN,
            lasts_s=lasts_ms / 1_000,
            code=CODE_FAILED,
            python=PYTHON,
            counting=COUNTING,
        )
        return builders.run(name, 1, command=("sh", "-c", script))

    def now_ms(self) -> int:
        return int(time.time() * 1_000)

    def let_time_pass(self, until_ms: int | None) -> None:
        wait_s = WAIT_S if until_ms is None else max(0, until_ms - self.now_ms()) / 1_000
        is_woken = self.woken.wait(wait_s)
        assert is_woken or until_ms is not None, "the executor wakes no loop"
        self.woken.clear()

    def is_at_work(self, run: str) -> bool:
        folder = run_folder(self.folder, run)
        return any("RANK" in env for env in marked(folder).values()) and self.starts_of(run) > 0

    def starts_of(self, run: str) -> int:
        found = LocalLogs(self.folder).read(run, first=0, limit=100_000)
        return 0 if found is None else sum(line.text == BEGUN for line in found.lines)
