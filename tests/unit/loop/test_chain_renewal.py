"""The lottery's chain is renewed before it ends, and a machine without its file can draw."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quorate.adapters.key_file import create_key
from quorate.adapters.lottery_seal import KeyFileSeal
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.lottery_audit import Lotteries
from quorate.core.commands import Apply, Cancel, Resolve, SealLottery, Submit, Tick
from quorate.core.preemption.chain_renewal import RENEW_LINKS, renewal_due
from quorate.core.preemption.lottery import CHAIN_LENGTH
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.loop.preimages import Preimages
from quorate.model.amounts import HOUR_MS
from quorate.model.events import ConflictResolved, Event, LotteryCommitted, LotterySealed
from quorate.model.specs import Owner
from quorate.model.state.records import Lottery, NextChain
from quorate.operations.ledger.ledger_history import export_lines
from quorate.ports.errors import KeyFileError
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_SECRET, HandClock
from tests.tidy.tree import ROOT

LENGTH = 2
OWNERS = ("ada", "ben")


def events_of(store: MemoryStore) -> list[Event]:
    return [event for _, events in open_blocks(store.blocks()) for event in events]


class Lots:
    """A ledger whose first chain is enough for two lotteries."""

    def __init__(self, folder: Path, *, is_shared: bool = False) -> None:
        self.key = folder / "ledger.key"
        create_key(self.key)
        self.store = MemoryStore(is_shared=is_shared)
        self.clock = HandClock()
        made = Engine.create(
            self.store,
            self.clock,
            ledger_id="l",
            public_key="",
            actor="test",
            lottery_secret=LOTTERY_SECRET,
            lottery_length=LENGTH,
        )
        budgets = [budget(name, name, envelope("all", 16)) for name in OWNERS]
        owners = [Owner(name=name) for name in OWNERS]
        made.execute(Apply((*fleet({"A": 16}), *owners, *budgets)), actor="test")
        self.number = 0

    def engine(self, secret: bytes | None = LOTTERY_SECRET, key: Path | None = None) -> Engine:
        seal = KeyFileSeal(self.key if key is None else key)
        return Engine.open(self.store, self.clock, lottery_secret=secret, lottery_seal=seal)

    def draw(self, engine: Engine) -> None:
        """Let a lottery be drawn: two runs fill the fleet, and a conflict is called."""
        self.number += 1
        for name in OWNERS:
            spec = run(f"{name}{self.number}", 8, name, expected_duration_ms=900 * HOUR_MS)
            engine.execute(Submit(spec), actor="test")
        self.clock.ms += 3 * HOUR_MS
        receipt = engine.execute(Resolve("default", "H100", (), 4), actor="test")
        assert not receipt.decision.refusals, receipt
        self.clock.ms += HOUR_MS
        engine.execute(Tick(), actor="test")
        for name in OWNERS:
            engine.execute(Cancel(f"{name}{self.number}"), actor="test")

    def drawn(self) -> list[ConflictResolved]:
        events = events_of(self.store)
        return [each for each in events if isinstance(each, ConflictResolved) and each.preimage]


@pytest.mark.heavy
def test_chain_is_renewed_before_it_ends_and_lotteries_go_on(tmp_path: Path) -> None:
    lots = Lots(tmp_path)
    engine = lots.engine()
    for _ in range(LENGTH + 2):
        lots.draw(engine)
    assert len(lots.drawn()) == LENGTH + 2
    events = events_of(lots.store)
    sealed = [each for each in events if isinstance(each, LotterySealed)]
    assert [each.length for each in sealed] == [CHAIN_LENGTH]
    assert events.index(sealed[0]) < events.index(lots.drawn()[LENGTH - 1])
    assert engine.view.lottery.commitment == sealed[0].commitment
    assert engine.view.lottery.next_index == 3
    assert audit(events) == []


@pytest.mark.heavy
def test_another_program_finds_the_renewed_chain_sound(tmp_path: Path) -> None:
    lots = Lots(tmp_path)
    engine = lots.engine()
    for _ in range(LENGTH + 1):
        lots.draw(engine)
    export = tmp_path / "export.jsonl"
    lines = export_lines(lots.store.blocks())
    export.write_text("".join(lines), "utf-8")
    checked = subprocess.run(
        [sys.executable, ROOT / "tools" / "verify_lottery.py", export],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count("Cleared") == LENGTH + 1


@pytest.mark.heavy
def test_machine_without_the_file_draws_by_the_sealed_secret(tmp_path: Path) -> None:
    lots = Lots(tmp_path, is_shared=True)
    first = lots.engine()
    first.execute(Tick(), actor="test")
    first.settle_due()
    assert first.view.lottery.sealed
    other = lots.engine(secret=None)
    for _ in range(LENGTH + 1):
        lots.draw(other)
    assert len(lots.drawn()) == LENGTH + 1
    first.follow()
    assert first.head == other.head
    assert audit(events_of(lots.store)) == []


@pytest.mark.heavy
def test_machine_with_another_key_leaves_conflicts_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lots = Lots(tmp_path, is_shared=True)
    lots.engine().settle_due()
    other_key = tmp_path / "other.key"
    create_key(other_key)
    lots.draw(lots.engine(secret=None, key=other_key))
    assert lots.drawn() == []
    assert "put the right key there" in caplog.text


def test_sealed_secret_opens_for_its_chain_alone(tmp_path: Path) -> None:
    key = tmp_path / "l.key"
    create_key(key)
    seal = KeyFileSeal(key)
    secret = seal.new_secret()
    sealed = seal.seal(secret, "aa")
    assert seal.open(sealed, "aa") == secret
    assert secret.hex() not in sealed
    for text, commitment in ((sealed, "bb"), (sealed[:-2], "aa"), ("no hex", "aa"), ("", "aa")):
        with pytest.raises(KeyFileError):
            seal.open(text, commitment)


def test_next_chain_is_due_in_time_and_once() -> None:
    chain = NextChain("bb", 5, "x")
    early = Lottery("aa", RENEW_LINKS + 1, "aa", 1)
    assert not renewal_due(early)
    late = Lottery("aa", RENEW_LINKS + 1, "aa", 2)
    assert renewal_due(late)
    assert not renewal_due(Lottery("aa", 5, "aa", 2, "", chain))
    assert not renewal_due(Lottery("aa", 5, "aa", 6))
    assert not renewal_due(Lottery())


@pytest.mark.parametrize("drawn", [0, LENGTH])
def test_chain_that_comes_twice_or_too_late_is_refused(tmp_path: Path, drawn: int) -> None:
    lots = Lots(tmp_path)
    engine = Engine.open(lots.store, lots.clock, lottery_secret=LOTTERY_SECRET)
    for _ in range(drawn):
        lots.draw(engine)
    link = Preimages(b"n" * 32, 5).link(0).hex()
    first = engine.execute(SealLottery(link, 5, "s"), actor="test").decision
    assert bool(first.refusals) == bool(drawn)
    other = Preimages(b"m" * 32, 5).link(0).hex()
    assert engine.execute(SealLottery(other, 5, "s"), actor="test").decision.refusals


def test_audit_finds_a_chain_that_is_committed_too_late_or_twice() -> None:
    def sealed(mark: str) -> LotterySealed:
        return LotterySealed(at_ms=1, actor="", commitment=mark * 64, length=3, sealed="s")

    first = LotteryCommitted(at_ms=1, actor="", commitment="a" * 64, length=3)
    books = Lotteries()
    found = [[*books.enter(e)] for e in (first, sealed("a"), sealed("b"), sealed("c"), sealed("a"))]
    assert [bool(each) for each in found] == [False, False, False, True, True]
    assert [*Lotteries().enter(sealed("b"))]
