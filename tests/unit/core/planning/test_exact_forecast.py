"""Exact forecasts: the start of a run beyond the depth of its pool, found by a longer walk."""

from __future__ import annotations

from random import Random

import pytest

from quorate.core.commands import Complete, Submit
from quorate.core.explain.explanation import Explanation, explain
from quorate.core.explain.start_plan import Forecast, foretell, foretell_new
from quorate.core.planning.foresight import Foreseen, Foresight, LongWalk, PlanState
from quorate.ledger.snapshot import fingerprint
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RunSubmitted
from quorate.model.specs import Follow
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, fleet
from tests.oracles.effort import few_of
from tests.oracles.lives import Life
from tests.oracles.plans import OWNERS, foreseen, of, planned_life, quiet_pool, tick_until

DEPTH = 2


def queued(waiting: int, *, depth: int = DEPTH) -> Life:
    """Return a full node and ``waiting`` runs of one owner; each needs all of it for an hour."""
    life = planned_life(pool=quiet_pool(horizon_ms=HOUR_MS, reservation_depth=depth))
    life.do(Submit(of("busy", 8, "one", 60)))
    for number in range(waiting):
        life.do(Submit(of(f"w{number}", 8, "one", 60)))
    return life


def exact(life: Life, name: str, *, runs_max: int = 1_000) -> Foreseen:
    """Return the result for a waiting run of a walk that is extended to it."""
    found = Foresight.up_to(
        life.state, name, life.now_ms, has_executor=life.has_executor, runs_max=runs_max
    )
    return found.start_of(life.state.runs[name])


def test_start_beyond_the_depth_is_found_and_is_tentative() -> None:
    life = queued(8)
    assert foreseen(life, "w7").state is PlanState.NOT_BEFORE
    found = exact(life, "w7")
    assert found.entry is not None
    assert (found.state, found.entry.start_ms) == (PlanState.TENTATIVE, NOW_MS + 8 * HOUR_MS)
    assert found.long_walk == LongWalk(8, has_reached=True)


@pytest.mark.heavy
def test_run_starts_then_if_every_run_takes_what_it_declared_and_none_comes() -> None:
    life = queued(6)
    found = exact(life, "w5").entry
    assert found is not None
    for number in range(6):
        name = "busy" if not number else f"w{number - 1}"
        tick_until(life, NOW_MS + (number + 1) * HOUR_MS)
        if life.phase(name) is Phase.RUNNING:
            life.do(Complete(name))
    assert life.phase("w5") is Phase.RUNNING
    assert life.now_ms == found.start_ms


def test_walk_that_ends_at_its_bound_says_so_and_never_tells_a_later_start() -> None:
    life = queued(8)
    found = exact(life, "w7", runs_max=5)
    assert found.entry is not None
    assert (found.state, found.long_walk) == (
        PlanState.NOT_BEFORE,
        LongWalk(5, has_reached=False),
    )
    assert found.entry.start_ms == NOW_MS + 6 * HOUR_MS


def test_nothing_is_promised_and_nothing_changes() -> None:
    life = queued(8)
    before = fingerprint(life.state)
    exact(life, "w7")
    assert fingerprint(life.state) == before


@pytest.mark.heavy
@pytest.mark.parametrize("seed", few_of(range(40), 10))
def test_exact_start_is_that_of_a_pool_whose_depth_reaches_it(seed: int) -> None:
    """A pool of any depth plans the same queue, so its own plan is the oracle."""
    chance = Random(seed)
    shallow = _drawn(chance, depth=chance.randrange(1, 4))
    pool = quiet_pool(horizon_ms=0, reservation_depth=100)
    deep = planned_life(nodes=fleet({"A": 16, "B": 16}), pool=pool)
    for event in shallow.events:
        if isinstance(event, RunSubmitted):
            deep.do(Submit(event.run), event.at_ms)
    assert set(deep.state.pending) == set(shallow.state.pending), "so that both plan the same queue"
    behind = 0
    for name in shallow.state.pending:
        is_beyond = foreseen(shallow, name).state is PlanState.NOT_BEFORE
        behind += is_beyond
        told, planned = exact(shallow, name).entry, foreseen(deep, name).entry
        assert told is not None
        assert planned is not None
        assert (told.start_ms, told.slice) == (planned.start_ms, planned.slice), name
    assert behind > 0


