"""Statements of small ledgers, computed by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from quorate.core.accounting.period_statement import Asked, Statement, cost_micros, make_statement
from quorate.core.commands import Apply, Cancel, Complete, Submit, Tick
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Tier
from quorate.model.specs import Owner
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    lending,
    node,
    run,
)
from tests.oracles.lives import Life

HELD_MS = HOUR_MS + 2 * MINUTE_MS
"""The hold of a start for each GPU: an expected hour, and the grace."""


def _life(*, has_executor: bool = False, gpu_hours: int = 100) -> Life:
    """Return a family of two teams, and a sponsor that lends to one of them."""
    return Life(
        nodes=[node("n0"), node("n1"), node("n2")],
        owners=[
            Owner(name="org"),
            Owner(name="team", parents=("org",)),
            Owner(name="kin", parents=("org",)),
            Owner(name="sponsor"),
        ],
        budgets=[
            budget("kin", "kin", envelope("e", 2, gpu_ms_max=50 * HOUR_MS)),
            budget("sponsor", "sponsor", envelope("e", 8, lending=lending("team"))),
            budget("team", "team", envelope("e", 4, gpu_ms_max=gpu_hours * HOUR_MS)),
        ],
        has_executor=has_executor,
    )


def _stated(life: Life, asked: Asked) -> Statement:
    return make_statement(life.events, life.state, asked)


def test_a_statement_tells_granted_spent_held_free_lent_and_borrowed() -> None:
    life = _life()
    life.do(Submit(run("wide", 8, funding=borrowing(), user="alice")))
    until_ms = NOW_MS + 30 * MINUTE_MS
    asked = Asked(from_ms=NOW_MS + 10 * MINUTE_MS, until_ms=until_ms, prices={"H100": 2_500_000})
    found = _stated(life, asked)
    kin, sponsor, team = found.lines
    for line, gpus, tier in (
        (kin, 2, Tier.SHARED),
        (sponsor, 2, Tier.BORROWED),
        (team, 4, Tier.OWNED),
    ):
        (used,) = line.used
        assert (used.owner, used.user, used.tier) == ("team", "alice", tier)
        assert line.brought_gpu_ms == gpus * 10 * MINUTE_MS
        assert line.period_gpu_ms == used.gpu_ms == gpus * 20 * MINUTE_MS
        assert line.spent_gpu_ms == gpus * 30 * MINUTE_MS
        assert line.held_gpu_ms == gpus * (HELD_MS - 30 * MINUTE_MS)
        assert used.cost_micros == line.cost_micros == cost_micros(used.gpu_ms, 2_500_000)
    assert team.granted_gpu_ms == 100 * HOUR_MS
    assert team.free_gpu_ms == 100 * HOUR_MS - 4 * HELD_MS
    assert sponsor.lent == (("team", 40 * MINUTE_MS),)
    (loan,) = found.borrowings
    assert (loan.borrower, loan.lender, loan.gpu_ms) == ("team", "sponsor", 40 * MINUTE_MS)
    assert [sums.name for sums in found.budgets] == ["kin", "sponsor", "team"]
    assert [sums.borrowed_gpu_ms for sums in found.owners] == [0, 0, 40 * MINUTE_MS]
    assert found.total.spent_gpu_ms == 8 * 30 * MINUTE_MS
    assert found.total.cost_micros == sum(line.cost_micros or 0 for line in found.lines)


def test_one_budget_or_one_owner_can_be_stated_alone() -> None:
    life = _life()
    life.do(Submit(run("wide", 8, funding=borrowing())))
    until_ms = NOW_MS + HOUR_MS
    of_owner = _stated(life, Asked(from_ms=NOW_MS, until_ms=until_ms, owner="team"))
    assert [line.envelope for line in of_owner.lines] == ["team/e"]
    assert of_owner.total.borrowed_gpu_ms == 2 * HOUR_MS
    assert of_owner.total.spent_gpu_ms == 4 * HOUR_MS
    of_budget = _stated(life, Asked(from_ms=NOW_MS, until_ms=until_ms, budget="sponsor"))
    assert [line.envelope for line in of_budget.lines] == ["sponsor/e"]
    assert (of_budget.total.lent_gpu_ms, of_budget.total.borrowed_gpu_ms) == (2 * HOUR_MS, 0)


def test_months_follow_each_other_without_a_gap() -> None:
    life = _life()
    life.do(Submit(run("a", 4, expected_duration_ms=5 * HOUR_MS)))
    life.do(Complete("a"), at_ms=NOW_MS + 3 * HOUR_MS + 7)
    life.do(Submit(run("b", 2, user="bob")), at_ms=NOW_MS + 4 * HOUR_MS)
    borders = [NOW_MS - HOUR_MS, NOW_MS + HOUR_MS, NOW_MS + 4 * HOUR_MS, NOW_MS + 5 * HOUR_MS]
    spent = 0
    for from_ms, until_ms in pairwise(borders):
        team = _stated(life, Asked(from_ms=from_ms, until_ms=until_ms)).lines[-1]
        assert team.brought_gpu_ms == spent
        spent = team.spent_gpu_ms
    assert spent == 4 * (3 * HOUR_MS + 7) + 2 * HOUR_MS


def test_who_is_slow_to_stop_is_charged_no_further_than_its_hold() -> None:
    life = _life(has_executor=True, gpu_hours=3)
    life.do(Submit(run("a", 2)))
    late_ms = NOW_MS + 9 * HOUR_MS
    life.do(Cancel("a", "enough"), at_ms=NOW_MS + HOUR_MS)
    life.do(Tick(), at_ms=late_ms)
    assert life.stopping() == ["a/0"]
    team = _stated(life, Asked(from_ms=NOW_MS, until_ms=late_ms)).lines[-1]
    assert team.held_gpu_ms == 0
    assert team.spent_gpu_ms == life.state.envelopes[team.envelope].committed_gpu_ms
    assert team.spent_gpu_ms <= team.granted_gpu_ms


def test_an_envelope_that_left_its_budget_grants_what_it_has_paid() -> None:
    life = _life()
    life.do(Submit(run("a", 4)))
    life.do(Complete("a"), at_ms=NOW_MS + HOUR_MS)
    life.do(Apply((budget("team", "team", envelope("new", 4)),)))
    found = _stated(life, Asked(from_ms=NOW_MS, until_ms=life.now_ms))
    old = next(line for line in found.lines if line.envelope == "team/e")
    assert (old.retired, old.granted_gpu_ms, old.free_gpu_ms) == (True, 4 * HOUR_MS, 0)
    assert found.total.granted_gpu_ms == (
        found.total.spent_gpu_ms + found.total.held_gpu_ms + found.total.free_gpu_ms
    )


def test_flavors_without_a_price_are_named() -> None:
    life = _life()
    life.do(Submit(run("a", 1)))
    asked = Asked(from_ms=NOW_MS, until_ms=NOW_MS + 1, prices={"A100": 1})
    assert _stated(life, asked).unpriced == ("H100",)
    assert _stated(life, asked).total.cost_micros is None
    assert _stated(life, Asked(from_ms=NOW_MS, until_ms=NOW_MS + 1)).unpriced == ()


@pytest.mark.parametrize(
    ("gpu_ms", "price", "cost"),
    [(HOUR_MS, 2_400_000, 2_400_000), (1, 1_800_000, 1), (1, 1_799_999, 0), (0, 9, 0)],
)
def test_a_cost_is_rounded_once_halves_up(gpu_ms: int, price: int, cost: int) -> None:
    assert cost_micros(gpu_ms, price) == cost
