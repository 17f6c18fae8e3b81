"""An event loop that rests between rejections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from quorate.service.limits.loop_rests import (
    BATCH_SWITCH_S,
    BEHIND_S,
    CALM_S,
    LOOK_S,
    REST_S,
    SWITCH_S,
    LoopRests,
)
from quorate.service.limits.overload_limit import LIMIT_FIRST, Admission


def is_behind(rests: LoopRests) -> bool:
    """Return the present result of ``rests``."""
    return rests.is_behind


def is_full(admission: Admission) -> bool:
    """Return the present result of ``admission``."""
    return admission.is_full


class Clocked(asyncio.SelectorEventLoop):
    """A loop whose time advances when the test says so."""

    now_s = 0.0

    def time(self) -> float:
        """Return the time of the test."""
        return self.now_s

    def turn(self, now_s: float) -> None:
        """Run what is due at ``now_s``."""
        self.now_s = now_s
        self.call_soon(self.stop)
        self.run_forever()


@pytest.fixture
def loop() -> Iterator[Clocked]:
    made = Clocked()
    yield made
    made.close()


def test_a_loop_rests_once_a_turn_and_switches_as_before_when_it_is_calm(loop: Clocked) -> None:
    switches, slept = list[float](), list[float]()
    rests = LoopRests(switches.append, slept.append, loop.time)
    for _ in range(3):
        rests.rejected(loop)
    assert slept == []
    loop.turn(0.0)
    assert (slept, switches) == ([REST_S], [BATCH_SWITCH_S])
    rests.rejected(loop)
    loop.turn(CALM_S / 2)
    assert (slept, switches) == ([REST_S] * 2, [BATCH_SWITCH_S])
    loop.turn(CALM_S)
    assert switches == [BATCH_SWITCH_S]
    loop.turn(1.6 * CALM_S)
    assert switches == [BATCH_SWITCH_S, SWITCH_S]
    rests.rejected(loop)
    loop.turn(2 * CALM_S)
    assert switches == [BATCH_SWITCH_S, SWITCH_S, BATCH_SWITCH_S]
    assert slept == [REST_S] * 3


def test_a_loop_is_behind_where_a_turn_takes_long_while_requests_are_rejected(
    loop: Clocked,
) -> None:
    rests = LoopRests(lambda _: None, lambda _: None, loop.time)
    loop.now_s = 10 * BEHIND_S
    assert not is_behind(rests)
    rests.rejected(loop)
    loop.turn(loop.now_s)
    assert not is_behind(rests)
    loop.now_s += 1.1 * BEHIND_S
    assert is_behind(rests)
    loop.turn(loop.now_s)
    assert not is_behind(rests)
    loop.now_s += LOOK_S
    assert not is_behind(rests)


def test_half_of_the_places_are_given_while_the_loop_is_behind(loop: Clocked) -> None:
    rests = LoopRests(lambda _: None, lambda _: None, loop.time)
    admission = Admission(loop.time, rests=rests)
    overs = [admission.coming(f"t{number % 4}") for number in range(LIMIT_FIRST // 2)]
    rests.rejected(loop)
    loop.turn(0.0)
    assert not is_full(admission)
    loop.now_s = 1.1 * BEHIND_S
    assert is_full(admission)
    overs[0]()
    assert not is_full(admission)


def test_one_tenant_alone_keeps_no_other_out_while_the_loop_is_behind(loop: Clocked) -> None:
    rests = LoopRests(lambda _: None, lambda _: None, loop.time)
    admission = Admission(loop.time, rests=rests)
    for _ in range(LIMIT_FIRST):
        admission.coming("greedy")
    rests.rejected(loop)
    loop.turn(0.0)
    loop.now_s = 1.1 * BEHIND_S
    assert is_behind(rests)
    assert not is_full(admission)
