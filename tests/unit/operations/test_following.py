"""Following: every event that a caller may see, once, in order, from any cursor on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Complete, Submit, Tick
from quorate.ledger.chain import GENESIS, seal
from quorate.ledger.codec import event_to_json
from quorate.ledger.fold import replay
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import OwnerApplied
from quorate.model.specs import Owner
from quorate.operations.caller import Caller
from quorate.operations.cursor import Cursor
from quorate.operations.ledger.following import LOOKED_AT_MAX, Follower, watch_events
from quorate.operations.ledger.ledger_operations import WatchEvents
from quorate.operations.ledger.watch_handlers import Watched
from quorate.operations.recent_blocks import Recent
from quorate.operations.table import OPERATIONS
from quorate.operations.visible_events import Sight
from quorate.testing.builders import NOW_MS, opening, run
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from quorate.views.runs.event_text import entries
from tests.unit.operations.stage import (
    ADMIN,
    EVERYBODY,
    OF_LAB,
    OF_NONE,
    OF_OTHER,
    SEEN,
    desk_for,
    engine_at_work,
)

WATCH = OPERATIONS["watch-events"]
BLOCKS = list(engine_at_work().store.blocks())
by_caller = pytest.mark.parametrize("caller", EVERYBODY, ids=lambda each: each.actor)


def told(follower: Follower, limit: int = 1_000) -> list[int]:
    """Return the sequences of all events that there are to read."""
    found: list[int] = []
    while follower.is_behind:
        found += [shown.seq for shown in follower.read(limit)]
    return found


def visible(engine: Engine, caller: Caller) -> list[tuple[int, object]]:
    """Return the events that ``caller`` may see, from the whole ledger at once."""
    sight = Sight(engine.view, caller)
    return [
        (entry.seq, event_to_json(entry.seq, sight.told(entry.event)))
        for entry in entries(engine.store.blocks())
        if sight.sees(entry.event)
    ]


@by_caller
def test_everybody_is_told_what_is_theirs_and_everybodys(caller: Caller) -> None:
    follower = watch_events(desk_for(caller), WatchEvents(first=1), WATCH)
    assert told(follower) == list(SEEN[caller.actor])
    assert follower.cursor == max(SEEN["root"])


@pytest.mark.heavy
def test_without_a_sequence_only_what_is_new_is_told() -> None:
    engine = engine_at_work()
    follower = watch_events(desk_for(ADMIN, engine), WatchEvents(), WATCH)
    assert not follower.is_behind
    assert follower.read(10) == []
    engine.execute(Complete("of-team"), actor="root")
    assert [shown.tree["tag"] for shown in follower.read(2)] == ["lease-ended/1", "run-ended/1"]


@pytest.mark.heavy
def test_a_run_a_pool_and_reservations_are_followed_alone() -> None:
    def seen(**chosen: object) -> list[int]:
        asked = WatchEvents(first=1, **chosen)  # type: ignore[arg-type]
        return told(watch_events(desk_for(ADMIN), asked, WATCH))

    assert seen(run="run/lab-waits") == [
        *range(15, 19),
        25,
        27,
        31,
        32,
        *range(35, 40),
        42,
        43,
        48,
        53,
    ]
    assert seen(run="of-other") == [13, 14, 18, 22, *range(24, 31), 33, 34, 49, 50]
    assert seen(reservations=True) == [
        16,
        18,
        20,
        22,
        *range(24, 28),
        31,
        33,
        35,
        36,
        40,
        42,
        44,
        49,
        51,
    ]
    assert seen(pool="default") == [*range(11, 23), *range(24, 54)]


@pytest.mark.parametrize(
    ("caller", "asked", "fault"),
    [
        (OF_LAB, WatchEvents(run="of-other"), "unknown-name"),
        (OF_LAB, WatchEvents(run="nobody"), "unknown-name"),
        (ADMIN, WatchEvents(pool="nowhere"), "unknown-name"),
        (ADMIN, WatchEvents(run="of-other", pool="default"), "usage"),
        (ADMIN, WatchEvents(first=55), "stale-cursor"),
    ],
)
def test_what_cannot_be_followed_is_refused(caller: Caller, asked: WatchEvents, fault: str) -> None:
    with pytest.raises(CommandError) as raised:
        watch_events(desk_for(caller), asked, WATCH)
    assert raised.value.fault == fault


@pytest.mark.heavy
def test_the_next_event_can_be_asked_for_before_it_is_there() -> None:
    follower = watch_events(desk_for(ADMIN), WatchEvents(first=54), WATCH)
    assert follower.read(5) == []


def test_hidden_events_hold_up_nobody_for_long() -> None:
    other = OwnerApplied(at_ms=NOW_MS, actor="root", owner=Owner(name="other"))
    first = seal(GENESIS, opening(owners=[Owner(name="lab"), Owner(name="other")]))
    hidden = seal(first.head, [other] * (LOOKED_AT_MAX + 1))
    state, head = replay([first, hidden])
    recent = Recent(MemoryStore([first, hidden]))
    follower = Follower(Cursor(recent, lambda: state, first.head.seq), OF_LAB, Watched())
    assert follower.read(1) == []
    assert follower.is_behind
    assert follower.cursor == first.head.seq + LOOKED_AT_MAX
    assert follower.read(1) == []
    assert (follower.cursor, follower.is_behind) == (head.seq, False)


@pytest.mark.heavy
def test_what_the_state_does_not_know_yet_waits() -> None:
    engine = engine_at_work()
    state, head = replay(engine.store.blocks())
    engine.execute(Submit(run("later", 1, "other")), actor="eve")
    follower = Follower(Cursor(Recent(engine.store), lambda: state, head.seq), OF_OTHER, Watched())
    assert (follower.is_behind, follower.read(10)) == (False, [])


@pytest.mark.heavy
@given(
    data=st.data(),
    caller=st.sampled_from(EVERYBODY),
    first=st.integers(1, 32),
    events_max=st.sampled_from([1, 5, 1_000]),
)
def test_any_reading_tells_every_visible_event_once_in_order(
    data: st.DataObject, caller: Caller, first: int, events_max: int
) -> None:
    """In any pieces, with any pauses, by any number of followers one after the other."""
    clock = HandClock(NOW_MS + 3 * HOUR_MS)
    engine = Engine.open(MemoryStore(BLOCKS), clock)
    recent = Recent(engine.store, events_max)

    def new(cursor: int) -> Follower:
        return Follower(Cursor(recent, lambda: engine.view, cursor), caller, Watched())

    follower, found = new(first - 1), []
    for number in range(data.draw(st.integers(0, 12), label="steps")):
        match data.draw(st.sampled_from(["read", "append", "resume", "pass by"]), label="step"):
            case "append":
                owner = data.draw(st.sampled_from(["lab", "team", "other"]))
                clock.ms += HOUR_MS
                engine.execute_all([Submit(run(f"r{number}", 1, owner)), Tick()], actor="root")
            case "resume":
                follower = new(follower.cursor)
            case "pass by":
                # Other followers read, too: what is cached for all is right for each of them.
                Follower(Cursor(recent, lambda: engine.view, 0), OF_NONE, Watched()).read(3)
            case _:
                limit = data.draw(st.integers(1, 7), label="limit")
                read = follower.read(limit)
                assert len(read) <= limit
                found += read
    while follower.is_behind:
        found += follower.read(3)
    read_trees = [(shown.seq, shown.tree) for shown in found]
    assert read_trees == [each for each in visible(engine, caller) if each[0] >= first]


def test_a_block_is_found_by_any_of_its_events_and_opened_once() -> None:
    engine = engine_at_work()
    recent = Recent(engine.store)
    for block in engine.store.blocks():
        for seq in range(block.first_seq, block.first_seq + block.count):
            assert recent.height_of(seq) == block.height
        assert recent.page(block.height) is recent.page(block.height)


@pytest.mark.heavy
def test_only_so_many_events_are_kept_opened() -> None:
    engine = engine_at_work()
    recent = Recent(engine.store, 3)
    first = recent.page(1)
    assert len(first.events) == 2
    recent.page(2)
    assert recent.page(1) is not first
