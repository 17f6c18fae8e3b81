"""The throughput of runs from the document to the disk.

A parsed JSON document is checked, paid for, placed, recorded as events, and written in a block,
which SQLite syncs. The fleet has 10,000 nodes and is nine tenths full. Runs complete in separate
group commits to make room, and the cost of completions is reported separately. The clock, the store
and the disk are real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, thread_time
from typing import Any

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.worlds import FAMILY_SIZE, FLAVOR, GANGS, budgets, families, fleet, owner_name
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Applied, Apply, Command, Complete, Submit
from quorate.documents import API_VERSION, Documents, parse_tree
from quorate.loop.block_draft import BlockDraft
from quorate.loop.commit_types import Breach
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.model.specs import Run
from quorate.model.state.records import Phase

NODES = 10_000
OWNERS = 200
BATCH = 64
FILL = 40 * BATCH
"""The runs submitted before the measurements: enough to fill nine tenths of the fleet."""
REPEATS = 5
OUT = Path(__file__).parent / "out"


@dataclass(slots=True)
class Cost:
    """CPU and wall seconds."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Add the time of the body."""
        wall, cpu = perf_counter(), process_time()
        yield
        self.cpu_s += process_time() - cpu
        self.wall_s += perf_counter() - wall


class CheckedEngine(Engine):
    """An engine that measures the time of checking the invariants of each decision."""

    checking_s: float = 0.0

    def _check_draft(self, draft: BlockDraft, events: Sequence[Event]) -> None:
        start_s = thread_time()
        super()._check_draft(draft, events)
        end_s = thread_time()
        # Subtract the time of reading the clock.
        self.checking_s += end_s - start_s - (thread_time() - end_s)


def _fail(breach: Breach) -> str:
    raise AssertionError(breach.violations)


