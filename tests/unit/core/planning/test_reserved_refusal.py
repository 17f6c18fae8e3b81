"""Which planned starts a refusal names, and what planned starts keep from claims."""

from __future__ import annotations

import pytest

from quorate.core.commands import ShareOut, Submit
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RoundGrant
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.specs import Discipline, OnQuota, Pool, RoundsWork
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet
from tests.oracles.lives import Life
from tests.oracles.plans import FAR_MS, alone, firm_ms, funds, of, planned_life, quiet_pool

IN_A, IN_B, IN_C = ((("fabric.domain", name),) for name in "ABC")


def two_pools(horizon_ms: int = FAR_MS) -> Life:
    """Return a ledger in which ``wide`` of owner one waits in pool ``side`` for all its money."""
    side = Pool(name="side", selector=IN_B, disruption_rate_ppm=0, firm_horizon_ms=horizon_ms)
    life = Life(
        nodes=fleet({"A": 4, "B": 8, "C": 4}, gpus=4),
        pools=[quiet_pool(), side],
        budgets=[budget("b-one", "one", alone(envelope("e", 8))), funds("two"), funds("three")],
    )
    life.do(Submit(of("big", 8, "two", minutes=60, pool="side")))
    life.do(Submit(of("wide", 8, "one", minutes=60, pool="side")))
    return life


@pytest.mark.parametrize(("horizon_ms", "name"), [(FAR_MS, "wide@1"), (MINUTE_MS, "wide")])
def test_a_run_is_told_of_a_start_in_another_pool_that_needs_its_money(
    horizon_ms: int, name: str
) -> None:
    life = two_pools(horizon_ms)
    life.do(Submit(of("late", 4, "one", minutes=120)))
    refusal = life.state.runs["late"].refusal
    assert refusal is not None
    assert (refusal.code, refusal.subject) == (RefusalCode.RESERVED, name), sentence(refusal)


def test_starts_that_keep_nothing_that_a_run_needs_are_not_named() -> None:
    life = two_pools()
    for name in ("old", "other"):
        life.do(Submit(of(name, 4, "three", minutes=60, selector=IN_C)))
    assert firm_ms(life, "other") is not None
    life.do(Submit(of("late", 4, "one", minutes=120, selector=IN_A)))
    refusal = life.state.runs["late"].refusal
    assert refusal is not None
    assert (refusal.code, refusal.subject) == (RefusalCode.RESERVED, "wide@1"), sentence(refusal)


def test_a_claim_is_told_of_a_start_in_another_pool_that_needs_its_money() -> None:
    life = two_pools()
    (refusal,) = life.ask(Submit(of("scans", 4, "one", minutes=120, sensitive=True))).refusals
    assert (refusal.code, refusal.subject) == (RefusalCode.RESERVED, "wide@1"), sentence(refusal)


def test_a_claim_that_ends_before_a_firm_start_needs_its_money_is_granted() -> None:
    one = budget("b-one", "one", alone(envelope("e", 8)))
    life = planned_life(nodes=fleet({"A": 8, "B": 4}, gpus=4), budgets=[one])
    life.do(Submit(of("big", 8, "two", minutes=120)))
    life.do(Submit(of("wide", 8, "one", minutes=60, cross_group_spread=False)))
    assert firm_ms(life, "wide") == NOW_MS + 2 * HOUR_MS
    long = life.ask(Submit(of("scans", 4, "one", minutes=180, sensitive=True)))
    assert [each.code for each in long.refusals] == [RefusalCode.RESERVED]
    life.do(Submit(of("scans", 4, "one", minutes=60, sensitive=True)))
    assert life.phase("scans") is Phase.RUNNING


def test_a_run_in_rounds_is_told_of_the_start_that_needs_its_money() -> None:
    side = Pool(
        name="side",
        selector=IN_B,
        discipline=Discipline.ROUNDS,
        policy="p",
        round_ms=2 * HOUR_MS,
    )
    one = budget("b-one", "one", alone(envelope("e", 8)))
    life = Life(
        nodes=fleet({"A": 8, "B": 8}),
        pools=[quiet_pool(), side],
        budgets=[one, funds("two")],
    )
    life.do(Submit(of("big", 8, "two", minutes=60)))
    life.do(Submit(of("wide", 8, "one", minutes=60)))
    work = RoundsWork(throughputs=(("H100", 1.0),), total_steps=10**9)
    turning = of("turning", 8, "one", pool="side", rounds=work, on_quota=OnQuota.WAIT)
    life.do(Submit(turning))
    grants = (RoundGrant("turning", "H100"),)
    life.do(ShareOut(pool="side", number=1, policy="p", grants=grants))
    refusal = life.state.runs["turning"].refusal
    assert refusal is not None
    assert (refusal.code, refusal.subject) == (RefusalCode.RESERVED, "wide@1"), sentence(refusal)
