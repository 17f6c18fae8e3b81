"""An accounting system's figures for a budget: used, replayed, and replaced by the ledger's."""

from __future__ import annotations

import pytest

from quorate.core.audit.invariants import sweep
from quorate.core.commands import FallBack, RemoveOwner, ReportBudget, Submit, UpdateOwner
from quorate.core.preemption.soft_quota import why_no_conflict
from quorate.core.tenancy.owner_scores import Scores, budget_used
from quorate.core.tenancy.queue_position import standing_of
from quorate.core.tenancy.share_score import ONE
from quorate.core.tenancy.thresholds import threshold_due_ms
from quorate.ledger.snapshot import restore, take
from quorate.model.amounts import HOUR_MS
from quorate.model.events import Allowance, BudgetFellBack, BudgetReported, ThresholdCrossed
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Owner, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import run
from quorate.testing.states import same
from tests.oracles.tenancies import Tenancy

SOURCE = "waldur"
WHOLE = Allowance(100 * HOUR_MS, 100 * HOUR_MS)


def told(left: int, granted: int = 100) -> Allowance:
    return Allowance(granted * HOUR_MS, left * HOUR_MS)


def report(owner: str, gpu: Allowance | None, node: Allowance | None = None) -> ReportBudget:
    return ReportBudget(owner, SOURCE, gpu, node)


@pytest.fixture
def world() -> Tenancy:
    """Return two owners, one of them with a budget, and a fleet that a third owner uses."""
    quota = Quota(gpu_ms_budget=100 * HOUR_MS)
    world = Tenancy([Owner(name="ada", quota=quota), Owner(name="ben"), Owner(name="cy")], nodes=2)
    world.do(Submit(run("full", 32, "cy", expected_duration_ms=HOUR_MS)))
    for name, owner in (("a", "ada"), ("b", "ben")):
        world.do(Submit(run(name, 16, owner, expected_duration_ms=HOUR_MS)))
    return world


def used(world: Tenancy, owner: str) -> int | None:
    return budget_used(world.state, world.state.owners[owner], world.now_ms)


def test_what_is_told_counts_and_is_shown(world: Tenancy) -> None:
    assert used(world, "ada") == 0
    assert world.queue() == ["a", "b"]
    world.do(report("ada", told(-5)))
    assert used(world, "ada") == 105 * ONE // 100
    assert Scores(world.state, world.now_ms).of("ada", "H100").is_over
    assert world.queue() == ["b", "a"]
    standing = standing_of(world.state, "a", world.now_ms)
    assert standing.report is world.state.reports["ada"]
    assert why_no_conflict(world.state, world.state.runs["a"], world.now_ms)


def test_what_is_told_counts_without_a_budget_in_the_quota(world: Tenancy) -> None:
    assert used(world, "ben") is None
    events = world.do(report("ben", None, told(15))).events
    assert used(world, "ben") == 85 * ONE // 100
    assert [e.percent for e in events if isinstance(e, ThresholdCrossed)] == [80]
    assert threshold_due_ms(world.state, world.now_ms) is None
    assert not list(sweep(world.state))


def test_of_hours_that_nothing_is_told_of_the_ledgers_own_figure_counts(world: Tenancy) -> None:
    world.do(UpdateOwner("ada", quota=(("node_ms_budget", 10 * HOUR_MS),)))
    world.do(report("ada", None, told(75)))
    assert used(world, "ada") == ONE // 4
    world.do(report("ada", told(40), None))
    assert used(world, "ada") == 60 * ONE // 100


def test_only_a_change_is_written(world: Tenancy) -> None:
    assert [type(e) for e in world.do(report("ada", told(50))).events] == [BudgetReported]
    seq = world.state.seq
    since_ms = world.state.reports["ada"].since_ms
    assert not world.later(report("ada", told(50)), HOUR_MS // 2).events[1:]
    assert world.state.seq - seq <= 1
    world.do(report("ada", told(49)))
    assert world.state.reports["ada"].since_ms == since_ms
    assert world.state.reports["ada"].told_ms == world.now_ms


def test_it_falls_back_to_the_ledger_and_says_since_when(world: Tenancy) -> None:
    world.do(report("ada", told(0)))
    world.do(FallBack("ada", SOURCE, "no answer for 10 minutes"))
    record = world.state.reports["ada"]
    assert (record.answers, record.since_ms, record.note) == (
        False,
        world.now_ms,
        "no answer for 10 minutes",
    )
    assert used(world, "ada") == 0
    assert not world.do(FallBack("ada", SOURCE, "still none")).events
    world.do(report("ada", told(0)))
    assert used(world, "ada") == ONE
    world.do(FallBack("ada", SOURCE, "no longer linked", is_linked=False))
    assert not world.state.reports
    assert not world.do(FallBack("ada", SOURCE, "no longer linked", is_linked=False)).events


def test_thresholds_follow_what_is_told(world: Tenancy) -> None:
    def crossed(command: ReportBudget | FallBack) -> list[tuple[int, bool]]:
        events = world.do(command).events
        return [(e.percent, e.is_above) for e in events if isinstance(e, ThresholdCrossed)]

    assert crossed(report("ada", told(10))) == [(80, True)]
    assert crossed(report("ada", told(-30))) == [(100, True), (120, True)]
    assert crossed(report("ada", told(22))) == [(120, False), (100, False)]
    assert crossed(FallBack("ada", SOURCE, "silent")) == [(80, False)]
    assert crossed(report("ada", told(0, granted=0))) == [(80, True), (100, True)]


def test_a_removed_owner_leaves_nothing_behind(world: Tenancy) -> None:
    assert world.try_(report("dee", told(1))).refusals[0].code is RefusalCode.UNKNOWN_NAME
    assert world.try_(FallBack("dee", SOURCE, "")).refusals[0].code is RefusalCode.UNKNOWN_NAME
    assert world.try_(report("ada", None)).refusals[0].code is RefusalCode.CONFLICT
    lonely = Tenancy([Owner(name="eve")], nodes=1)
    lonely.do(report("eve", WHOLE))
    lonely.do(RemoveOwner("eve"))
    assert not lonely.state.reports


def test_the_same_scores_come_of_the_ledger_alone(world: Tenancy) -> None:
    world.do(report("ada", told(7), told(3)))
    world.do(report("ben", told(15)))
    world.do(FallBack("ben", SOURCE, "silent"))
    world.do(report("cy", None, told(-1)))
    again = State()
    apply_all(again, world.events)
    assert not list(same(again, world.state))
    kept = restore(take(world.state))
    assert kept is not None
    for state in (again, kept):
        for name in ("ada", "ben", "cy"):
            assert Scores(state, world.now_ms).of(name, "H100") == Scores(
                world.state, world.now_ms
            ).of(name, "H100")
    assert not list(sweep(world.state))
    assert any(isinstance(e, BudgetFellBack) for e in world.events)
