"""Grants of a round that wait in turn for the same money while leases of the pool are stopping."""

from __future__ import annotations

from quorate.core.commands import NotStarted, ShareOut, Submit
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import RoundGrant
from quorate.model.specs import Discipline, OnQuota, Owner, Pool, RoundsWork
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet
from tests.oracles.lives import Life
from tests.oracles.plans import funds, of

ROUND_MS = 10 * MINUTE_MS
POOL = Pool(name="default", discipline=Discipline.ROUNDS, policy="p", round_ms=ROUND_MS)
WORK = RoundsWork(throughputs=(("H100", 1.0),), total_steps=10**9)
FAMILY = "family"


def begin_round(life: Life, number: int, *runs: str) -> None:
    grants = tuple(RoundGrant(run, "H100") for run in runs)
    command = ShareOut(pool="default", number=number, policy="p", grants=grants)
    life.do(command, NOW_MS + (number - 1) * ROUND_MS)


def test_a_start_that_leaves_enough_money_lets_a_grant_start_that_waited_for_its_turn() -> None:
    """The family's money is short for all grants, until the rich owner pays for its own run."""
    members = ("rich", "one", "two")
    life = Life(
        nodes=fleet({"A": 8}),
        budgets=[funds("rich"), budget("b", FAMILY, envelope("e", 3))],
        owners=[Owner(name=name, parents=(FAMILY,)) for name in members],
        pools=[POOL],
        has_executor=True,
    )
    for name, gpus, owner in (("wide", 2, "rich"), ("stopping", 1, "one"), ("narrow", 1, "two")):
        life.do(Submit(of(name, gpus, owner, rounds=WORK, on_quota=OnQuota.WAIT)))
    begin_round(life, 1, "stopping")
    life.do(NotStarted("stopping"))
    begin_round(life, 2, "wide", "stopping", "narrow")
    assert life.stopping() == ["stopping/0"]
    assert (life.phase("wide"), life.phase("narrow")) == (Phase.RUNNING, Phase.RUNNING)
