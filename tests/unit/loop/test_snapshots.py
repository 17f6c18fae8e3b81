"""Snapshots and the archive, written on a thread beside the one that commits."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event as Signal
from threading import enumerate as enumerate_threads

import msgspec
import pytest

from quorate.adapters.stores.archive_file import archive_path, remove_archive
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_pages import PagedReader
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Apply, Cancel, Command, Complete, Submit
from quorate.ledger.archive import ArchivedRow
from quorate.ledger.chain import GENESIS, Head
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import SNAPSHOT_FORMAT, fingerprint, restore, take
from quorate.loop.engine import Engine
from quorate.loop.snapshots import Snapshots
from quorate.model.events import Scope
from quorate.model.specs import Owner
from quorate.model.state.records import AnnouncedConflict
from quorate.model.state.state import State
from quorate.operations.ledger.ledger_operations import VerifyLedger
from quorate.operations.ledger.verification import verify_ledger
from quorate.operations.request_context import BlocksContext
from quorate.operations.table import OPERATIONS
from quorate.ports.errors import ArchiveError, StoreFullError
from quorate.ports.store_port import EventStore
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.testing.states import same
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S
from tests.unit.operations.stage import ADMIN

FLEET = Apply((*fleet({"A": 16}), Owner(name="team"), budget("b", "team", envelope("e", 16))))


class SlowStore(MemoryStore):
    """A store whose snapshots wait until the test releases them, and fail on request."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go_on = Signal(), Signal()
        self.fails = False

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        self.begun.set()
        assert self.may_go_on.wait(WAIT_S)
        if self.fails:
            raise StoreFullError("no space left")
        super().save_snapshot(head, payload, ended, base_seq=base_seq)


def lived(engine: Engine, first: int = 0, count: int = 20) -> None:
    """Submit and end ``count`` runs, except for the last one."""
    for number in range(first, first + count):
        assert not engine.execute(Submit(run(f"r{number}", 2)), actor="t").decision.refusals
        if number < first + count - 1:
            engine.execute(Complete(f"r{number}"), actor="t")


def sqlite_engine(path: Path, *, snapshot_events: int = 20) -> Engine:
    """Return the engine of a new ledger whose ended runs are archived."""
    engine = Engine.create(
        SqliteStore.create(path), HandClock(), ledger_id="test", public_key="", actor="test"
    )
    engine.execute(FLEET, actor="t")
    engine.snapshot_events = snapshot_events
    return engine


def has_archive(engine: Engine) -> bool:
    return engine.view.runs.archive is not None


def folded(store: EventStore) -> State:
    return replay(store.blocks())[0]


def test_commits_go_on_while_a_snapshot_is_written_beside_them() -> None:
    store = SlowStore()
    engine = memory_engine(store)
    engine.execute(FLEET, actor="t")
    engine.snapshot_events = 20
    engine.write_snapshots_beside()
    lived(engine)  # Several snapshots are due meanwhile; one is being written, and no other begins.
    assert store.begun.wait(WAIT_S)
    assert store.load_snapshot() is None
    assert len(dict(engine.view.runs.kept())) == 20
    # A command names a run that the snapshot is archiving, and none of its data is lost.
    assert engine.execute(Submit(run("r0", 4)), actor="t").decision.refusals
    store.may_go_on.set()
    engine.close()
    kept = store.load_snapshot()
    assert kept is not None
    assert engine.view.runs.archive is not None
    assert len(dict(engine.view.runs.kept())) < 20
    assert same(engine.view.overlay(), folded(store)) == []
    assert same(Engine.open(store, HandClock()).view.overlay(), folded(store)) == []


class SlowRows(SqliteStore):
    """A store that waits, on request, in the middle of the next archive that it writes."""

    is_slow = False

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        rows = self._slowly(ended) if self.is_slow else ended
        super().save_snapshot(head, payload, rows, base_seq=base_seq)

    def _slowly(self, rows: Iterable[ArchivedRow]) -> Iterator[ArchivedRow]:
        for row in rows:
            yield row
            self.begun.set()
            assert self.may_go_on.wait(WAIT_S)

    begun: Signal
    may_go_on: Signal


