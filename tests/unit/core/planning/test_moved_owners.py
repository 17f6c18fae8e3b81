"""Firm starts whose payers leave or join the family of their owner."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Complete, Submit
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import MoveCause, MoveCode, Tier
from quorate.model.specs import Lending, Owner
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, borrowing, budget, envelope, lending
from tests.oracles.lives import Life
from tests.oracles.plans import clashes, firm_ms, funds, moves, of, planned_life

DUE_MS = NOW_MS + HOUR_MS
MOVED = MoveCause(MoveCode.OWNER_MOVED, (("owner", "two"),))


def family_life(lends: Lending | None = None) -> Life:
    """Return a firm start of ``one`` that ``two``, of its family, pays for, except for one GPU."""
    line = envelope("e", 8) if lends is None else envelope("e", 8, lending=lends)
    owners = [Owner(name="parent"), *(Owner(name=n, parents=("parent",)) for n in ("one", "two"))]
    life = planned_life(
        4,
        owners=owners,
        budgets=[budget("b-one", "one", envelope("e", 1)), budget("b-two", "two", line)],
    )
    life.do(Submit(of("busy", 4, "three", 60)))
    life.do(Submit(of("firm", 4, "one", 60, funding=borrowing())))
    life.do(Submit(of("behind", 4, "three", 60)))
    assert firm_ms(life, "firm") == DUE_MS
    return life


def paid(life: Life, name: str) -> list[tuple[str, Tier, int]]:
    """Return the recorded payers of a firm start, with their GPUs."""
    record = life.state.reservations[life.state.runs[name].reservation or ""]
    return [(share.payer, share.tier, share.gpus) for share in record.payers]


@pytest.mark.parametrize(
    "lends",
    [None, lending(concurrency_max=2), lending(gpu_ms_max=HOUR_MS)],
    ids=["no loan", "loan too narrow", "loan too short"],
)
def test_start_moves_when_its_payer_leaves_the_family_and_lends_too_little(
    lends: Lending | None,
) -> None:
    life = family_life(lends)
    (moved,) = moves(life.do(Apply((Owner(name="two"),)), NOW_MS + MINUTE_MS))
    assert (moved.reservation, moved.cause) == ("firm@1", MOVED)
    assert moved.planned_start_ms is None or moved.planned_start_ms > DUE_MS
    assert clashes(life) == []
    assert moves(life.do(Complete("busy"), DUE_MS)) == []
    assert life.phase("behind") is Phase.RUNNING


def test_start_keeps_its_instant_when_its_payer_leaves_the_family_and_lends_enough() -> None:
    life = family_life(lending(concurrency_max=3))
    (moved,) = moves(life.do(Apply((Owner(name="two"),)), NOW_MS + MINUTE_MS))
    assert (moved.planned_start_ms, moved.cause) == (DUE_MS, MOVED)
    assert paid(life, "firm") == [("b-one/e", Tier.OWNED, 1), ("b-two/e", Tier.BORROWED, 3)]
    assert clashes(life) == []
    # Loans count from now on, and two GPUs are not enough.
    two = budget("b-two", "two", envelope("e", 8, lending=lending(concurrency_max=2)))
    (moved,) = moves(life.do(Apply((two,))))
    assert moved.cause == MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))


def test_start_that_is_borrowed_stays_when_its_lender_joins_the_family() -> None:
    life = planned_life(
        4,
        owners=[Owner(name="parent"), Owner(name="one", parents=("parent",))],
        budgets=[
            budget("b-one", "one", envelope("e", 1)),
            budget("b-two", "two", envelope("e", 8, lending=lending(concurrency_max=3))),
            funds("three"),
        ],
    )
    life.do(Submit(of("busy", 4, "three", 60)))
    life.do(Submit(of("firm", 4, "one", 60, funding=borrowing())))
    joins = Owner(name="two", parents=("parent",))
    decided = [life.do(Apply((joins,))), life.do(Complete("busy"), DUE_MS)]
    assert [move for decision in decided for move in moves(decision)] == []
    assert life.phase("firm") is Phase.RUNNING


@pytest.mark.parametrize("mover", ["one", "two"])
def test_cause_names_the_owner_that_moved_and_a_budget_that_changed_with_it(mover: str) -> None:
    life = family_life()
    two = budget("b-two", "two", envelope("e", 4))
    (moved,) = moves(life.do(Apply((Owner(name=mover), two)), NOW_MS + MINUTE_MS))
    assert moved.cause.objects == (("owner", mover), ("envelope", "b-two/e"))
