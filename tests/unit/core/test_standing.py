"""Why a waiting run is at its place in the queue."""

from __future__ import annotations

from quorate.core.commands import Complete, Submit
from quorate.core.tenancy.queue_position import Because, Standing, standing_of
from quorate.core.tenancy.share_score import ONE
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Follow, Owner, Quota
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, node, run, world
from tests.unit.core.test_explain import explained, give


def full(*owners: Owner) -> State:
    """Return 16 GPUs, all used by ``host``, and ``owners`` with money."""
    everybody = (Owner(name="host", quota=Quota(fair_share_target_ppm=100_000)), *owners)
    state = world(
        nodes=[node("n1", 8, "A"), node("n2", 8, "A")],
        owners=everybody,
        budgets=[budget(f"b-{each.name}", each.name, envelope("e", 64)) for each in everybody],
    )
    give(state, Submit(run("taken", 16, owner="host", expected_duration_ms=90 * HOUR_MS)))
    return state


def standing(state: State, name: str, at_ms: int = NOW_MS) -> Standing:
    return standing_of(state, name, at_ms)


def test_a_run_alone_has_nobody_ahead() -> None:
    state = full(Owner(name="red"))
    give(state, Submit(run("r", 8, owner="red")))
    found = standing(state, "r")
    assert (found.position, found.length, found.ahead) == (1, 1, ())
    assert (found.owner, found.flavor, found.is_stated) == ("red", "H100", False)
    assert found.terms.target == 900_000 * ONE // 1_000_000
    assert found.eligible_since_ms == NOW_MS
    assert explained(state, "r").standing == found


def test_whoever_is_ahead_is_told_with_the_first_thing_that_tells_them_apart() -> None:
    over = Quota(gpu_ms_budget=0, fair_share_target_ppm=200_000)
    less = Quota(fair_share_target_ppm=100_000)
    state = full(Owner(name="over", quota=over), Owner(name="less", quota=less), Owner(name="red"))
    give(state, Submit(run("late", 8, owner="over")))
    give(state, Submit(run("taken-2", 1, owner="host")), NOW_MS + 1)
    give(state, Submit(run("red-1", 8, owner="red")), NOW_MS + 2)
    give(state, Submit(run("red-2", 8, owner="red")), NOW_MS + 2)
    give(state, Submit(run("less-1", 8, owner="less")), NOW_MS + 3)
    found = standing(state, "late", NOW_MS + 3)
    assert (found.position, found.length) == (5, 5)
    assert [(each.owner, each.runs, each.because) for each in found.ahead] == [
        ("red", 2, Because.WITHIN_BUDGET),
        ("less", 1, Because.WITHIN_BUDGET),
        ("host", 1, Because.WITHIN_BUDGET),
    ]
    assert [(each.owner, each.because) for each in standing(state, "less-1").ahead] == [
        ("red", Because.WAITS_LONGER),
    ]
    assert [(each.owner, each.because) for each in standing(state, "red-2").ahead] == [
        ("red", Because.SUBMITTED_BEFORE),
    ]
    (score, *_) = standing(state, "taken-2").ahead
    assert (score.owner, score.because, score.terms.step) == ("red", Because.SCORE, 32)


def test_a_follower_is_in_line_from_when_its_last_upstream_completed() -> None:
    state = full(Owner(name="red"))
    give(state, Submit(run("then", 64, owner="red", follow=Follow(after=("taken",)))))
    assert standing(state, "then").eligible_since_ms is None
    give(state, Submit(run("wide", 64, owner="red")), NOW_MS + 5)
    give(state, Complete("taken"), NOW_MS + 7)
    found = standing(state, "then", NOW_MS + 7)
    assert (found.position, found.eligible_since_ms) == (2, NOW_MS + 7)
    assert [each.because for each in found.ahead] == [Because.WAITS_LONGER]
