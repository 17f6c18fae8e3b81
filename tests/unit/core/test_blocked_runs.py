"""Runs that an upstream or the limit of their array blocks cost other runs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from operator import sub
from types import FrameType

import pytest

from quorate.core.commands import (
    Apply,
    Cancel,
    CancelTasks,
    Command,
    Complete,
    Fail,
    Submit,
    Tick,
)
from quorate.core.tenancy.queue_order import queue_order
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RunRefused
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Follow, Pool, Run, TaskArray, UpstreamFailure
from quorate.model.state.records import Phase
from quorate.model.task_arrays import task_names, task_runs
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.lives import Life

FEW, MANY = 20, 200
COMMANDS: tuple[Command, ...] = (
    Submit(run("x", 1, "other")),
    Tick(),
    Complete("x"),
    Submit(run("y", 1, "other")),
    Cancel("y"),
)


def new_life(depth: int = 20) -> Life:
    return Life(
        pools=[Pool(name="default", reservation_depth=depth)],
        nodes=fleet({"A": 16}),
        budgets=[
            budget("b", "team", envelope("e", 16)),
            budget("o", "other", envelope("e", 16)),
        ],
        has_executor=False,
    )


def plain(count: int) -> tuple[Run, ...]:
    return tuple(run(f"w{n}", 1, follow=Follow(after=("up",))) for n in range(count))


def failing(count: int) -> tuple[Run, ...]:
    follow = Follow(after=("up",), on_upstream_failure=UpstreamFailure.FAIL)
    return tuple(run(f"w{n}", 1, follow=follow) for n in range(count))


def tasks(count: int) -> tuple[Run, ...]:
    array = TaskArray(name="w", tasks=f"0-{count - 1}", at_once_max=1)
    return task_runs(run("w", 1, array=array, expected_duration_ms=HOUR_MS))


def calls_of(act: Callable[[], object]) -> int:
    """Return the number of function calls of ``act``, including those of the library."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        del frame, argument
        calls += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.heavy
@pytest.mark.parametrize("blocked", [plain, failing, tasks])
def test_a_decision_does_not_look_at_blocked_runs(
    blocked: Callable[[int], tuple[Run, ...]],
) -> None:
    """Before they had a separate index, each decision read all of them."""

    def calls_beside(count: int) -> list[int]:
        life = new_life()
        life.do(Submit(run("up", 1)))
        life.do(Apply(blocked(count)))
        found = []
        for command in COMMANDS:
            life.now_ms += MINUTE_MS
            found.append(calls_of(partial(life.ask, command)))
            life.do(command)
        return found

    few, many = calls_beside(FEW), calls_beside(MANY)
    assert max(map(sub, many, few)) < (MANY - FEW) // 2, (few, many)


def test_a_follower_beyond_the_depth_is_refused_when_its_upstream_fails() -> None:
    life = new_life(depth=1)
    life.do(Submit(run("up", 1)))
    life.do(Submit(run("full", 15, "other", expected_duration_ms=HOUR_MS)))
    life.do(Apply(tuple(run(f"w{n}", 16) for n in range(3))))
    life.do(Submit(run("after", 1, follow=Follow(after=("up",)))))
    known = life.state.runs["after"].refusal
    assert known is not None
    assert known.code is RefusalCode.WAITING_FOR_UPSTREAM
    events = life.do(Fail("up"), NOW_MS + MINUTE_MS).events
    (told,) = [each for each in events if isinstance(each, RunRefused) and each.run == "after"]
    assert told.refusal.code is RefusalCode.UPSTREAM_FAILED


def test_each_follower_of_a_cancelled_array_is_refused_once() -> None:
    """Before, each was refused once for every task: more events than a block may have."""
    life = new_life()
    up, count = TaskArray(name="up", tasks="0-9"), 10
    life.do(Apply(task_runs(run("up", 1, array=up))))
    life.do(Apply(tuple(run(f"w{n}", 1, follow=Follow(after=("up",))) for n in range(count))))
    events = life.do(CancelTasks(tuple(task_names(up))), NOW_MS + 1).events
    told = [each.run for each in events if isinstance(each, RunRefused)]
    assert sorted(told) == [f"w{n}" for n in range(count)]


def test_a_released_follower_beyond_the_depth_says_what_it_lacks() -> None:
    life = new_life(depth=1)
    life.do(Submit(run("up", 1)))
    life.do(Submit(run("full", 15, "other", expected_duration_ms=9 * HOUR_MS)))
    life.do(Apply(tuple(run(f"w{n}", 16) for n in range(3))))
    life.do(Submit(run("after", 8, follow=Follow(after=("up",)))))
    life.do(Complete("up"), NOW_MS + MINUTE_MS)
    known = life.state.runs["after"].refusal
    assert known is not None
    assert known.code is RefusalCode.INSUFFICIENT_CAPACITY


def test_a_follower_of_two_runs_names_the_one_that_is_not_over() -> None:
    life = new_life()
    life.do(Apply((run("u1", 1), run("u2", 1))))
    life.do(Submit(run("after", 8, follow=Follow(after=("u1", "u2")))))
    life.do(Complete("u1"), NOW_MS + 1)
    known = life.state.runs["after"].refusal
    assert known is not None
    assert known.subject == "run u2"


def test_a_chain_of_runs_costs_its_length() -> None:
    """Before, the order of a chain in one command was computed again for each of its runs."""

    def calls_for(count: int) -> int:
        chain = tuple(
            run(f"c{n:03d}", 1, follow=Follow(after=(f"c{n - 1:03d}",)) if n else None)
            for n in range(count)
        )
        life = new_life()
        return calls_of(partial(life.ask, Apply(chain)))

    assert calls_for(160) < 5 * calls_for(40)


def test_a_follower_stands_in_the_queue_where_it_was_released() -> None:
    """Its wait counts from the end of its upstream: behind older waits, before later ones."""
    life = new_life()
    life.do(Submit(run("up", 1)))
    life.do(Submit(run("full", 15, expected_duration_ms=9 * HOUR_MS)))
    life.do(Submit(run("after", 2, follow=Follow(after=("up",)))), NOW_MS + 1)
    life.do(Submit(run("before", 2)), NOW_MS + 2)
    assert "after" not in {place[2] for each in lines(life) for place in each}
    assert queue_order(life.state, NOW_MS + 3) == ["after", "before"]
    life.do(Complete("up"), NOW_MS + 4)
    life.do(Submit(run("later", 2)), NOW_MS + 5)
    assert queue_order(life.state, NOW_MS + 5) == ["before", "after", "later"]
    assert [place[2] for each in lines(life) for place in each] == ["before", "after", "later"]


def test_a_task_waits_for_room_from_when_the_task_before_it_is_over() -> None:
    life = new_life()
    life.do(Apply(tasks(3)))
    assert life.phase("w_0") is Phase.RUNNING
    assert set(life.state.follower_index.blocked) == {"w_1", "w_2"}
    life.do(Cancel("w_1"), NOW_MS + 1)
    assert set(life.state.follower_index.blocked) == {"w_2"}
    life.do(Complete("w_0"), NOW_MS + 2)
    assert life.phase("w_2") is Phase.RUNNING
    assert life.state.follower_index.entries() == [{}, {}, {}, {}, {}]


def lines(life: Life) -> list[list[tuple[int, int, str]]]:
    return [each.places for each in life.state.waiting.lines.values()]
