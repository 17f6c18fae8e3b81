"""The cost of losing a race: another writer appends first, so commands are decided again.

Two engines on one ledger, here in SQLite, take turns, so each submits at a head that the other
engine has already moved by a block with one run. The figure is the additional cost of such a
submission over a submission at the present head: the discarded decision, the refused append, and
reading, verifying and applying the other engine's block. The fleet is half full, no run waits, and
the submitting owners have no caps, so that planning costs little.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from benchmarks.durable import OUT
from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.worlds import FLAVOR, budgets, families, fleet, owner_name
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Applied, Apply, Submit
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Run
from quorate.ports.store_port import EventStore

OWNERS = 100
FILL = 1_000
"""The runs of four GPUs that are submitted before the measurements."""
BATCH = 64
REPEATS = 200


@dataclass(slots=True)
class Submitter:
    """Submits runs of one GPU, each with a new name."""

    number: int = 0

    def run(self, gpus: int = 1) -> Submit:
        """Return the command to submit the next run."""
        self.number += 1
        name, owner = f"race-{self.number:06d}", owner_name(2 * (self.number % (OWNERS // 2)))
        return Submit(
            Run(
                name=name,
                owner=owner,
                gpus=gpus,
                flavors=(FLAVOR,),
                expected_duration_ms=4 * HOUR_MS,
                nonce=f"{self.number:032x}",
            )
        )


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of losing a race."""
    OUT.mkdir(exist_ok=True)
    with (
        TemporaryDirectory(dir=OUT) as folder,
        SqliteStore.create(Path(folder) / "race.db") as store,
    ):
        return [lost_race("losing a race, 1 block behind", effort, store, store)]


def lost_race(name: str, effort: Effort, store: EventStore, other: EventStore) -> Figure:
    """Return the cost of losing for engines on ``store`` and ``other``, stores of one new ledger.

    Both may be the same store. The figure includes communication with the stores.
    """
    nodes, repeats = effort.of(1_000, 200), effort.of(REPEATS, 20)
    submitter = Submitter()
    filled(store, nodes, effort.of(FILL, 100), submitter)
    racers = [Engine.open(each, SystemClock()) for each in (store, other)]
    for racer in racers:
        racer.is_shared = True
    events = store.head().seq
    for racer in racers:
        _submit(racer, submitter)
        _submit(racer, submitter)
    lost = [_submit(racers[turn % 2], submitter) for turn in range(repeats)]
    won = [_submit(racers[0], submitter) for _ in range(repeats + 1)][1:]
    lost_ms, won_ms = median(lost), median(won)
    return Figure(
        name=name,
        unit="ms",
        value=lost_ms - won_ms,
        better="less",
        target=2,
        baseline=Baseline("a submit at the head, in all", won_ms),
        details={
            "a submit that loses once, in all": lost_ms,
            "events in the ledger": events,
            "nodes": nodes,
        },
    )


def _submit(engine: Engine, submitter: Submitter) -> float:
    """Return the CPU milliseconds of one submission."""
    command = submitter.run()
    began_s = process_time()
    receipt = engine.execute(command, actor="bench")
    taken_ms = 1_000 * (process_time() - began_s)
    assert not receipt.decision.refusals, receipt.decision.refusals
    assert receipt.decision.events, receipt
    return taken_ms


def filled(store: EventStore, nodes: int, runs: int, submitter: Submitter) -> None:
    """Declare a fleet with its budgets in the empty ``store``, and start ``runs`` runs."""
    clock = SystemClock()
    engine = Engine.create(store, clock, ledger_id="race", public_key="", actor="bench")
    lines = budgets(OWNERS, concurrency=1_000, now_ms=clock.now_ms())
    specs: tuple[Applied, ...] = (*fleet(nodes), *families(OWNERS), *lines)
    receipt = engine.execute(Apply(specs), actor="bench")
    assert not receipt.decision.refusals, receipt.decision.refusals
    for first in range(0, runs, BATCH):
        commands = [submitter.run(4) for _ in range(min(BATCH, runs - first))]
        engine.execute_all(commands, actor="bench")
