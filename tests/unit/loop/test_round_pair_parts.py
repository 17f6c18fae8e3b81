"""The number of pairs considered in a round: owners have equal parts of it."""

from __future__ import annotations

from collections import Counter

import pytest

from quorate.core.commands import Applied, Apply
from quorate.core.decide import decide
from quorate.loop.rounds.round_funds import Funds
from quorate.loop.rounds.round_pairs import PAIRS_MAX, pairs_of
from quorate.loop.rounds.round_snapshot import floor_of
from quorate.model.amounts import PPM
from quorate.model.specs import FlavorRates, RoundsWork, Run, TypeRates
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.sim.demand import START_MS
from tests.oracles.rounds import POOL, money, nodes, pool, run_of, team

LM = TypeRates(job_type="lm", gpus=1, alone=10 * PPM, beside=(("lm", 9 * PPM, 9 * PPM),))


def _pairs(runs: dict[str, int], pairs_max: int = PAIRS_MAX) -> Counter[str]:
    """Return the number of pairs of each owner in the policy's problem, in order."""
    work = RoundsWork(job_type="lm", total_steps=10**6)
    asked: list[Run] = [
        run_of(f"{owner}{number}", owner, {"flavors": ("a100",), "rounds": work})
        for owner, count in runs.items()
        for number in range(count)
    ]
    world: tuple[Applied, ...] = (
        pool(throughputs=(FlavorRates(flavor="a100", types=(LM,)),)),
        *nodes(1, 2, ("a100",)),
        *(team(owner) for owner in runs),
        *(money(owner) for owner in runs),
    )
    state = State()
    decision = decide(state, Apply((*world, *asked)), now_ms=START_MS, actor="test")
    assert not decision.refusals, decision.refusals
    apply_all(state, decision.events)
    floor = floor_of(state, POOL, Funds(state, POOL, START_MS), START_MS)
    found = pairs_of(state, floor, floor.members, pairs_max)
    assert found is not None
    owners = [member.record.spec.owner for member in floor.members]
    pairs = zip(found.first, found.second, strict=True)
    assert all(owners[one] == owners[other] for one, other in pairs)
    return Counter(owners[one] for one in found.first)


@pytest.mark.slow
def test_an_owner_with_many_runs_leaves_others_their_pairs() -> None:
    found = _pairs({"ant": 210, "bee": 3, "cow": 210})
    assert found["bee"] == 3
    assert found["ant"] + found["cow"] == PAIRS_MAX - 3
    assert abs(found["ant"] - found["cow"]) <= 1


def test_a_policy_may_say_of_how_many_it_is_asked() -> None:
    found = _pairs({"ant": 60, "bee": 60}, pairs_max=1_000)
    assert found == {"ant": 500, "bee": 500}


@pytest.mark.heavy
def test_an_owner_alone_has_all_of_them() -> None:
    assert _pairs({"ant": 210, "bee": 1}) == {"ant": PAIRS_MAX}