@pytest.mark.heavy
@pytest.mark.parametrize("is_first", [False, True])
def test_a_snapshot_that_outlasts_its_engine_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_first: bool
) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path)
    if not is_first:
        lived(engine)
    engine.close()
    store = SlowRows.open(path)
    store.begun, store.may_go_on = Signal(), Signal()
    store.is_slow = True
    engine = Engine.open(store, HandClock(), snapshot_events=20)
    engine.write_snapshots_beside()
    lived(engine, 100)
    assert store.begun.wait(WAIT_S)
    (writer,) = [each for each in enumerate_threads() if each.name == "snapshot"]
    engine.close(within_s=0.1)
    assert "is given up" in caplog.text
    # The next writer has the ledger now, and is not affected by what the first has begun.
    later = SqliteStore.open(path)
    before = later.load_snapshot()
    store.may_go_on.set()
    writer.join(WAIT_S)
    assert not writer.is_alive()
    assert later.load_snapshot() == before
    engine = Engine.open(later, HandClock(), snapshot_events=20)
    lived(engine, 200)
    kept = later.load_snapshot()
    assert kept is not None
    assert kept[0].seq > (0 if before is None else before[0].seq)
    assert len(dict(engine.view.runs.kept())) < 40
    assert same(engine.view.overlay(), folded(later)) == []
    engine.close()