def _drawn(chance: Random, *, depth: int) -> Life:
    """Return two full domains, for which a dozen runs of various sizes and owners wait."""
    pool = quiet_pool(horizon_ms=0, reservation_depth=depth)
    life = planned_life(nodes=fleet({"A": 16, "B": 16}), pool=pool)
    for number in range(4):
        life.do(Submit(of(f"busy{number}", 8, "one", chance.randrange(30, 300))))
    for number in range(12):
        minutes = chance.randrange(400, 900)
        width = chance.choice((4, 8, 16, 24, 32))
        spec = of(f"w{number}", width, chance.choice(OWNERS), minutes, group_gpus=min(width, 8))
        life.do(Submit(spec), NOW_MS + number * MINUTE_MS)
    return life


# --- In plan and explain ---


def test_plan_and_explain_tell_the_exact_start_where_it_is_asked_for() -> None:
    life = queued(8)
    spec = life.state.runs["w7"].spec
    short, long = (
        foretell(life.state, spec, life.now_ms, is_exact=is_exact) for is_exact in (False, True)
    )
    assert isinstance(short, Forecast)
    assert isinstance(long, Forecast)
    assert (short.plan_state, short.long_walk) == (PlanState.NOT_BEFORE, None)
    assert (long.plan_state, long.plan_start_ms) == (
        PlanState.TENTATIVE,
        NOW_MS + 8 * HOUR_MS,
    )
    assert long.expected_end_ms == NOW_MS + 9 * HOUR_MS
    assert "the first 2 waiting runs" in long.parked
    assert "all 7 runs before it were planned, too" in long.parked
    assert short.refusal == long.refusal
    explained = explain(life.state, "w7", life.now_ms, is_exact=True)
    assert isinstance(explained, Explanation)
    assert explained.plan is not None
    assert explained.plan.entry is not None
    assert explained.plan.entry.start_ms == NOW_MS + 8 * HOUR_MS


def test_run_that_is_not_submitted_is_told_its_exact_start() -> None:
    life = queued(8)
    found = foretell_new(life.state, [of("new", 8, "one", 60)], life.now_ms, is_exact=True)
    assert isinstance(found, list)
    assert found[0].plan_start_ms == NOW_MS + 9 * HOUR_MS


def test_run_within_the_depth_is_told_what_it_is_told_anyway() -> None:
    life = queued(8)
    for name in ("w0", "w1"):
        spec = life.state.runs[name].spec
        assert foretell(life.state, spec, life.now_ms, is_exact=True) == foretell(
            life.state, spec, life.now_ms
        )


def test_run_that_waits_for_others_has_no_start_however_long_the_walk() -> None:
    life = queued(4)
    life.do(Submit(of("after", 8, "one", 60, follow=Follow(after=("w3",)))))
    found = foretell(life.state, life.state.runs["after"].spec, life.now_ms, is_exact=True)
    assert isinstance(found, Forecast)
    assert (found.plan_state, found.long_walk) == (PlanState.NONE, None)


def test_owner_whose_first_runs_have_no_start_is_told_the_start_of_its_next() -> None:
    """A decision skips an owner's runs after eight such runs; a reader examines all of them."""
    life = queued(3)
    for number in range(10):
        life.do(Submit(of(f"never{number}", 999, "two", 60)))
    life.do(Submit(of("behind", 8, "two", 60)))
    found = exact(life, "behind")
    assert found.entry is not None
    assert found.state is PlanState.TENTATIVE
