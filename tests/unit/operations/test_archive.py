"""A ledger with archived runs answers every command and every read like one without.

Two engines get the same commands at the same instants. One writes a snapshot after every few
events, which archives ended runs; the other writes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import Struct

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    Release,
    RemoveOwner,
    Resolve,
    Submit,
    Tick,
)
from quorate.ledger.archive import RunArchive
from quorate.loop.commit_types import Receipt
from quorate.loop.engine import Engine
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.model.specs import Follow, Owner, Pool
from quorate.model.state.records import Phase
from quorate.model.state.run_table import RunQuery
from quorate.operations.caller import Caller, Role
from quorate.operations.fleet.observe_operations import FleetTop
from quorate.operations.ledger.ledger_operations import ListEvents
from quorate.operations.ledger.plan_operations import AboutRun, PictureRequest
from quorate.operations.money.money_operations import (
    GetStatement,
    TenantUsageRequest,
    UserUsageRequest,
)
from quorate.operations.notices.notice_operations import ListNotices
from quorate.operations.resources.resource_operations import GetThing, ListRuns, ListThings
from quorate.ports.store_port import EventStore
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET, HandClock
from quorate.testing.states import same
from quorate.views.exits import CommandError
from tests.unit.operations.stage import ADMIN, ask, desk_for, lines_of

OF_LAB = Caller(actor="ada", role=Role.USER, user="ada", tenant="lab")
OF_OTHER = Caller(actor="eve", role=Role.TENANT_ADMIN, user="eve", tenant="other")
CALLERS = (ADMIN, OF_LAB, OF_OTHER)
FEW = 12
"""The events between two snapshots of the engine that archives."""

DECLARED = Apply(
    (
        Pool(name="default", firm_horizon_ms=24 * HOUR_MS),
        *fleet({"A": 16, "B": 8}),
        Owner(name="lab"),
        Owner(name="team", parents=("lab",)),
        Owner(name="other"),
        Owner(name="gone"),
        *(budget(f"{owner}-b", owner, envelope("e", 24)) for owner in ("lab", "other", "gone")),
    )
)


def _submit(name: str, gpus: int, owner: str, **more: Any) -> Command:
    return Submit(run(name, gpus, owner, user=owner, expected_duration_ms=HOUR_MS, **more))


def steps() -> Iterator[Command]:
    """Yield a history in which runs end in every way, and later commands refer to them."""
    yield DECLARED
    for number in range(8):
        owner = ("lab", "team", "other", "gone")[number % 4]
        yield _submit(f"r{number}", 4, owner)
    yield Complete("r0", "well")
    yield Cancel("r1", "no more")
    yield _submit("claim", 8, "lab", sensitive=True, selector=(("fabric.domain", "B"),))
    yield Complete("r2")
    yield Complete("r4")
    yield Release("claim", "done")
    for number in range(8, 14):
        yield _submit(f"r{number}", 2, ("lab", "other")[number % 2])
    # A run that ended long ago is named again.
    yield _submit("r0", 4, "lab")
    yield Submit(run("r1", 2, "other", user="other"))
    yield Complete("r2")
    yield Cancel("r0")
    yield _submit("after", 2, "lab", follow=Follow(after=("r0", "r2")))
    yield _submit("after-cancelled", 2, "lab", follow=Follow(after=("r1",)))
    yield _submit("after-nothing", 2, "lab", follow=Follow(after=("never",)))
    for number in (3, 5, 6, 7, 8, 9, 10, 11):
        yield Complete(f"r{number}")
    yield Resolve("default", "H100", (), 8)
    yield Tick()
    yield Cancel("r12")
    yield Complete("r13")
    yield RemoveOwner("gone")
    yield _submit("last", 2, "team", follow=Follow(after=("after",)))
    yield Complete("after")
    yield Tick()


def new_engine(store: EventStore, *, snapshot_events: int) -> tuple[Engine, HandClock]:
    clock = HandClock()
    engine = Engine.create(
        store,
        clock,
        ledger_id="test",
        public_key="",
        actor="test",
        lottery_secret=LOTTERY_SECRET,
        lottery_length=LOTTERY_LENGTH,
    )
    engine.snapshot_events = snapshot_events
    return engine, clock


def live(engine: Engine, clock: HandClock) -> list[Receipt]:
    receipts = []
    for number, command in enumerate(steps()):
        clock.ms += (5 + number % 3) * MINUTE_MS
        receipts.append(engine.execute(command, actor="root"))
    return receipts


def archive_of(engine: Engine) -> RunArchive:
    archive = engine.view.runs.archive
    assert isinstance(archive, RunArchive), archive
    return archive


@contextmanager
def both(store: EventStore) -> Iterator[tuple[Engine, Engine]]:
    """Return an engine that archived most of its runs, and one that archived none."""
    archiving, clock = new_engine(store, snapshot_events=FEW)
    plain, other = new_engine(MemoryStore(), snapshot_events=10**9)
    assert live(archiving, clock) == live(plain, other)
    assert plain.view.runs.archive is None
    assert archive_of(archiving).count() > 12
    try:
        yield archiving, plain
    finally:
        archiving.close()


@pytest.fixture(scope="module", params=["memory", "sqlite", "reopened"])
def engines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, Engine]]:
    """Yield the two engines, which all tests share that only read."""
    path = tmp_path_factory.mktemp("archive") / "ledger.db"
    store = MemoryStore() if request.param == "memory" else SqliteStore.create(path)
    with both(store) as (archiving, plain):
        if request.param != "reopened":
            yield archiving, plain
            return
    clock = HandClock(plain.now_ms())
    opened = Engine.open(SqliteStore.open(path), clock, lottery_secret=LOTTERY_SECRET)
    try:
        yield opened, plain
    finally:
        opened.close()


def questions(engine: Engine) -> Iterator[tuple[str, Struct]]:
    runs = [*(f"r{number}" for number in range(14)), "claim", "after", "after-cancelled", "last"]
    for kind in ("runs", "claims", "charges", "queue", "owners", "leases", "envelopes"):
        takes = ListRuns if kind in {"runs", "queue"} else ListThings
        for more in ({}, {"limit": 3}, {"limit": 3, "cursor": "r4"}, {"cursor": "r1"}):
            yield f"list-{kind}", takes(**more)
    for phase in (None, "completed", "Cancelled", "pending", "nonsense"):
        for owner in (None, "lab", "team", "gone", "nobody"):
            yield "list-runs", ListRuns(owner=owner, phase=phase)
            yield "list-runs", ListRuns(owner=owner, phase=phase, newest=True, limit=2)
    yield "list-runs", ListRuns(newest=True, limit=4, cursor="r2")
    yield "list-runs", ListRuns(names=("r3", "r0"))
    yield "list-charges", ListThings(names=("r0", "r2/lab-b"))
    for name in (*runs, "nothing", "r99", "clam"):
        for kind in ("run", "claim", "charge"):
            yield f"get-{kind}", GetThing(name=name)
        yield "describe-run", GetThing(name=name)
        yield "explain-run", AboutRun(run=name)
        yield "plan-run", AboutRun(run=name)
        yield "list-events", ListEvents(run=name)
    for owner in ("lab", "team", "other"):
        yield "describe-owner", GetThing(name=owner)
        yield "tenant-usage", TenantUsageRequest(id=owner)
        yield "user-usage", UserUsageRequest(user=owner)
    yield "statement", GetStatement()
    yield "picture", PictureRequest()
    yield "fleet-top", FleetTop()
    yield "list-notices", ListNotices()
    del engine


def told(do: Callable[[], Any]) -> Any:
    try:
        found = do()
    except CommandError as error:
        return ("refused", error.lines, error.fault)
    return found.tree(), lines_of(found, wide=True), found.notes


@pytest.mark.heavy
def test_every_question_is_answered_alike(engines: tuple[Engine, Engine]) -> None:
    archiving, plain = engines
    asked = 0
    for caller in CALLERS:
        for name, question in questions(plain):
            here = told(lambda: ask(desk_for(caller, archiving), name, question))  # noqa: B023
            there = told(lambda: ask(desk_for(caller, plain), name, question))  # noqa: B023
            assert here == there, (caller.user, name, question)
            asked += 1
    assert asked > 400


def _named(tree: dict[str, Any]) -> list[str]:
    return [each["metadata"]["name"] for each in tree["items"]]


@pytest.mark.heavy
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 1_000])
def test_pages_of_runs_join_to_the_whole_list(
    engines: tuple[Engine, Engine], *, newest: bool, grouped: bool, limit: int
) -> None:
    archiving, plain = engines
    all_of = ListRuns(newest=newest, grouped=grouped)
    whole = _named(ask(desk_for(ADMIN, plain), "list-runs", all_of).tree())
    assert grouped or whole == list(plain.view.runs)
    names: list[str] = []
    cursor = None
    for _ in range(len(whole) + 1):
        asked = ListRuns(limit=limit, cursor=cursor, newest=newest, grouped=grouped)
        page = ask(desk_for(ADMIN, archiving), "list-runs", asked).tree()
        names = _named(page) + names if newest else names + _named(page)
        cursor = page.get("next")
        if cursor is None:
            break
    assert names == whole


@pytest.mark.heavy
def test_states_are_the_same_and_so_is_each_mapping(engines: tuple[Engine, Engine]) -> None:
    archiving, plain = engines
    mine, theirs = archiving.view.overlay(), plain.view.overlay()
    assert same(mine, theirs) == []
    for runs in (archiving.view.runs, mine.runs):
        assert list(runs) == list(theirs.runs)
        assert len(runs) == len(theirs.runs)
        assert list(runs.items()) == list(theirs.runs.items())
        assert list(runs.values()) == list(theirs.runs.values())
        assert runs == theirs.runs
        assert all(name in runs for name in theirs.runs)
        assert "never" not in runs
        assert runs.get("never") is None
        with pytest.raises(KeyError):
            runs["never"]


@pytest.mark.heavy
def test_an_archived_run_that_changes_comes_back_and_stays() -> None:
    with both(MemoryStore()) as (archiving, _):
        state = archiving._state
        assert not state.runs.is_kept("r0")
        over = state.overlay()
        over.runs.own("r0").note = "changed above"
        assert state.runs["r0"].note == "well"
        assert over.runs["r0"].note == "changed above"
        count, names = len(state.runs), list(state.runs)
        state.runs.own("r0").note = "changed"
        assert (len(state.runs), list(state.runs)) == (count, names)
        assert state.runs.is_kept("r0")
        archiving.execute(Apply(tuple(Owner(name=f"o{n}") for n in range(2 * FEW))), actor="root")
        again = Engine.open(archiving.store, HandClock(archiving.recorded_ms))
        assert again.view.runs["r0"].note == "changed"
        assert (len(again.view.runs), list(again.view.runs)) == (count, names)


@pytest.mark.heavy
def test_live_runs_are_in_memory_and_most_that_are_over_are_not() -> None:
    with both(MemoryStore()) as (archiving, plain):
        kept = dict(archiving.view.runs.kept())
        for name, record in plain.view.runs.items():
            if record.phase in {Phase.PENDING, Phase.RUNNING}:
                assert name in kept
        assert len(kept) < len(plain.view.runs) / 2
        archived = [name for _, name in archive_of(archiving).names(RunQuery())]
        assert not set(archived) & set(kept)


@pytest.mark.heavy
def test_time_that_passes_is_decided_alike() -> None:
    """Cool-downs, disruption accounts and histories outlive the runs that they come from."""
    with both(MemoryStore()) as (archiving, plain):
        for number in range(6):
            for engine in (archiving, plain):
                engine._clock.ms += DAY_MS // 3  # type: ignore[attr-defined]
            command = _submit(f"later{number}", 20, ("lab", "other")[number % 2])
            first, second = (e.execute(command, actor="root") for e in (archiving, plain))
            assert first == second
        assert archiving.head == plain.head