class CountingStore(MemoryStore):
    """A store that keeps the names that were looked up in its archive."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up: list[str] = []

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        self.looked_up.append(name)
        return super().archived_run(name, upto_seq)


def test_folding_new_runs_and_counting_those_of_an_owner_look_up_none_in_the_archive() -> None:
    store = CountingStore()
    engine = memory_engine(store)
    engine.execute(FLEET, actor="t")
    engine.snapshot_events = 20
    lived(engine)
    engine.snapshot_events = 10_000
    kept = store.load_snapshot()
    assert kept is not None
    lived(engine, first=20)
    store.looked_up.clear()
    state = restore(kept[1], store)
    assert state is not None
    replay(store.blocks(from_height=kept[0].height + 1), state=state, after=kept[0])
    assert state.runs.archive is not None
    assert state.runs.is_kept("r39")
    assert state.runs.count_of("team") == 40
    assert store.looked_up == []
    # A run from the archive is counted once, also in an overlay.
    overlay = state.overlay()
    overlay.runs.own("r0")
    assert overlay.runs.count_of("team") == 40
    state.runs.own("r0")
    assert state.runs.count_of("team") == state.overlay().runs.count_of("team") == 40


def test_settling_tells_whether_the_next_snapshot_may_begin() -> None:
    store = SlowStore()
    snapshots, state = Snapshots(store), State()
    snapshots.is_beside = True
    assert snapshots.settle()
    snapshots.begin(state, GENESIS)
    assert store.begun.wait(WAIT_S)
    assert not snapshots.settle()
    store.may_go_on.set()
    snapshots.wait(WAIT_S)
    assert snapshots.settle()
    snapshots.begin(state, GENESIS)
    snapshots.wait(WAIT_S)


@pytest.mark.heavy
def test_a_snapshot_beside_that_fails_is_logged_and_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = SlowStore()
    store.fails = True
    store.may_go_on.set()
    engine = memory_engine(store)
    engine.execute(FLEET, actor="t")
    engine.snapshot_events = 20
    engine.write_snapshots_beside()
    with caplog.at_level(logging.WARNING):
        lived(engine)
        engine.close()
    assert "no snapshot at sequence" in caplog.text
    assert not has_archive(engine)
    assert same(engine.view.overlay(), folded(store)) == []
    store.fails = False
    lived(engine, first=20)
    engine.close()
    assert has_archive(engine)
    assert same(engine.view.overlay(), folded(store)) == []


def test_a_run_that_changes_while_it_is_archived_keeps_its_change() -> None:
    store = SlowStore()
    engine = memory_engine(store)
    engine.execute(FLEET, actor="t")
    engine.snapshot_events = 20
    engine.write_snapshots_beside()
    lived(engine)
    assert store.begun.wait(WAIT_S)
    state = engine._state
    state.runs.own("r0").note = "changed"
    assert state.runs["r0"].note == "changed"
    store.may_go_on.set()
    engine.close()
    assert state.runs["r0"].note == "changed"
    assert len(state.runs) == 20
    assert state.runs.archive is not None
    archived = state.runs.archive.get("r0")
    assert archived is not None
    assert not archived.note


@pytest.mark.heavy
def test_each_snapshot_archives_what_ended_since_the_last(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path)
    lived(engine, count=60)
    assert len(dict(engine.view.runs.kept())) < 15
    assert len(engine.view.runs) == 60
    engine.close()
    with closing(sqlite3.connect(archive_path(path))) as db:
        (snapshots,) = db.execute("SELECT count(DISTINCT archived_seq) FROM run").fetchone()
    assert snapshots > 3
    with SqliteStore.open(path) as store:
        opened = Engine.open(store, HandClock())
        assert len(dict(opened.view.runs.kept())) < 15
        assert same(opened.view.overlay(), folded(store)) == []


def test_a_snapshot_of_an_earlier_format_is_refused_and_the_log_is_read() -> None:
    engine = memory_engine()
    engine.execute(FLEET, actor="t")
    lived(engine)
    old = msgspec.msgpack.encode([SNAPSHOT_FORMAT - 1, engine.head.seq])
    assert restore(old) is None
    engine.store.save_snapshot(engine.head, old)
    opened = Engine.open(engine.store, HandClock())
    assert same(opened.view.overlay(), folded(engine.store)) == []


@pytest.mark.heavy
def test_a_ledger_from_before_there_was_an_archive_opens_and_sheds_its_snapshot(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path, snapshot_events=10**9)
    lived(engine)
    engine.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE snapshot (id INTEGER PRIMARY KEY, payload BLOB)")
        db.execute("INSERT INTO snapshot VALUES (1, zeroblob(100000))")
    with SqliteStore.read(path) as reader:
        assert same(Engine.open(reader, HandClock()).view.overlay(), folded(reader)) == []
    with SqliteStore.open(path) as store:
        opened = Engine.open(store, HandClock())
        assert same(opened.view.overlay(), folded(store)) == []
    with closing(sqlite3.connect(path)) as db:
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'snapshot'").fetchall()


@pytest.mark.heavy
def test_an_archive_of_another_ledger_at_the_same_path_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, other = tmp_path / "ledger.db", tmp_path / "other.db"
    first, second = sqlite_engine(path), sqlite_engine(other, snapshot_events=10**9)
    lived(first, count=30)
    second.execute(Submit(run("only", 4)), actor="t")
    first.close()
    second.close()
    archive_path(path).rename(archive_path(other))
    with SqliteStore.open(other) as store, caplog.at_level(logging.WARNING):
        opened = Engine.open(store, HandClock())
        assert list(opened.view.runs) == ["only"]
        assert "the snapshot was ignored" in caplog.text
        opened.snapshot_events = 1
        lived(opened, count=5)
        assert same(opened.view.overlay(), folded(store)) == []
    with SqliteStore.open(other) as store:
        assert same(Engine.open(store, HandClock()).view.overlay(), folded(store)) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE run SET payload = x'00' WHERE name = 'r0'",
        "UPDATE run SET owner = 'other' WHERE name = 'r0'",
        "UPDATE run SET phase = 'Failed' WHERE name = 'r0'",
        "DELETE FROM run WHERE name = 'r0'",
        "UPDATE run SET archived_seq = archived_seq + 1000 WHERE name = 'r0'",
    ],
)
def test_a_changed_row_of_the_archive_is_found(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path)
    lived(engine, count=30)
    engine.close()
    clock = HandClock()

    def verify() -> None:
        with SqliteStore.read(path) as store:
            context = BlocksContext(store=store, clock=clock, caller=ADMIN)
            verify_ledger(context, VerifyLedger(deep=True), OPERATIONS["verify-ledger"])

    verify()
    with closing(sqlite3.connect(archive_path(path))) as db, db:
        db.execute(damage)
    with pytest.raises(CommandError, match="archive") as caught:
        verify()
    assert "remove" in str(caught.value)
    # The removed archive is created again from the ledger.
    archive_path(path).unlink()
    with SqliteStore.open(path) as store:
        opened = Engine.open(store, clock)
        opened.snapshot_events = 1
        opened.execute(Cancel("r29"), actor="t")
        assert opened.view.runs.archive is not None
        assert same(opened.view.overlay(), folded(store)) == []
    verify()


@pytest.mark.heavy
def test_a_damaged_row_is_an_error_that_says_what_to_do_and_no_wrong_answer(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path)
    lived(engine, count=30)
    engine.close()
    with closing(sqlite3.connect(archive_path(path))) as db, db:
        db.execute("UPDATE run SET payload = x'00' WHERE name = 'r0'")
    with SqliteStore.open(path) as store:
        opened = Engine.open(store, HandClock())
        with pytest.raises(ArchiveError, match="start the process again: it derives"):
            opened.execute(Submit(run("r0", 2)), actor="t")
        assert not opened.execute(Submit(run("new", 2)), actor="t").decision.refusals


@pytest.mark.heavy
def test_an_archive_that_vanishes_under_its_writer_stops_snapshots_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path)
    lived(engine, count=30)
    archive_path(path).unlink()
    with caplog.at_level(logging.WARNING):
        lived(engine, first=30, count=30)
    assert "no snapshot at sequence" in caplog.text
    assert fingerprint(folded(engine.store)) == fingerprint(engine._state)
    engine.close()
    with SqliteStore.open(path) as store:
        assert same(Engine.open(store, HandClock()).view.overlay(), folded(store)) == []


@pytest.mark.heavy
def test_a_reader_that_began_earlier_is_not_disturbed_by_later_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path)
    lived(engine, count=30)
    reader = Engine.open(PagedReader(path), HandClock())
    with SqliteStore.read(path) as store:
        kept = Engine.open(store, HandClock())
        before = fingerprint(folded(reader.store))
        lived(engine, first=30, count=60)
        for each in (reader, kept):
            assert fingerprint(each._state) == before
            assert len(each.view.runs) == 30
            assert each.view.runs["r0"].ended_ms is not None
    engine.close()


@pytest.mark.heavy
def test_a_long_log_is_read_in_parts_and_archived_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path, snapshot_events=10**9)
    commands: list[Command] = []
    for number in range(1_000):
        commands += [Submit(run(f"r{number}", 1)), Complete(f"r{number}")]
    for start in range(0, len(commands), 200):
        engine.execute_all(commands[start : start + 200], actor="t")
    engine.close()
    with SqliteStore.open(path) as store:
        opened = Engine.open(store, HandClock(), snapshot_events=1_000)
        assert len(opened.view.runs) == 1_000
        assert len(dict(opened.view.runs.kept())) < 400
        assert same(opened.view.overlay(), folded(store)) == []


def test_a_snapshot_keeps_what_was_announced_in_the_order_it_was() -> None:
    """A decision that withdraws an announcement names the runs in that order."""
    state = State()
    scope = Scope("default", "H100", (), "")
    for name in ("b@1", "a@1"):
        state.announced[name] = AnnouncedConflict(1, scope, {"z": 1, "y": 2})
    restored = restore(take(state))
    assert restored is not None
    assert list(restored.announced) == ["b@1", "a@1"]
    assert [list(known.runs) for known in restored.announced.values()] == [["z", "y"]] * 2
    assert fingerprint(restored) == fingerprint(state)


@pytest.mark.heavy
def test_a_reader_goes_on_with_the_archive_that_it_began_with(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    engine = sqlite_engine(path)
    lived(engine)
    engine.close()
    with PagedReader(path, is_archive_kept=True) as store:
        reader = Engine.open(store, HandClock())
        archive = reader.view.runs.archive
        assert archive is not None
        names = [f"r{number}" for number in range(archive.count())]
        assert names
        assert "r0" in reader.view.runs
        # The next writer creates it again, and archives all of them with a later snapshot.
        remove_archive(path)
        engine = Engine.open(SqliteStore.open(path), HandClock(), snapshot_events=50)
        lived(engine, 100)
        engine.close()
        assert all(name in reader.view.runs for name in names)
    with PagedReader(path, is_archive_kept=True) as store:
        assert all(name in Engine.open(store, HandClock()).view.runs for name in names)
