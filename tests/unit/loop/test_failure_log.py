"""What is logged of a policy that fails round after round."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from quorate.core.commands import Applied
from quorate.loop.rounds.failure_log import FailureLog
from quorate.policy.allocation import Allocation, Method, Unsolved, alone, solver_failed
from quorate.policy.problem import Problem
from tests.oracles.rounds import POOL, Room, Weighing, pool, run, team, world

LOGGER = "quorate.loop.rounds.failure_log"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def _gives_all_twice(problem: Problem) -> Allocation | Unsolved:
    return alone(np.ones(problem.shape), objective=1.0, bound=1.0, method=Method.RULE)


def _falls_over(problem: Problem) -> Allocation | Unsolved:
    raise OverflowError(f"{problem.ages_s.sum()} seconds were too much")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Weighing("odd", solve=_gives_all_twice), "the answer of odd breaks a constraint: job r0"),
        (Weighing("odd", solve=_falls_over), "raised OverflowError: 0.0 seconds were too much"),
    ],
)
def test_a_policy_that_fails_in_every_round_is_logged_once(
    caplog: pytest.LogCaptureFixture, policy: Weighing, said: str
) -> None:
    specs: tuple[Applied, ...] = (
        pool(policy="odd"),
        *world(team("ant"), per_flavor=1, gpus=1)[1:],
    )
    room = Room(specs, policies={"odd": policy})
    with caplog.at_level(logging.ERROR):
        room.submit_together(*(run(f"r{number}", "ant") for number in range(2)))
        room.rounds(4)
    (line,) = lines(caplog)
    assert line.startswith(f"pool {POOL}: the policy odd failed: {said}")
    assert line.endswith("(logged once, until the cause changes)")


def test_another_cause_or_a_failure_after_an_answer_is_logged_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FailureLog()

    def fails(why: str, pool: str = "a") -> int:
        before = len(lines(caplog))
        log.failed(pool, "odd", solver_failed(why, "choose another"))
        return len(lines(caplog)) - before

    with caplog.at_level(logging.ERROR):
        assert fails("gave 3 rows for 4 jobs") == 1
        assert fails("gave 1.5e-7 rows for 2,000 jobs") == 0
        assert fails("gave 3 rows for 4 jobs", "b") == 1
        assert fails("has no <Rate at 0x7fa00cc03350>") == 1
        assert fails("has no <Rate at 0x7fa0bd91ab3e>") == 0
        assert fails("ran out of memory") == 1
        assert fails("ran out of memory") == 0
        log.worked("a")
        assert fails("ran out of memory") == 1
        assert fails("gave 3 rows for 4 jobs", "b") == 0
