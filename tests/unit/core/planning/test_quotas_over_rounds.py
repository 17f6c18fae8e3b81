"""Planned starts under hard quotas that runs of a pool with rounds use, too."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Cancel, Decision, ShareOut, Submit, Tick
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RoundGrant
from quorate.model.specs import Discipline, OnQuota, Owner, Pool, Quota, RoundsWork
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, fleet
from tests.oracles.lives import Life
from tests.oracles.plans import firm_ms, funds, moves, of, quiet_pool

ROUND_MS = 10 * MINUTE_MS
WORK = RoundsWork(throughputs=(("H100", 1.0),), total_steps=10**9)


def turning_life(quota: Quota) -> Life:
    """Return a ledger in which owner one has ``quota`` and a run that turns in a pool of rounds.

    Another run of owner one needs all 8 GPUs of the other pool.
    """
    side = Pool(
        name="side",
        selector=(("fabric.domain", "B"),),
        discipline=Discipline.ROUNDS,
        policy="p",
        round_ms=ROUND_MS,
    )
    life = Life(
        nodes=fleet({"A": 8, "B": 8}),
        budgets=[funds("one"), funds("two")],
        owners=[Owner(name="one", quota=quota)],
        pools=[quiet_pool(horizon_ms=HOUR_MS), side],
    )
    life.do(Submit(of("turning", 1, pool="side", rounds=WORK, on_quota=OnQuota.WAIT)))
    begin_round(life, 1)
    life.do(Submit(of("waiting", 8, on_quota=OnQuota.WAIT)))
    return life


def begin_round(life: Life, number: int) -> Decision:
    grants = (RoundGrant("turning", "H100"),)
    command = ShareOut(pool="side", number=number, policy="p", grants=grants)
    return life.do(command, NOW_MS + (number - 1) * ROUND_MS)


@pytest.mark.parametrize("quota", [Quota(concurrent_runs_max=1), Quota(nodes_max=1)])
def test_the_end_of_a_round_frees_no_quota(quota: Quota) -> None:
    life = turning_life(quota)
    found = []
    for number in range(2, 8):
        found += moves(begin_round(life, number))
        found += moves(life.do(Tick()))
    assert (found, firm_ms(life, "waiting")) == ([], None)


def test_a_run_that_waits_for_a_quota_keeps_no_room_while_rounds_use_the_quota() -> None:
    life = turning_life(Quota(concurrent_runs_max=1))
    life.do(Submit(of("other", 8, "two", minutes=30)))
    assert life.phase("other") is Phase.RUNNING


@pytest.mark.parametrize("quota", [Quota(concurrent_runs_max=1), Quota(nodes_max=1)])
def test_a_grant_of_a_round_does_not_take_the_quota_of_a_firm_start(quota: Quota) -> None:
    life = turning_life(Quota())
    life.do(Cancel("waiting"))
    life.do(Cancel("turning"))
    life.do(Apply((Owner(name="one", quota=quota),)))
    life.do(Submit(of("busy", 8, "two", minutes=50)))
    life.do(Submit(of("promised", 8, on_quota=OnQuota.WAIT)))
    planned_ms = firm_ms(life, "promised")
    assert planned_ms is not None
    life.do(Submit(of("more", 1, pool="side", rounds=WORK, on_quota=OnQuota.WAIT)))
    command = ShareOut(pool="side", number=2, policy="p", grants=(RoundGrant("more", "H100"),))
    life.do(command, NOW_MS + ROUND_MS)
    assert firm_ms(life, "promised") == planned_ms
    assert not life.state.runs["more"].leases
