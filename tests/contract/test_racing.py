"""Schedulers that race: each decides on the state that it last read, and the first commit wins.

Several engines share one store and propose in random order, without notice of the others. An engine
that is late decides again. Hard quotas hold after every single event, and no other invariant is
violated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random
from typing import Final

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Cancel, Command, Complete, Release, Submit, Wiped
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import Event
from quorate.model.refusal import RefusalCode
from quorate.model.specs import OnQuota, Owner, Quota, System
from quorate.model.state.records import Phase
from quorate.ports.store_port import EventStore
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock
from tests.oracles.effort import sized

ROUNDS: Final = 10
LEDGERS: Final = {2: sized(16, 440), 8: sized(3, 60)}
"""The number of ledgers and rounds, by number of schedulers: 10,000 in a soak of two stores."""

FIRST_SEED: Final = 8
"""From this seed on, a few ledgers have all the refusals that a race should cause."""


@contextmanager
def _memory(folder: Path) -> Iterator[EventStore]:
    del folder
    yield MemoryStore()


@contextmanager
def _sqlite(folder: Path) -> Iterator[EventStore]:
    with SqliteStore.create(folder / "quorate.db") as store:
        yield store


OWNERS: Final = (
    Owner(name="science", quota=Quota(nodes_max=4)),
    Owner(name="physics", parents=("science",), quota=Quota(concurrent_runs_max=2)),
    Owner(name="chem", parents=("science",), quota=Quota(nodes_max=2)),
    Owner(name="free"),
)
TEAMS: Final = ("physics", "chem", "free")


class Race:
    """One ledger, and the engines that race for its head."""

    def __init__(self, store: EventStore, schedulers: int, chance: Random) -> None:
        self.store, self.chance, self.clock = store, chance, HandClock()
        first = Engine.create(store, self.clock, ledger_id="race", public_key="", actor="test")
        budgets = [budget(o.name, o.name, envelope("all", 100)) for o in OWNERS]
        system = System(sensitive_pool_size=1)
        nodes = fleet({"A": 24, "B": 24})
        first.execute(Apply((system, *nodes, *OWNERS, *budgets)), actor="test")
        self.engines = [Engine.open(store, self.clock) for _ in range(schedulers)]
        for number, engine in enumerate(self.engines):
            # Every third engine believes that it is the only writer, until it loses a race.
            engine.is_shared = number % 3 != 2
        self.counts: Counter[str] = Counter()
        self.number = 0

    def round(self) -> None:
        """Let every scheduler propose once, on the state that it last read, in random order."""
        proposals = [(engine, self._command(engine)) for engine in self.engines]
        self.chance.shuffle(proposals)
        for engine, command in proposals:
            seen = engine.head
            late = seen != self.store.head()
            receipt = engine.execute(command, actor="test")
            self.counts["late"] += late
            for refusal in receipt.decision.refusals:
                self.counts[refusal.code.value] += 1
            if receipt.decision.events:
                assert self.store.head() == receipt.head
        self.clock.ms += self.chance.randrange(0, HOUR_MS // 4)

    def _command(self, engine: Engine) -> Command:
        """Return a command of a scheduler, based on the state that it knows."""
        running = [n for n, r in engine.view.runs.items() if r.phase is Phase.RUNNING]
        kind = self.chance.random()
        if running and kind < 0.35:
            return Complete(self.chance.choice(running))
        if kind < 0.4 and engine.view.pending:
            return Cancel(self.chance.choice(sorted(engine.view.pending)))
        if kind < 0.45:
            name, most = self.chance.choice((("science", 6), ("chem", 4)))
            old = engine.view.owners[name]
            quota = Quota(nodes_max=self.chance.randrange(most))
            return Apply((Owner(name=name, parents=old.parents, quota=quota),))
        self.number += 1
        if kind < 0.55:
            return self._about_claims(engine)
        return Submit(
            run(
                f"r{self.number}",
                self.chance.choice((1, 2, 4, 8, 16)),
                self.chance.choice(TEAMS),
                on_quota=self.chance.choice(list(OnQuota)),
                expected_duration_ms=HOUR_MS,
            )
        )

    def _about_claims(self, engine: Engine) -> Command:
        """Return a claim, the end of a claim, or a report that a node is clean."""
        claims = [
            n for n, r in engine.view.runs.items() if r.phase is Phase.RUNNING and r.spec.sensitive
        ]
        if claims and self.chance.random() < 0.5:
            return Release(self.chance.choice(claims))
        left = [name for name, node in engine.view.unwiped.items() if not node.leases]
        if left:
            return Wiped(left[0], is_clean=True, claim=engine.view.unwiped[left[0]].claim)
        return Submit(
            run(
                f"c{self.number}",
                8,
                self.chance.choice(TEAMS),
                sensitive=True,
                expected_duration_ms=HOUR_MS,
            )
        )

    def events(self) -> list[Event]:
        return [event for _, block in open_blocks(self.store.blocks()) for event in block]


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("schedulers", LEDGERS)
@pytest.mark.parametrize("opened", [_memory, _sqlite], ids=["memory", "sqlite"])
def test_hard_quotas_hold_whoever_commits_first(
    opened: Callable[[Path], AbstractContextManager[EventStore]], schedulers: int, tmp_path: Path
) -> None:
    counts: Counter[str] = Counter()
    ledgers = LEDGERS[schedulers]
    for seed in range(FIRST_SEED, FIRST_SEED + ledgers):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with opened(folder) as store:
            race = Race(store, schedulers, Random(seed))
            for _ in range(ROUNDS):
                race.round()
            view = Engine.open(store, race.clock).view
            assert audit(race.events(), view=view) == []
            assert sweep(view) == []
            counts += race.counts
    # There were many races, and quotas decided them.
    assert counts["late"] > ledgers * ROUNDS // 2
    assert counts[RefusalCode.MAX_NODES.value] > ledgers
    assert counts[RefusalCode.MAX_CONCURRENT_RUNS.value] > ledgers // 10
    assert counts[RefusalCode.SENSITIVE_POOL_SIZE.value] > ledgers // 10
