"""A walk that continues after a firm run left its place writes the events of a new walk."""

from __future__ import annotations

from random import Random

import pytest

from quorate.core.commands import Complete, Submit
from quorate.core.decide import decide
from quorate.core.planning.queue_walk import Walk
from quorate.model.amounts import MINUTE_MS
from quorate.model.specs import Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, fleet, opening
from tests.oracles.effort import few_of
from tests.oracles.plans import funds, of, quiet_pool
from tests.oracles.walking_anew import WalkAnew, ended

OWNERS = tuple(f"o{number:02d}" for number in range(14))
DOMAINS = dict.fromkeys("ABCDEFGHIJKL", 8)
FIRST = 70
"""So many runs are submitted first that most of them wait."""
ENDS = 20


def a_state(chance: Random) -> State:
    """Return an empty fleet; firm starts are near or far, owners may be short of money."""
    pool = quiet_pool(
        horizon_ms=chance.choice((20, 60, 300)) * MINUTE_MS,
        reservation_depth=chance.choice((12, 20, 40)),
    )
    money = [funds(owner, chance.choice((16, 64, 64, 64))) for owner in OWNERS]
    state = State()
    apply_all(state, opening(nodes=fleet(DOMAINS), budgets=money, pools=[pool]))
    return state


def a_run(chance: Random, number: int) -> Run:
    """Return a run in one domain or in groups; several runs of an owner are planned at a time."""
    gpus = chance.choice((1, 1, 2, 3, 4, 6, 8, 12))
    owner = OWNERS[number % len(OWNERS)] if chance.random() < 0.7 else chance.choice(OWNERS)
    minutes = chance.choice((30, 60, 95, 240, 500))
    return of(
        f"r{number:03d}", gpus, owner, minutes, group_gpus=chance.choice((None, min(gpus, 4)))
    )


def walks_of(seed: int) -> tuple[int, int]:
    """Return how often a walk began again or continued; the events are those of new walks."""
    chance = Random(seed)
    state, now_ms, begun, gone_on = a_state(chance), NOW_MS, 0, 0
    for number in range(FIRST + ENDS):
        running = sorted(n for n, each in state.runs.items() if each.phase is Phase.RUNNING)
        if number >= FIRST and running:
            now_ms += chance.choice((0, 1, MINUTE_MS, 2 * MINUTE_MS))
            name = chance.choice(running)
            decision = decide(state, Complete(name), now_ms=now_ms, actor="test")
            found, anew = (ended(state, name, now_ms, kind) for kind in (Walk, WalkAnew))
            assert decision.events == found.events == anew.events
            assert found.anew + found.gone_on == anew.anew
            begun, gone_on = begun + found.anew, gone_on + found.gone_on
            apply_all(state, decision.events)
        submitted = Submit(a_run(chance, number))
        apply_all(state, decide(state, submitted, now_ms=now_ms, actor="test").events)
    return begun, gone_on


@pytest.mark.heavy
@pytest.mark.parametrize(
    "seeds", few_of([range(5, 7), *(range(at, at + 10) for at in range(0, 80, 10))], 1)
)
def test_a_walk_goes_on_only_where_a_new_one_would_come_to_the_same(seeds: range) -> None:
    begun, gone_on = (sum(counts) for counts in zip(*map(walks_of, seeds), strict=True))
    assert begun > 3, begun
    assert gone_on > 3, gone_on
