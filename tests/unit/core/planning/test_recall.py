"""Recall: a lender gets its GPUs back when its own run waits only for them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.audit.history_audit import audit
from quorate.core.commands import (
    Apply,
    Cancel,
    Complete,
    Confirm,
    Decision,
    MarkNode,
    Submit,
    Tick,
)
from quorate.core.planning.recall import needed_of
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    LeaseEnding,
    LoanRecalled,
    MoveCause,
    MoveCode,
    NodeStatus,
    RecallWithdrawn,
    ReservationMoved,
    StartReason,
)
from quorate.model.specs import Budget, Malleable, Run
from quorate.model.state.apply_event import apply
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, borrowing, budget, envelope, lending, node
from tests.oracles.lives import Life, ends, stops
from tests.oracles.plans import (
    alone,
    clashes,
    firm_ms,
    foreseen_ms,
    funds,
    moves,
    of,
    planned_life,
    quiet_pool,
    started,
    tick_until,
)

NOTICE_MS = 20 * MINUTE_MS
DUE_MS = NOW_MS + NOTICE_MS
GRACE_MS = 5 * MINUTE_MS


def lender(gpus: int = 8, notice_ms: int | None = NOTICE_MS, owner: str = "one") -> Budget:
    """Return a budget of ``owner`` that lends all of its GPUs, with a notice for recalls."""
    terms = lending(recall_notice_ms=notice_ms)
    return budget(f"b-{owner}", owner, alone(envelope("e", gpus, lending=terms)))


def borrower(name: str, gpus: int, minutes: int = 120, **more: object) -> Run:
    """Return a run of an owner without enough money of its own."""
    return of(name, gpus, "two", minutes, funding=borrowing(), **more)


def lent_life(
    gpus: int = 16,
    *,
    has_executor: bool = False,
    own: int = 0,
    notice_ms: int | None = NOTICE_MS,
    lends: int = 8,
    budgets: tuple[Budget, ...] = (),
    horizon_ms: int = HOUR_MS,
) -> Life:
    """Return a ledger in which ``one`` lends, and ``two`` can pay for ``own`` GPUs itself."""
    poor = budget("b-two", "two", alone(envelope("e", 1, flavor="A100")))
    return planned_life(
        gpus,
        budgets=[lender(lends, notice_ms), funds("two", own) if own else poor, *budgets],
        pool=quiet_pool(horizon_ms=horizon_ms),
        has_executor=has_executor,
    )


def poor(owner: str) -> Budget:
    """Return a budget of ``owner`` that can pay for nothing here."""
    return budget(f"b-{owner}", owner, alone(envelope("e", 1, flavor="A100")))


def recalled(decision: Decision) -> list[tuple[str, int, str, int]]:
    """Return each recall: run, bundle, the waiting run, and when it is due."""
    return [
        (event.run, event.bundle, event.waiting_run, event.due_ms)
        for event in decision.events
        if isinstance(event, LoanRecalled)
    ]


def recalled_runs(life: Life) -> list[str]:
    """Return the runs whose bundles are recalled."""
    return [run for run, _ in life.state.recalls]


def test_a_loan_is_recalled_for_a_run_of_its_lender_that_waits_for_nothing_else() -> None:
    life = lent_life()
    life.do(Submit(borrower("loan", 8)))
    decision = life.do(Submit(of("mine", 8)))
    assert recalled(decision) == [("loan", 0, "mine", DUE_MS)]
    assert (life.phase("loan"), firm_ms(life, "mine")) == (Phase.RUNNING, DUE_MS)
    assert (life.due_ms(), clashes(life)) == (DUE_MS, [])
    decision = life.do(Tick(), DUE_MS)
    assert ends(decision) == [("loan/0", EndReason.RECALLED)]
    assert (life.phase("mine"), life.phase("loan")) == (Phase.RUNNING, Phase.PENDING)
    assert life.state.recalls == {}


def test_the_notice_is_told_and_the_work_stops_one_grace_before_its_end() -> None:
    life = lent_life(has_executor=True)
    life.do(Submit(borrower("loan", 8, checkpoint_ms=GRACE_MS)))
    life.do(Submit(of("mine", 8)))
    assert life.due_ms() == DUE_MS - GRACE_MS
    assert stops(life.do(Tick(), DUE_MS - GRACE_MS - 1)) == []
    decision = life.do(Tick(), DUE_MS - GRACE_MS)
    assert stops(decision) == [("loan/0", EndReason.RECALLED)]
    (told,) = (event for event in decision.events if isinstance(event, LeaseEnding))
    assert told.deadline_ms == DUE_MS
    life.do(Confirm("loan/0"), DUE_MS - MINUTE_MS)
    assert life.phase("mine") is Phase.RUNNING


def test_work_gets_its_grace_where_the_notice_is_shorter() -> None:
    life = lent_life(has_executor=True, notice_ms=MINUTE_MS)
    life.do(Submit(borrower("loan", 8, checkpoint_ms=GRACE_MS)))
    decision = life.do(Submit(of("mine", 8)))
    assert recalled(decision) == [("loan", 0, "mine", NOW_MS + GRACE_MS)]
    (told,) = (event for event in decision.events if isinstance(event, LeaseEnding))
    assert told.deadline_ms == NOW_MS + GRACE_MS


def test_a_loan_that_is_told_late_is_the_cause_of_the_start_that_it_delays() -> None:
    """The program was down when the stop was due; a node that failed long ago is no cause."""
    life = lent_life(24, has_executor=True)
    failed = next(reversed(life.state.nodes))
    life.do(MarkNode(failed, NodeStatus.FAILED))
    life.do(Submit(borrower("loan", 8, checkpoint_ms=GRACE_MS)))
    life.do(Submit(of("mine", 8)))
    assert firm_ms(life, "mine") == DUE_MS
    (moved,) = moves(life.do(Tick(), DUE_MS - MINUTE_MS))
    assert moved.planned_start_ms == DUE_MS - MINUTE_MS + GRACE_MS
    assert moved.cause == MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "loan/0"),))


def test_the_recall_of_a_run_lasts_until_its_last_step_has_gone() -> None:
    life = lent_life(16, has_executor=True)
    wide = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
    life.do(Submit(borrower("loan", 8, malleable=wide, checkpoint_ms=GRACE_MS)))
    life.do(Submit(of("mine", 8)))
    stopping = [name for name, _ in stops(life.do(Tick(), DUE_MS - GRACE_MS))]
    assert len(stopping) == 2
    for name in stopping:
        assert ("loan", 0) in life.state.recalls
        life.do(Confirm(name), DUE_MS - MINUTE_MS)
    assert life.state.recalls == {}
    assert life.phase("mine") is Phase.RUNNING


def test_a_loan_without_a_notice_runs_to_its_end() -> None:
    life = lent_life(notice_ms=None)
    life.do(Submit(borrower("loan", 8)))
    decision = life.do(Submit(of("mine", 8)))
    assert recalled(decision) == []
    assert foreseen_ms(life, "mine") == NOW_MS + 2 * HOUR_MS


def test_the_gpus_of_the_loan_are_part_of_what_comes_back() -> None:
    life = lent_life(8)
    life.do(Submit(borrower("loan", 8)))
    assert recalled(life.do(Submit(of("mine", 8)))) == [("loan", 0, "mine", DUE_MS)]
    life.do(Tick(), DUE_MS)
    assert life.phase("mine") is Phase.RUNNING


def test_nothing_is_recalled_for_a_run_that_waits_for_room_too() -> None:
    life = lent_life(16)
    life.do(Submit(borrower("loan", 4)))
    life.do(Submit(of("busy", 12, "three")))
    assert recalled(life.do(Submit(of("mine", 8)))) == []


def test_nothing_is_recalled_for_a_run_whose_own_money_would_pay_for_the_room() -> None:
    rich = budget(
        "b-one",
        "one",
        alone(envelope("e", 8, lending=lending(recall_notice_ms=NOTICE_MS))),
        alone(envelope("f", 8)),
    )
    life = lent_life(8, budgets=(rich,))
    life.do(Submit(borrower("loan", 8)))
    assert recalled(life.do(Submit(of("mine", 8)))) == []


def test_nothing_is_recalled_for_a_run_of_another_owner() -> None:
    life = lent_life(16, budgets=(funds("three", 1),))
    life.do(Submit(borrower("loan", 8)))
    assert recalled(life.do(Submit(of("other", 8, "three", funding=borrowing())))) == []


def test_the_newest_loan_goes_first_and_no_more_than_is_needed() -> None:
    life = lent_life(32, lends=8)
    for minute, name in enumerate(("first", "second", "third")):
        life.do(Submit(borrower(name, 2)), NOW_MS + minute * MINUTE_MS)
    decision = life.do(Submit(of("mine", 5)), NOW_MS + 5 * MINUTE_MS)
    due_ms = NOW_MS + 5 * MINUTE_MS + NOTICE_MS
    assert recalled(decision) == [("third", 0, "mine", due_ms), ("second", 0, "mine", due_ms)]


def test_a_newer_loan_that_is_too_small_to_matter_is_left_alone() -> None:
    life = lent_life(32, lends=8)
    life.do(Submit(borrower("large", 7)), NOW_MS)
    life.do(Submit(borrower("small", 1)), NOW_MS + MINUTE_MS)
    decision = life.do(Submit(of("mine", 7)), NOW_MS + 2 * MINUTE_MS)
    assert [run for run, *_ in recalled(decision)] == ["large"]


def test_other_payers_take_over_first_and_the_run_starts_at_once() -> None:
    life = lent_life(16)
    life.do(Submit(borrower("loan", 8)))
    life.do(Apply((funds("two", 8),)))
    decision = life.do(Submit(of("mine", 8)))
    assert recalled(decision) == []
    assert ends(decision) == [("loan/0", EndReason.HANDOVER)]
    assert (life.phase("loan"), life.phase("mine")) == (Phase.RUNNING, Phase.RUNNING)
    assert life.state.leases["loan/1"].fact.payer == "b-two/e"
    assert life.state.leases["loan/1"].fact.reason is StartReason.HANDOVER


def test_a_hand_over_that_would_keep_the_gpus_is_none() -> None:
    life = lent_life(8)
    life.do(Submit(borrower("loan", 8)))
    life.do(Apply((funds("two", 8),)))
    decision = life.do(Submit(of("mine", 8)))
    assert recalled(decision) == [("loan", 0, "mine", DUE_MS)]
    life.do(Tick(), DUE_MS)
    assert life.phase("mine") is Phase.RUNNING


def test_a_bundle_that_has_payers_when_its_notice_is_over_goes_on() -> None:
    life = lent_life(16)
    life.do(Submit(borrower("loan", 8)))
    life.do(Submit(of("mine", 8)))
    life.do(Apply((funds("two", 8),)), NOW_MS + MINUTE_MS)
    decision = life.do(Tick(), DUE_MS)
    assert [type(e) for e in decision.events if isinstance(e, RecallWithdrawn)] == [RecallWithdrawn]
    assert (life.phase("loan"), life.phase("mine")) == (Phase.RUNNING, Phase.RUNNING)
    assert life.state.recalls == {}


def test_overstaying_work_stops_at_once_if_a_recalled_bundle_keeps_its_gpus() -> None:
    life = lent_life(16, budgets=(funds("three", 8),))
    life.do(Submit(borrower("loan", 8)))
    life.do(Submit(of("busy", 8, "three", 10)))
    life.do(Submit(of("mine", 8)))
    life.do(Complete("busy"), NOW_MS + MINUTE_MS)
    life.do(Submit(of("late", 8, "three", 10)))
    assert (recalled_runs(life), life.phase("late")) == (["loan"], Phase.RUNNING)
    life.do(Apply((funds("two", 8),)))
    decision = life.do(Tick(), DUE_MS)
    assert any(isinstance(event, RecallWithdrawn) for event in decision.events)
    assert ("late/0", EndReason.OVERSTAYED) in ends(decision)
    assert (life.phase("loan"), life.phase("mine")) == (Phase.RUNNING, Phase.RUNNING)


def test_a_loan_goes_on_when_the_run_it_was_recalled_for_is_gone() -> None:
    life = lent_life(16)
    life.do(Submit(borrower("loan", 8)))
    life.do(Submit(of("mine", 8)))
    life.do(Cancel("mine"), NOW_MS + MINUTE_MS)
    life.do(Tick(), DUE_MS)
    assert life.phase("loan") is Phase.RUNNING
    assert life.state.envelopes[life.state.leases["loan/1"].fact.payer].owner == "one"


def test_the_lender_does_not_lend_again_while_its_run_waits() -> None:
    """Otherwise the recalled money would pay for the bundle again, and be recalled without end."""
    life = lent_life(16)
    life.do(Submit(borrower("loan", 8)))
    life.do(Submit(of("mine", 8)))
    known = life.state.reservations["mine@1"]
    later = ReservationMoved(
        at_ms=life.now_ms,
        actor="test",
        reservation="mine@1",
        status=known.status,
        slice=known.slice,
        payers=known.payers,
        planned_start_ms=NOW_MS + 5 * HOUR_MS,
        natural_start_ms=NOW_MS + 5 * HOUR_MS,
        by_conflict=False,
        cause=MoveCause(MoveCode.LOANS_RECALLED, ()),
    )
    apply(life.state, later)
    life.now_ms = DUE_MS
    decision = life.ask(Tick())
    assert ends(decision) == [("loan/0", EndReason.RECALLED)]
    assert started(decision.events) == [("mine/0", DUE_MS)]


def test_the_start_by_a_recall_is_firm_however_far_away_it_is() -> None:
    life = lent_life(16, notice_ms=3 * HOUR_MS)
    life.do(Submit(borrower("loan", 8, minutes=600)))
    life.do(Submit(of("mine", 8)))
    assert firm_ms(life, "mine") == NOW_MS + 3 * HOUR_MS


def test_a_loan_that_ends_before_its_notice_would_is_not_recalled() -> None:
    life = lent_life(16)
    life.do(Submit(borrower("loan", 8, minutes=15)))
    assert recalled(life.do(Submit(of("mine", 8)))) == []
    assert firm_ms(life, "mine") == NOW_MS + 15 * MINUTE_MS


def test_a_step_is_recalled_and_its_run_goes_on_without_it() -> None:
    life = lent_life(32)
    wide = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
    life.do(Submit(borrower("loan", 8, malleable=wide)))
    assert recalled(life.do(Submit(of("mine", 4)))) == [("loan", 1, "mine", DUE_MS)]
    decision = life.do(Tick(), DUE_MS)
    assert [reason for _, reason in ends(decision)] == [EndReason.RECALLED]
    assert (life.phase("loan"), life.gpus("loan"), life.gpus("mine")) == (Phase.RUNNING, 4, 4)


def test_a_recalled_step_does_not_replace_lost_gpus_of_its_run() -> None:
    """The step goes back to its lender, whose run has a firm start on its GPUs."""
    poor = budget("b-two", "two", alone(envelope("e", 1, flavor="A100")))
    nodes = [node(name, 4) for name in ("a0", "a1", "a2", "a3")]
    life = planned_life(nodes=nodes, budgets=[lender(), poor], pool=quiet_pool())
    wide = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
    life.do(Submit(borrower("loan", 8, malleable=wide, group_gpus=4)))
    assert recalled(life.do(Submit(of("mine", 4)))) == [("loan", 1, "mine", DUE_MS)]
    (lost,) = [
        lease.fact.slots[0][0] for lease in life.state.leases.values() if not lease.fact.bundle
    ]
    decision = life.do(MarkNode(lost, NodeStatus.FAILED))
    assert EndReason.SHRINK not in [reason for _, reason in ends(decision)]
    assert life.phase("mine") is Phase.RUNNING


def test_step_that_grew_again_after_a_recall_may_be_recalled_again() -> None:
    life = lent_life(32)
    wide = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
    life.do(Submit(borrower("loan", 8, minutes=600, malleable=wide)))
    life.do(Submit(of("mine", 4, minutes=30)))
    life.do(Tick(), DUE_MS)
    later_ms = DUE_MS + 2 * HOUR_MS
    life.do(Complete("mine"), DUE_MS + 30 * MINUTE_MS)
    life.do(Tick(), later_ms)
    assert life.gpus("loan") == 8
    again = life.do(Submit(of("more", 4)), later_ms + 1)
    assert [(run, bundle) for run, bundle, _, _ in recalled(again)] == [("loan", 1)]
    assert audit(life.events, view=life.state) == []


def test_a_firm_start_comes_sooner_once_it_waits_for_nothing_but_a_loan() -> None:
    life = lent_life(16)
    life.do(Submit(borrower("loan", 4, minutes=50)))
    life.do(Submit(of("busy", 12, "three", 40)))
    assert recalled(life.do(Submit(of("mine", 8)))) == []
    assert firm_ms(life, "mine") == NOW_MS + 50 * MINUTE_MS
    decision = life.do(Complete("busy"), NOW_MS + MINUTE_MS)
    due_ms = NOW_MS + MINUTE_MS + NOTICE_MS
    assert recalled(decision) == [("loan", 0, "mine", due_ms)]
    assert [(e.planned_start_ms, e.cause.code) for e in moves(decision)] == [
        (due_ms, MoveCode.LOANS_RECALLED)
    ]
    life.do(Tick(), due_ms)
    assert life.phase("mine") is Phase.RUNNING


def test_terms_do_not_get_worse_while_a_loan_runs() -> None:
    life = lent_life(16)
    life.do(Submit(borrower("loan", 8)))
    refused = life.try_(Apply((lender(8, NOTICE_MS - 1),))).refusals
    assert [("lending.recall.notice" in each.subject, each.wanted) for each in refused] == [
        (True, 8)
    ]
    life.do(Apply((lender(8, NOTICE_MS + 1),)))
    life.do(Apply((lender(8, None),)))
    assert life.try_(Apply((lender(8, NOTICE_MS),))).refusals
    life.do(Complete("loan"))
    life.do(Apply((lender(8, NOTICE_MS),)))


def test_a_recall_outlives_a_hand_over_of_the_bundle() -> None:
    """Its other payer runs out of hours: the bundle gets other payers, and the recall stays due."""
    life = lent_life(16, own=4, lends=8)
    poor = budget("b-two", "two", alone(envelope("e", 4, gpu_ms_max=4 * 125 * MINUTE_MS)))
    life.do(Apply((poor,)))
    life.do(Submit(borrower("loan", 8)))
    assert {lease.fact.payer for lease in life.state.leases.values()} == {"b-two/e", "b-one/e"}
    life.do(Submit(of("mine", 8)))
    assert list(life.state.recalls) == [("loan", 0)]
    more = replace(poor, envelopes=(*poor.envelopes, alone(envelope("g", 4))))
    life.do(Apply((more,)), NOW_MS + MINUTE_MS)
    assert list(life.state.recalls) == [("loan", 0)]
    life.do(Tick(), DUE_MS)
    assert life.phase("mine") is Phase.RUNNING
    assert started(life.events)[-1][0].startswith("mine/")


def test_a_run_starts_at_once_if_the_loan_is_gone_before_its_width_is_needed() -> None:
    life = lent_life(8, lends=5, budgets=(funds("three", 4),))
    life.do(Submit(borrower("loan", 2)))
    life.do(Submit(of("busy", 4, "three", 40)))
    life.do(Submit(borrower("later", 3)))
    assert firm_ms(life, "later") == NOW_MS + 40 * MINUTE_MS
    decision = life.do(Submit(of("mine", 2, minutes=60)))
    assert recalled(decision) == [("loan", 0, "mine", DUE_MS)]
    assert (life.phase("mine"), clashes(life)) == (Phase.RUNNING, [])
    assert life.do(Tick()).events == ()
    life.do(Tick(), DUE_MS)
    assert firm_ms(life, "later") == NOW_MS + 40 * MINUTE_MS


def test_an_overdue_loan_is_recalled_but_not_stopped_before_its_expected_end() -> None:
    """Firm starts may count on that end, and a stop may take the whole grace."""
    life = lent_life(has_executor=True, notice_ms=MINUTE_MS)
    life.do(Submit(borrower("loan", 8, 30, checkpoint_ms=GRACE_MS)))
    next_rung_ms = NOW_MS + 45 * MINUTE_MS
    decision = life.do(Submit(of("mine", 8)), next_rung_ms - 3 * MINUTE_MS)
    due_ms = next_rung_ms + GRACE_MS
    assert (recalled(decision), stops(decision)) == ([("loan", 0, "mine", due_ms)], [])
    assert (firm_ms(life, "mine"), clashes(life)) == (next_rung_ms, [])
    decision = life.do(Tick(), next_rung_ms)
    assert stops(decision) == [("loan/0", EndReason.RECALLED)]
    moved = [*moves(decision), *moves(life.do(Tick(), next_rung_ms + 1))]
    assert [each.cause.code for each in moved] == [MoveCode.LEASE_OVERRAN]
    assert (firm_ms(life, "mine"), clashes(life)) == (due_ms, [])


@pytest.mark.parametrize("declared", [15, 120, 600])
def test_what_a_borrower_declares_does_not_delay_the_return_of_a_loan(declared: int) -> None:
    life = lent_life(has_executor=True, notice_ms=HOUR_MS)
    life.do(Submit(borrower("loan", 8, declared, checkpoint_ms=0)))
    asked_ms = NOW_MS + 130 * MINUTE_MS
    tick_until(life, asked_ms - 1)
    life.do(Submit(of("mine", 8, "one", 30)), asked_ms)
    tick_until(life, asked_ms + HOUR_MS)
    (stopping,) = life.stopping()
    life.do(Confirm(stopping))
    assert life.phase("mine") is Phase.RUNNING


def test_an_overdue_loan_is_recalled_with_another_that_is_needed() -> None:
    life = lent_life(has_executor=True, notice_ms=MINUTE_MS)
    life.do(Submit(borrower("overdue", 4, 30, checkpoint_ms=GRACE_MS)))
    life.do(Submit(borrower("other", 4, checkpoint_ms=0)), NOW_MS + MINUTE_MS)
    next_rung_ms = NOW_MS + 45 * MINUTE_MS
    now_ms = next_rung_ms - 3 * MINUTE_MS
    decision = life.do(Submit(of("mine", 8)), now_ms)
    assert recalled(decision) == [
        ("other", 0, "mine", now_ms + MINUTE_MS),
        ("overdue", 0, "mine", next_rung_ms + GRACE_MS),
    ]
    assert (firm_ms(life, "mine"), clashes(life)) == (next_rung_ms, [])


def test_a_loan_to_an_overdue_run_with_other_payers_is_recalled_as_if_it_were_not_overdue() -> None:
    """If it kept its GPUs until its estimated end, each new estimate would move the start."""
    life = lent_life(8, has_executor=True, budgets=(poor("three"),))
    life.do(Submit(borrower("late", 4, 30)))
    life.do(Submit(of("fair", 4, "three", 600, funding=borrowing())), NOW_MS + MINUTE_MS)
    tick_until(life, NOW_MS + 39 * MINUTE_MS)
    life.do(Apply((funds("two", 4),)), NOW_MS + 39 * MINUTE_MS)
    decision = life.do(Submit(of("mine", 8, "one", 60)), NOW_MS + 40 * MINUTE_MS)
    due_ms = NOW_MS + 60 * MINUTE_MS
    assert recalled(decision) == [("fair", 0, "mine", due_ms), ("late", 0, "mine", due_ms)]
    tick_until(life, due_ms)
    for lease in life.stopping():
        life.do(Confirm(lease))
    assert life.phase("mine") is Phase.RUNNING


@pytest.mark.heavy
@pytest.mark.parametrize("declared", [30, 600])
def test_an_overdue_bundle_goes_on_after_its_notice_only_if_no_start_needs_it_later(
    declared: int,
) -> None:
    """Its expected end is an estimate, and the start would move with each new one."""
    short = alone(envelope("e", 4, lending=lending("two", recall_notice_ms=5 * MINUTE_MS)))
    long = alone(envelope("f", 4, lending=lending("three", recall_notice_ms=2 * HOUR_MS)))
    life = planned_life(
        8,
        budgets=[budget("b-one", "one", short, long), poor("two"), poor("three")],
        pool=quiet_pool(horizon_ms=HOUR_MS),
        has_executor=True,
    )
    life.do(Submit(borrower("late", 4, declared)))
    life.do(Submit(of("fair", 4, "three", 600, funding=borrowing())), NOW_MS + MINUTE_MS)
    tick_until(life, NOW_MS + 39 * MINUTE_MS)
    life.do(Submit(of("mine", 8, "one", 60)), NOW_MS + 40 * MINUTE_MS)
    life.do(Apply((funds("two", 4),)), NOW_MS + 41 * MINUTE_MS)
    while life.phase("mine") is not Phase.RUNNING and life.now_ms < NOW_MS + 3 * HOUR_MS:
        tick_until(life, life.now_ms + MINUTE_MS)
        for lease in life.stopping():
            life.do(Confirm(lease))
    assert life.state.runs["mine"].since_ms == NOW_MS + 160 * MINUTE_MS


def test_nothing_is_recalled_if_the_run_certainly_starts_before_the_notice_is_over() -> None:
    """The estimated end of an overdue run is no reason for a recall that is due later."""
    life = lent_life(8, has_executor=True, notice_ms=HOUR_MS)
    life.do(Submit(borrower("late", 4, 30)))
    life.do(Submit(of("own", 4, "one", 60)))
    tick_until(life, NOW_MS + 39 * MINUTE_MS)
    decision = life.do(Submit(of("mine", 4, "one", 240)), NOW_MS + 40 * MINUTE_MS)
    assert recalled(decision) == []
    tick_until(life, NOW_MS + 59 * MINUTE_MS)
    life.do(Complete("own", has_gone=True), NOW_MS + 60 * MINUTE_MS)
    assert life.phase("mine") is Phase.RUNNING


def test_nothing_is_recalled_while_a_run_that_may_overrun_reaches_its_declared_end() -> None:
    life = lent_life(8, has_executor=True, budgets=(funds("three"),))
    life.do(Submit(borrower("loan", 4, 600)))
    life.do(Submit(of("late", 4, "three", 30)))
    life.do(Submit(of("mine", 8, "one", 60)), NOW_MS + MINUTE_MS)
    decisions = [life.do(Tick(), NOW_MS + 30 * MINUTE_MS + after_ms) for after_ms in (0, 1)]
    assert [recalled(each) for each in decisions] == [[], []]
    at_ms = NOW_MS + 31 * MINUTE_MS
    decision = life.do(Complete("late", has_gone=True), at_ms)
    assert recalled(decision) == [("loan", 0, "mine", at_ms + NOTICE_MS)]


@pytest.mark.parametrize("has_executor", [True, False])
@pytest.mark.parametrize("minutes", [5, 90])
def test_who_fills_the_spare_of_a_recalled_run_does_not_move_the_start_of_its_lender(
    minutes: int,
    has_executor: bool,  # noqa: FBT001 - a case
) -> None:
    life = lent_life(8, has_executor=has_executor, budgets=(funds("three"),))
    loan = borrower("loan", 4, group_gpus=4, spares_per_group=4)
    life.do(Submit(loan))
    life.do(Submit(of("mine", 8, "one", 60)))
    assert firm_ms(life, "mine") == DUE_MS
    life.do(Submit(of("filler", 4, "three", minutes)), NOW_MS + MINUTE_MS)
    assert clashes(life) == []
    life.do(Submit(of("other", 1, "three", 10)), NOW_MS + 2 * MINUTE_MS)
    assert (firm_ms(life, "mine"), clashes(life)) == (DUE_MS, [])


@pytest.mark.parametrize(
    ("loans", "amount", "needed"),
    [
        ([4, 4, 4, 4], 4, [0]),
        ([1, 2, 1, 8, 1], 9, [0, 3]),
        ([1, 1, 1], 3, [0, 1, 2]),
        ([1], 0, [0]),
    ],
)
def test_the_loans_that_are_left_out_are_tried_from_last_to_first(
    loans: list[int], amount: int, needed: list[int]
) -> None:
    found = needed_of(list(enumerate(loans)), lambda some: sum(n for _, n in some) >= amount)
    assert [place for place, _ in found] == needed
