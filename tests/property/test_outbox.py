"""The outbox behaves like a plain list in any sequence of calls, also after reopening."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.ports.outbox_port import Parcel, back_off_ms
from quorate.testing.memory_outbox import MemoryOutbox
from tests.oracles.effort import examples

SINKS = ("hook", "waldur")
names = st.sampled_from(SINKS)


@dataclass
class Row:
    """One parcel, in the order in which parcels were taken in."""

    sink: str
    parcel: Parcel
    due_ms: int = 0
    attempts: int = 0
    gone: bool = False


class Boxes(RuleBasedStateMachine):
    """Sends the same calls to a list, the outbox in memory and the outbox in a file."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.db.outbox"
        self.file = SqliteOutbox.open(self.path)
        self.memory = MemoryOutbox()
        self.rows: list[Row] = []
        self.failing: dict[tuple[str, str], tuple[int, int, str]] = {}
        self.cursors = dict.fromkeys(SINKS, 0)
        self.now_ms = 0

    def waiting(self, sink: str) -> list[Row]:
        return [row for row in self.rows if row.sink == sink and not row.gone]

    def firsts(self, sink: str) -> list[Row]:
        seen: set[str] = set()
        rows = []
        for row in self.waiting(sink):
            if row.parcel.line not in seen:
                rows.append(row)
            seen.add(row.parcel.line)
        return rows

    @rule(
        sink=names,
        new=st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=4),
        ahead=st.integers(0, 3),
    )
    def take_in(self, sink: str, new: list[tuple[int, str]], ahead: int) -> None:
        self.cursors[sink] += ahead
        cursor = self.cursors[sink]
        parcels = [Parcel(str(n), line, bytes([n]), cursor, at_ms=self.now_ms) for n, line in new]
        for box in (self.file, self.memory):
            box.take_in(sink, parcels, cursor)
        for one in parcels:
            if not any(row.sink == sink and row.parcel.key == one.key for row in self.rows):
                self.rows.append(Row(sink, one))

    @precondition(lambda self: any(not row.gone for row in self.rows))
    @rule(data=st.data(), how=st.sampled_from(("delivered", "failed", "failed", "given up")))
    def deliver(self, data: st.DataObject, how: str) -> None:
        row = data.draw(st.sampled_from([*self.firsts(SINKS[0]), *self.firsts(SINKS[1])]))
        sink, key, line = row.sink, row.parcel.key, row.parcel.line
        if how == "failed":
            row.attempts += 1
            row.due_ms = self.now_ms + back_off_ms(key, row.attempts)
            since_ms = self.failing.get((sink, line), (self.now_ms,))[0]
            self.failing[sink, line] = (since_ms, self.now_ms, f"{key} failed")
            for box in (self.file, self.memory):
                assert box.failed(sink, key, self.now_ms, f"{key} failed") == row.due_ms
            return
        row.gone = True
        if how == "delivered" or all(one.parcel.line != line for one in self.waiting(sink)):
            self.failing.pop((sink, line), None)
        for box in (self.file, self.memory):
            (box.delivered if how == "delivered" else box.given_up)(sink, key)

    @precondition(lambda self: any(row.gone for row in self.rows))
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from([row for row in self.rows if row.gone]))
        for box in (self.file, self.memory):
            box.delivered(row.sink, row.parcel.key)

    @rule(passed_ms=st.integers(0, 400_000))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def reopen(self) -> None:
        self.file.close()
        self.file = SqliteOutbox.open(self.path)

    @invariant()
    def they_agree(self) -> None:
        for box in (self.file, self.memory):
            for sink in SINKS:
                self.check(box, sink)

    def check(self, box: SqliteOutbox | MemoryOutbox, sink: str) -> None:
        firsts = self.firsts(sink)
        due = [row for row in firsts if row.due_ms <= self.now_ms]
        for limit in (1, 100):
            assert [
                (one.key, one.body, one.attempts) for one in box.due(sink, self.now_ms, limit)
            ] == [(row.parcel.key, row.parcel.body, row.attempts) for row in due[:limit]]
        for one in box.due(sink, self.now_ms, 100):
            assert one.failing_since_ms == self.failing.get((sink, one.line), (None,))[0]
        assert box.cursor(sink) == self.cursors[sink]
        assert box.next_due_ms(sink) == min((row.due_ms for row in firsts), default=None)
        told, waiting = box.waiting(sink), self.waiting(sink)
        assert told.parcels == len(waiting)
        assert told.since_ms == min((row.parcel.at_ms for row in waiting), default=None)
        failing = [why for (of, _), why in self.failing.items() if of == sink]
        assert told.lines_failing == len(failing)
        last_ms = max((why[1] for why in failing), default=None)
        assert told.trouble in ([why[2] for why in failing if why[1] == last_ms] or [""])

    def teardown(self) -> None:
        self.file.close()
        self.folder.cleanup()


TestBoxes = pytest.mark.slow(Boxes.TestCase)
TestBoxes.settings = settings(examples(0.25), stateful_step_count=40)