@dataclass(slots=True)
class Cluster:
    """An engine over a ledger on disk, kept nine tenths full."""

    engine: CheckedEngine
    rng: Random = field(default_factory=lambda: Random(4))
    live: list[tuple[str, int]] = field(default_factory=list)
    gpus_total: int = 8 * NODES
    gpus_free: int = 8 * NODES
    submitted: int = 0
    completed: int = 0
    completing: Cost = field(default_factory=Cost)
    judging: Cost = field(default_factory=Cost)
    committing: Cost = field(default_factory=Cost)

    def submit(self, runs: int, batch: int) -> Cost:
        """Return the cost of submitting ``runs`` runs, with ``batch`` runs in each commit."""
        cost = Cost()
        for _ in range(runs // batch):
            trees = [self._document() for _ in range(batch)]
            gpus = [tree["spec"]["resources"]["totalGPUs"] for tree in trees]
            self._make_room(sum(gpus), batch)
            with cost.counted(), self.judging.counted():
                commands = [Submit(_judged(tree)) for tree in trees]
            with cost.counted(), self.committing.counted():
                receipts = self.engine.execute_all(commands, actor="bench")
            for command, receipt in zip(commands, receipts, strict=True):
                record = self.engine.view.runs[command.run.name]
                assert record.phase is Phase.RUNNING, (receipt, record.refusal)
                self.live.append((command.run.name, command.run.gpus))
            self.gpus_free -= sum(gpus)
        return cost

    def _make_room(self, gpus: int, batch: int) -> None:
        leaving: list[Command] = []
        while self.gpus_free < gpus + self.gpus_total // 10:
            place = self.rng.randrange(len(self.live))
            self.live[place], self.live[-1] = self.live[-1], self.live[place]
            name, held = self.live.pop()
            leaving.append(Complete(name))
            self.gpus_free += held
        for start in range(0, len(leaving), batch):
            with self.completing.counted(), self.committing.counted():
                receipts = self.engine.execute_all(leaving[start : start + batch], actor="bench")
            assert not any(receipt.decision.refusals for receipt in receipts), receipts
        self.completed += len(leaving)

    def checking_percent(self, runs: int, batch: int) -> float:
        """Return the time of checking invariants, in percent of the commits' other CPU time.

        The invariants are checked as in a service: for each decision, before its block is appended.
        """
        self.engine.on_violation = _fail
        self.engine.checking_s, self.committing = 0.0, Cost()
        self.submit(runs, batch)
        self.engine.on_violation = None
        checking_s = self.engine.checking_s
        return 100 * checking_s / (self.committing.cpu_s - checking_s)

    def _team(self) -> int:
        """Return a random team; parents do not run work, but pay for their teams."""
        number = self.rng.randrange(OWNERS)
        return number if number % FAMILY_SIZE else number + 1

    def _document(self) -> dict[str, Any]:
        self.submitted += 1
        return {
            "apiVersion": API_VERSION,
            "kind": "Run",
            "metadata": {"name": f"train-{self.submitted:07d}"},
            "spec": {
                "owner": owner_name(self._team()),
                "user": "alice@example.org",
                "resources": {"gpuType": FLAVOR, "totalGPUs": self.rng.choice(GANGS)},
                "runtime": {"expectedDuration": "4h", "checkpoint": "3m"},
                "command": ["python", "train.py", "--config", "base.yaml"],
                "nonce": f"{self.rng.getrandbits(128):032x}",
            },
        }


def measure(effort: Effort) -> list[Figure]:
    """Return runs per CPU second on the whole path."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=OUT) as folder:
        path = Path(folder) / "bench.db"
        with SqliteStore.create(path) as store:
            cluster = _cluster(store)
            cluster.submit(FILL, BATCH)
        # Open the ledger again, like a service that starts on a ledger in use.
        with SqliteStore.open(path) as store:
            cluster.engine = CheckedEngine.open(store, SystemClock())
            return _figures(cluster, effort)


def _figures(cluster: Cluster, effort: Effort) -> list[Figure]:
    """Return the costs of submitting and completing on a fleet in use."""
    cluster.completing, cluster.completed = Cost(), 0
    runs = BATCH * effort.of(64, 4)
    costs = [cluster.submit(runs, BATCH) for _ in range(REPEATS)]
    completing, completed = cluster.completing, cluster.completed
    alone_runs = effort.of(500, 50)
    alone = cluster.submit(alone_runs, 1)
    together_percent = cluster.checking_percent(runs, BATCH)
    alone_percent = cluster.checking_percent(alone_runs, 1)
    cpu_s = median(cost.cpu_s for cost in costs)
    return [
        Figure(
            name="durable runs",
            unit="/s",
            value=runs / cpu_s,
            better="more",
            target=5_000,
            baseline=Baseline("one commit for each", alone_runs / alone.cpu_s),
            details={
                "runs a commit": BATCH,
                "wall /s": runs / median(cost.wall_s for cost in costs),
                "commits a second, wall": runs / BATCH / median(cost.wall_s for cost in costs),
                "one commit for each, wall /s": alone_runs / alone.wall_s,
                "mean /s, snapshots included": runs / mean(cost.cpu_s for cost in costs),
                "us to judge a document": 1e6 * cluster.judging.cpu_s / cluster.submitted,
                "runs": cluster.submitted,
            },
        ),
        Figure(
            name="durable completions",
            unit="/s",
            value=completed / completing.cpu_s,
            better="more",
            details={"wall /s": completed / completing.wall_s, "completions": completed},
        ),
        Figure(
            name="invariants of each decision",
            unit="% of the commit",
            value=max(together_percent, alone_percent),
            better="less",
            target=5,
            details={
                f"{BATCH} runs a commit, %": together_percent,
                "one run a commit, %": alone_percent,
            },
        ),
        Figure(
            name="durable runs, submitted and completed",
            unit="/s",
            value=1 / (cpu_s / runs + completing.cpu_s / completed),
            better="more",
        ),
    ]


def _cluster(store: SqliteStore) -> Cluster:
    """Return a new ledger with the fleet and its budgets declared."""
    clock = SystemClock()
    engine = CheckedEngine.create(store, clock, ledger_id="bench", public_key="", actor="bench")
    lines = budgets(OWNERS, concurrency=128, now_ms=clock.now_ms())
    specs: tuple[Applied, ...] = (*fleet(NODES), *families(OWNERS), *lines)
    receipt = engine.execute(Apply(specs), actor="bench")
    assert not receipt.decision.refusals, receipt.decision.refusals
    return Cluster(engine)


def _judged(tree: object) -> Run:
    parsed = parse_tree(None, tree)
    assert isinstance(parsed, Documents), parsed
    run = parsed.items[0].spec
    assert isinstance(run, Run), run
    return run
