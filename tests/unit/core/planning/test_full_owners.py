"""Owners that have as many runs as their hard quotas allow do not hold up the runs of others."""

from __future__ import annotations

import pytest

from quorate.core.commands import Complete, Submit
from quorate.core.decide import decide
from quorate.core.planning.beyond_depth import STARTS_MAX
from quorate.model.events import RunRefused, RunSubmitted
from quorate.model.refusal import RefusalCode
from quorate.model.specs import OnQuota, Owner, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.testing.builders import budget, envelope, node
from tests.oracles.lives import Life
from tests.oracles.plans import of

OWNERS = STARTS_MAX + 50
RUNS, NODES = Quota(concurrent_runs_max=1), Quota(nodes_max=1)


def full_life(quota: Quota) -> Life:
    """Return owners that have all that ``quota`` allows, and a waiting run each, beside room."""
    names = [f"o{number:03d}" for number in range(OWNERS)]
    life = Life(
        nodes=[node(f"n{number:03d}", domain=f"d{number % 4}") for number in range(OWNERS + 20)],
        owners=[*(Owner(name=name, quota=quota) for name in names), Owner(name="free")],
        budgets=[budget(f"b-{name}", name, envelope("e", 64)) for name in (*names, "free")],
    )
    running = [of(f"{name}-runs", 8, name, 600) for name in names]
    waiting = [of(f"{name}-waits", 8, name, 60, on_quota=OnQuota.WAIT) for name in names]
    for run in (*running, *waiting):  # The history is audited only afterwards, because it is long.
        decision = decide(life.state, Submit(run), now_ms=life.now_ms, actor="test")
        apply_all(life.state, decision.events)
        life.events += decision.events
    return life


@pytest.mark.heavy
@pytest.mark.parametrize("quota", [RUNS, NODES])
def test_a_run_behind_many_full_owners_starts_where_gpus_are_idle(quota: Quota) -> None:
    life = full_life(quota)
    assert life.state.runs["o120-waits"].phase is Phase.PENDING
    life.do(Submit(of("mine", 8, "free", 60)))
    assert life.state.runs["mine"].phase is Phase.RUNNING


@pytest.mark.heavy
def test_a_run_of_a_full_owner_waits_without_a_walk_and_starts_when_a_run_ends() -> None:
    life = full_life(RUNS)
    decision = life.do(Submit(of("more", 8, "o140", 60, on_quota=OnQuota.WAIT)))
    assert [type(event) for event in decision.events] == [RunSubmitted, RunRefused]
    known = life.state.runs["more"].refusal
    assert known is not None
    assert (known.code, known.subject) == (RefusalCode.WAITING_FOR_QUOTA, "o140")
    life.do(Complete("o140-runs"))
    assert life.state.runs["o140-waits"].phase is Phase.RUNNING
    life.do(Complete("o140-waits"))
    assert life.state.runs["more"].phase is Phase.RUNNING
