"""The next step of a keeper: as a table, and in random stories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.keeper.next_step import (
    Drop,
    Gang,
    Kill,
    Rest,
    Start,
    Step,
    Warn,
    gone,
    next_step,
    on_own_clock,
)
from quorate.keeper.wanted import Exited, Part, Slot, Wanted, Work

GRACE_MS = 100
WORK = Work(run="r", command=("true",), env={}, working_dir="/", processes="gpu", grace_ms=GRACE_MS)


def part(lease: str, *ordinals: int, bundle: int = 0, stop_by_ms: int | None = None) -> Part:
    slots = tuple(("n", ordinal) for ordinal in ordinals)
    return Part(lease=lease, bundle=bundle, slots=slots, stop_by_ms=stop_by_ms)


def wanted(*parts: Part, life: str = "a") -> Wanted:
    return Wanted(life=life, work=WORK, parts=parts)


def gang(*ordinals: int, life: str = "a", stop_by_ms: int | None = None) -> Gang:
    return Gang(life=life, slots=slots(*ordinals), stop_by_ms=stop_by_ms)


def slots(*ordinals: int) -> frozenset[Slot]:
    return frozenset(("n", ordinal) for ordinal in ordinals)


CASES: list[tuple[str, Wanted, Gang | None, Step]] = [
    ("nothing wanted, nothing there", wanted(), None, Rest()),
    ("a start", wanted(part("1", 0)), None, Start()),
    ("it goes on", wanted(part("1", 0)), gang(0), Rest()),
    ("handed over: other leases, the same slots", wanted(part("2", 0)), gang(0), Rest()),
    (
        "a step comes",
        wanted(part("1", 0), part("2", 1, bundle=1)),
        gang(0),
        Warn(1_100, "resize", frozenset()),
    ),
    (
        "a step goes",
        wanted(part("1", 0), part("2", 1, bundle=1, stop_by_ms=1_050)),
        gang(0, 1),
        Warn(1_050, "resize", frozenset()),
    ),
    (
        "all of it goes",
        wanted(part("1", 0, stop_by_ms=1_070)),
        gang(0),
        Warn(1_070, "stop", frozenset()),
    ),
    (
        "all of it goes, later than its grace of today",
        wanted(part("1", 0, stop_by_ms=1_000 + 9 * GRACE_MS)),
        gang(0),
        Warn(1_000 + 9 * GRACE_MS, "stop", frozenset()),
    ),
    (
        "a part of the first bundle goes: nothing gets on",
        wanted(part("1", 0, stop_by_ms=1_070), part("2", 1)),
        None,
        Rest(),
    ),
    (
        "a node was lost, and a spare takes over",
        wanted(part("1", 0), part("3", 2)),
        gang(0, 1),
        Warn(1_100, "resize", slots(1)),
    ),
    ("ended without a word", wanted(), gang(0), Kill()),
    ("another life on the same slots", wanted(part("9", 0), life="b"), gang(0), Kill()),
    ("warned, and in time", wanted(part("1", 0)), gang(0, stop_by_ms=1_001), Rest(1_001)),
    ("warned, and late", wanted(part("1", 0)), gang(0, stop_by_ms=1_000), Kill()),
    (
        "warned, and then told to be quicker",
        wanted(part("1", 0, stop_by_ms=1_000)),
        gang(0, stop_by_ms=1_090),
        Kill(),
    ),
    ("warned, and ended meanwhile", wanted(), gang(0, stop_by_ms=1_090), Kill()),
    (
        "warned, and another life meanwhile",
        wanted(part("9", 1), life="b"),
        gang(0, stop_by_ms=1_090),
        Kill(),
    ),
    (
        "warned, and a node was lost meanwhile",
        wanted(part("1", 0, stop_by_ms=1_080)),
        gang(0, 1, stop_by_ms=1_090),
        Drop(slots(1)),
    ),
    (
        "warned, and what was lost has been seen to",
        wanted(part("1", 0)),
        replace(gang(0, 1, stop_by_ms=1_090), lost=slots(1)),
        Rest(1_090),
    ),
    (
        "a node was lost, and what was there stays open until a spare is free",
        wanted(replace(part("1", 0, 1), lost=(("n", 1),))),
        gang(0, 1),
        Warn(1_100, "stop", slots(1)),
    ),
    (
        "the same, and nothing is there: nothing gets on without it",
        wanted(replace(part("1", 0, 1), lost=(("n", 1),))),
        None,
        Rest(),
    ),
    (
        "a step was lost: the rest goes on",
        wanted(part("1", 0), replace(part("2", 1, bundle=1), lost=(("n", 1),))),
        None,
        Start(),
    ),
    ("being killed", wanted(part("1", 0)), replace(gang(0), is_killed=True), Rest()),
]


@pytest.mark.parametrize(
    ("asked", "there", "step"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_steps(asked: Wanted, there: Gang | None, step: Step) -> None:
    assert next_step(asked, there, None, 1_000) == step


def test_what_has_exited_is_not_started_again_in_the_same_life() -> None:
    exited = Exited(life="a", code=0, note="")
    assert next_step(wanted(part("1", 0)), None, exited, 0) == Rest()
    assert next_step(wanted(part("2", 0), life="b"), None, exited, 0) == Start()


def test_a_deadline_stays_where_it_is_when_somebody_sets_the_time_of_day() -> None:
    hour_ms = 3_600_000
    asked = wanted(part("1", 0, stop_by_ms=10_000), part("2", 1))
    told, dues = on_own_clock(asked, {}, 9_000)
    assert [each.stop_by_ms for each in told.parts] == [1_000, None]
    for set_by_ms in (-hour_ms, hour_ms):
        again, _ = on_own_clock(asked, dues, 9_000 + set_by_ms)
        assert again == told
        # A later order gets the new time; it may be earlier, and then it counts.
        by_ms = 9_000 + set_by_ms + 500
        quicker = wanted(asked.parts[0], part("2", 1, stop_by_ms=by_ms))
        sooner, more = on_own_clock(quicker, dues, 9_000 + set_by_ms)
        assert [each.stop_by_ms for each in sooner.parts] == [1_000, 500]
        assert next_step(sooner, gang(0, 1, stop_by_ms=1_000), None, 499) == Rest(500)
        assert next_step(sooner, gang(0, 1, stop_by_ms=1_000), None, 500) == Kill()
        assert set(more) == {("1", 10_000), ("2", by_ms)}


def test_a_lease_has_gone_when_nothing_runs_on_its_slots() -> None:
    asked = wanted(part("1", 0), part("2", 1, bundle=1, stop_by_ms=9), part("3", 2, stop_by_ms=9))
    assert gone(asked, gang(0, 1)) == ("3",)
    assert gone(asked, None) == ("2", "3")


parts = st.lists(
    st.builds(
        lambda ordinal, bundle, stop: part(f"l{ordinal}", ordinal, bundle=bundle, stop_by_ms=stop),
        st.integers(0, 4),
        st.integers(0, 2),
        st.none() | st.integers(0, 300),
    ),
    max_size=4,
    unique_by=lambda each: each.lease,
)


@pytest.mark.heavy
@given(st.lists(st.tuples(parts, st.sampled_from("ab"), st.booleans()), max_size=12))
def test_whatever_is_wanted_comes_about_and_nothing_runs_where_nothing_may(
    story: list[tuple[list[Part], str, bool]],
) -> None:
    """Play a keeper: time passes, and processes end at any time after a warning, or when killed."""
    there: Gang | None = None
    now_ms = 0
    for some, life, goes_by_itself in [*story, (story[-1][0] if story else [], "a", True)] * 2:
        asked = wanted(*some, life=life)
        for _ in range(12):
            step = next_step(asked, there, None, now_ms)
            if isinstance(step, Start):
                assert there is None
                there = Gang(life=asked.life, slots=frozenset(asked.slots))
            elif isinstance(step, Warn):
                assert there is not None
                assert now_ms <= step.by_ms or any(p.stop_by_ms is not None for p in some)
                there = None if goes_by_itself else replace(there, stop_by_ms=step.by_ms)
            elif isinstance(step, Drop):
                assert there is not None
                assert step.lost
                there = replace(there, lost=step.lost)
            elif isinstance(step, Kill):
                there = None
            elif step.until_ms is not None:
                now_ms = step.until_ms
            else:
                break
        else:
            pytest.fail("it never comes to rest")
        assert there is None or there.slots == frozenset(asked.slots)
        assert there is None or there.life == asked.life
        if there is None:
            assert asked.stands_still or not asked.slots
        assert set(gone(asked, there)) == {p.lease for p in some if p.stop_by_ms is not None}
