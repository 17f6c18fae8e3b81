"""Fill on spares, their return and reclaim: docs/design/lifecycle.md."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.admission.admit import cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.admission.payers import PayerList
from quorate.core.admission.shortfall import limit_of
from quorate.core.commands import (
    Apply,
    Cancel,
    Complete,
    Confirm,
    Drain,
    Fail,
    MarkNode,
    Shrink,
    Submit,
    Tick,
)
from quorate.core.lifecycle.spares import pledges_of
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    LeaseEnded,
    LeaseStarted,
    NodeStatus,
    PledgeClosed,
    Role,
    RunRequeued,
    SpareFilled,
    StartReason,
    Tier,
)
from quorate.model.selector import DOMAIN
from quorate.model.specs import (
    DEFAULT_POOL,
    EnvelopeId,
    Follow,
    Malleable,
    Node,
    Owner,
    Pool,
    Replace,
)
from quorate.model.state.records import Phase
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    fleet,
    lending,
    node,
    run,
)
from tests.oracles.lives import Life, ends, stops
from tests.oracles.plans import firm_ms, moves, of, planned_life

LATER_MS = NOW_MS + 10 * MINUTE_MS
SPARE = Role.SPARE


def one_and_two(
    nodes: list[Node], *, one: int = 64, two: int = 64, has_executor: bool = False
) -> Life:
    """Return a ledger with two unrelated owners."""
    return Life(
        nodes=nodes,
        budgets=[
            budget("b1", "one", envelope("e", one)),
            budget("b2", "two", envelope("e", two)),
        ],
        has_executor=has_executor,
    )


def filled_world(*, has_executor: bool = False) -> Life:
    """Return a ledger in which ``filler`` (4 GPUs) works on the spares of ``keeper`` (8 + 4).

    Nodes have 4 GPUs: keeper on a0000 and a0001, its spares on a0002, no other node.
    """
    life = one_and_two(fleet({"A": 12}, gpus=4), has_executor=has_executor)
    life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
    life.do(Submit(run("filler", 4, "two")), LATER_MS)
    assert life.on("filler") == {"a0002": 4}
    assert life.filled("keeper") == 4
    return life


def fail(name: str) -> MarkNode:
    return MarkNode(name, NodeStatus.FAILED)


class TestTakingSpares:
    """The slots of a filler, and its payers."""

    def test_the_events_of_a_fill_come_in_this_order(self) -> None:
        life = one_and_two([node("n1", 4), node("n2", 4)])
        life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
        decision = life.do(Submit(run("filler", 2, "two")), LATER_MS)
        kinds = [type(event) for event in decision.events[1:]]
        assert kinds == [SpareFilled, SpareFilled, LeaseEnded, LeaseStarted, LeaseStarted]
        *_, kept, filler = decision.events
        assert ends(decision) == [("keeper/1", EndReason.FILLED)]
        assert isinstance(kept, LeaseStarted)
        assert (kept.run, kept.role, kept.reason) == ("keeper", SPARE, StartReason.SWAP)
        assert isinstance(filler, LeaseStarted)
        assert (filler.run, filler.payer) == ("filler", "b2/e")
        assert life.gpus("keeper", SPARE) + life.filled("keeper") == 4

    def test_the_spares_payer_keeps_room_and_money_and_the_filler_pays_on_top(self) -> None:
        life = one_and_two([node("n1", 4), node("n2", 4)], one=8)
        life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
        before = life.state.envelopes[EnvelopeId("b1/e")].copy()
        life.do(Submit(run("filler", 4, "two")), LATER_MS)
        after = life.state.envelopes[EnvelopeId("b1/e")]
        assert (after.gpus_active, after.gpus_reserved) == (4, 4)
        used = 4 * (LATER_MS - NOW_MS)
        # The used part is spent and the rest stays reserved: together the same amount.
        assert after.committed_gpu_ms == before.committed_gpu_ms
        assert after.ended_gpu_ms == used
        assert life.state.envelopes[EnvelopeId("b2/e")].gpus_active == 4
        # No other run gets the reserved concurrency.
        life.do(Submit(run("more", 1, "one")))
        assert life.phase("more") is Phase.PENDING

    def test_free_slots_come_first(self) -> None:
        life = one_and_two(fleet({"A": 16}, gpus=4))
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("filler", 6, "two", group_gpus=2)))
        assert (life.gpus("filler"), life.filled("keeper")) == (6, 2)

    def test_the_domain_that_lacks_the_least_gives_the_spares(self) -> None:
        nodes = [node("a1", 8, "A"), node("b1", 8, "B"), node("b2", 2, "B")]
        life = one_and_two(nodes)
        for domain, working in (("A", 2), ("B", 4)):
            home = (("fabric.domain", domain),)
            keeper = run(f"keep-{domain}", working, "one", selector=home, spares_per_group=4)
            life.do(Submit(keeper))
        # A has 2 free GPUs and 4 spares; B has 2 free GPUs, and 3 after this.
        life.do(Submit(run("filler", 5, "two", cross_group_spread=False)))
        assert life.filled("keep-A") + life.filled("keep-B") == 3

    def test_in_each_domain_as_few_spares_are_taken_as_groups_lack_there(self) -> None:
        nodes = [node("a1", 4), node("a2", 3), node("b1", 4, "B"), node("b2", 1, "B")]
        life = one_and_two([*nodes, node("a0", 1), node("b0", 1, "B")])
        for domain in "AB":
            home = (("fabric.domain", domain),)
            life.do(Submit(run(f"k{domain}", 1, "one", selector=home, spares_per_group=4)))
        assert (life.on("kA", SPARE), life.on("kB", SPARE)) == ({"a1": 4}, {"b1": 4})
        # One of its two groups of 4 finds 3 free GPUs, the other 1.
        life.do(Submit(run("filler", 8, "two", group_gpus=4)))
        assert life.gpus("filler") == 8
        assert (life.filled("kA"), life.filled("kB")) == (1, 3)

    def test_a_malleable_filler_takes_spares_for_its_minimum_only(self) -> None:
        life = one_and_two(fleet({"A": 16}, gpus=4))
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=8)))
        elastic = Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8)
        life.do(Submit(run("filler", 8, "two", malleable=elastic)))
        assert (life.gpus("filler"), life.filled("keeper")) == (2, 2)

    @pytest.mark.parametrize(
        "more",
        [
            {"owner": "one"},
            {"flavors": ("A100",)},
            {"gpus": 5},
            {"selector": (("fabric.domain", "B"),)},
            {"group_gpus": 4, "spares_per_group": 1},
        ],
        ids=["no money", "another flavor", "too wide", "elsewhere", "no room for its own spares"],
    )
    def test_what_spares_cannot_help_waits(self, more: dict[str, object]) -> None:
        life = one_and_two(fleet({"A": 12}, gpus=4), one=12)
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        fields: dict[str, object] = {"gpus": 4, "owner": "two"} | more
        life.do(Submit(run("filler", **fields)))  # type: ignore[arg-type]
        assert life.phase("filler") is Phase.PENDING
        assert life.state.pledges == {}

    def test_spares_on_a_node_that_is_not_ready_are_not_filled(self) -> None:
        life = one_and_two(fleet({"A": 12}, gpus=4))
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(MarkNode("a0002", NodeStatus.CORDONED))
        life.do(Submit(run("filler", 4, "two")))
        assert life.phase("filler") is Phase.PENDING

    def test_a_fillers_own_spare_on_a_filled_one_is_not_filled_again(self) -> None:
        life = one_and_two(fleet({"A": 12}, gpus=4))
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("filler", 2, "two", group_gpus=2, spares_per_group=2)))
        assert (life.gpus("filler", SPARE), life.filled("keeper")) == (2, 4)
        life.do(Submit(run("third", 2, "two")))
        assert life.phase("third") is Phase.PENDING

    def test_two_fillers_share_one_spare(self) -> None:
        life = one_and_two(fleet({"A": 12}, gpus=4))
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("f1", 1, "two")))
        life.do(Submit(run("f2", 3, "two")))
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (4, 0)
        life.do(Complete("f2"), LATER_MS)
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (1, 3)

    def test_a_run_that_waits_for_others_does_not_fill(self) -> None:
        life = one_and_two(fleet({"A": 12}, gpus=4))
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("wide", 64, "two")))
        from_wide = run("filler", 4, "two", follow=Follow(after=("wide",)))
        life.do(Submit(from_wide))
        assert life.state.pledges == {}


class TestComingBack:
    """When the filler has ended, the spare is restored, unless its run no longer needs it."""

    @pytest.mark.parametrize("how", [Complete, Fail, Cancel])
    def test_the_spare_returns_when_the_filler_ends(
        self, how: type[Complete | Fail | Cancel]
    ) -> None:
        life = filled_world()
        decision = life.do(how("filler"), LATER_MS + MINUTE_MS)
        assert life.on("keeper", SPARE) == {"a0002": 4}
        assert life.filled("keeper") == 0
        *_, last = decision.events
        assert isinstance(last, LeaseStarted)
        # Its hold is what was left when it was filled.
        assert last.hold_gpu_ms == 4 * (HOUR_MS + 2 * MINUTE_MS - 10 * MINUTE_MS)
        assert (last.payer, last.reason, last.start_ms) == (
            "b1/e",
            StartReason.START,
            LATER_MS + MINUTE_MS,
        )

    def test_with_an_executor_it_returns_when_the_filler_is_gone(self) -> None:
        life = filled_world(has_executor=True)
        life.do(Cancel("filler"), LATER_MS + 1)
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (4, 0)
        life.do(Confirm("filler/0"), LATER_MS + 2)
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (0, 4)

    def test_a_step_that_goes_brings_its_part_back(self) -> None:
        life = one_and_two([node("n1", 4), node("n2", 4), node("n3", 2)])
        life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
        life.do(MarkNode("n3", NodeStatus.CORDONED))
        elastic = Malleable(gpus_min=2, gpus_max=4, gpus_step=2, gpus_desired=4)
        life.do(Submit(run("filler", 4, "two", malleable=elastic)))
        life.do(MarkNode("n3", NodeStatus.READY))
        assert (life.gpus("filler"), life.filled("keeper")) == (4, 2)
        life.do(Shrink("filler", 2), LATER_MS)
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (2, 2)

    @pytest.mark.parametrize("how", [Complete, Fail, Cancel])
    def test_the_filler_stays_when_the_spares_run_ends(
        self, how: type[Complete | Fail | Cancel]
    ) -> None:
        life = filled_world()
        decision = life.do(how("keeper"), LATER_MS + 1)
        assert sum(isinstance(event, PledgeClosed) for event in decision.events) == 4
        assert (life.gpus("filler"), life.state.pledges) == (4, {})
        life.do(Complete("filler"), LATER_MS + 2)
        assert not life.state.leases

    def test_the_filler_stays_when_the_spares_run_is_told_to_stop(self) -> None:
        life = filled_world(has_executor=True)
        life.do(Cancel("keeper"), LATER_MS + 1)
        assert (life.phase("keeper"), life.filled("keeper")) == (Phase.RUNNING, 0)

    def test_the_filler_stays_when_the_bundle_is_given_back(self) -> None:
        life = one_and_two(fleet({"A": 16}, gpus=4))
        elastic = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
        keeper = run("keeper", 8, "one", malleable=elastic, group_gpus=4, spares_per_group=4)
        life.do(Submit(keeper))
        life.do(Submit(run("filler", 8, "two")))
        assert life.filled("keeper") == 8
        life.do(Shrink("keeper", 4), LATER_MS)
        assert (life.filled("keeper"), life.gpus("filler")) == (4, 8)

    def test_a_pledge_lapses_when_its_payers_window_closes(self) -> None:
        soon, late = envelope("e", 12, end_ms=NOW_MS + 2 * HOUR_MS), envelope("l", 8)
        life = Life(
            nodes=fleet({"A": 12}, gpus=4),
            budgets=[
                budget("b1", "one", soon),
                budget("b2", "two", envelope("e", 4)),
                budget("b3", "three", late),
            ],
            owners=[Owner(name="one", parents=("three",))],
        )
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("filler", 4, "two", expected_duration_ms=5 * HOUR_MS)))
        assert life.filled("keeper") == 4
        ticks = 0
        while life.state.pledges:
            due_ms = life.due_ms()
            assert due_ms is not None
            life.do(Tick(), due_ms)
            ticks += 1
        assert life.now_ms == NOW_MS + 2 * HOUR_MS
        assert life.gpus("filler") == 4
        # The work itself continued with the parent's money.
        assert life.gpus("keeper") == 8
        assert life.ask(Tick()).events == ()

    def test_a_spare_never_returns_past_its_payers_window(self) -> None:
        line = envelope("e", 12, end_ms=NOW_MS + 70 * MINUTE_MS)
        life = Life(
            nodes=fleet({"A": 12}, gpus=4),
            budgets=[budget("b1", "one", line), budget("b2", "two", envelope("e", 4))],
        )
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("filler", 4, "two")))
        life.do(Complete("filler"), NOW_MS + 30 * MINUTE_MS)
        (spare,) = [le for le in life.state.leases.values() if le.fact.role is SPARE]
        assert spare.hold_ends_ms == NOW_MS + 70 * MINUTE_MS

    def test_a_lender_that_does_not_lend_any_more_does_not_get_the_spare_back(self) -> None:
        line = envelope("e", 12, lending=lending("one"))
        life = Life(
            nodes=fleet({"A": 12}, gpus=4),
            budgets=[budget("b1", "lender", line), budget("b2", "two", envelope("e", 4))],
            owners=[Owner(name="one")],
        )
        keeper = run("keeper", 8, "one", group_gpus=8, spares_per_group=4, funding=borrowing())
        life.do(Submit(keeper))
        life.do(Submit(run("filler", 4, "two")))
        assert life.filled("keeper") == 4
        life.do(Apply((budget("b1", "lender", envelope("e", 12, lending=lending("two"))),)))
        life.do(Complete("filler"), LATER_MS)
        assert (life.gpus("keeper"), life.gpus("keeper", SPARE)) == (8, 0)
        assert life.state.envelopes[EnvelopeId("b1/e")].gpus_reserved == 0

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (None, "the envelope cannot be removed"),
            ({"selector": ((DOMAIN, "B"),)}, "excludes them"),
            ({"flavor": "A100"}, "excludes them"),
            ({"end_ms": LATER_MS}, "excludes them"),
            ({"start_ms": LATER_MS}, "excludes them"),
        ],
    )
    def test_a_budget_does_not_change_so_that_a_spare_could_not_come_back(
        self, change: dict[str, object] | None, why: str
    ) -> None:
        work, spare = envelope("work", 8), envelope("z", 4)
        life = Life(
            nodes=fleet({"A": 12}, gpus=4),
            budgets=[budget("b1", "one", work, spare), budget("b2", "two", envelope("e", 4))],
        )
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("filler", 4, "two")))
        (payer,) = {pledge.payer for pledge in life.state.pledges.values()}
        assert payer == "b1/z"
        lines = (work,) if change is None else (work, replace(spare, **change))
        (refusal,) = life.try_(Apply((budget("b1", "one", *lines),))).refusals
        assert refusal.subject.startswith(
            "Budget/b1: spec.envelopes[z]: 4 GPUs are kept for spares"
        )
        assert refusal.subject.endswith(why)
        # The same envelope with another width, or a longer window, keeps the spare.
        wider = replace(spare, concurrency=5, end_ms=spare.end_ms + HOUR_MS)
        life.do(Apply((budget("b1", "one", work, wider),)))
        life.do(fail("a0000"), LATER_MS)
        assert life.phase("keeper") is Phase.RUNNING
        assert life.on("keeper") == {"a0001": 4, "a0002": 4}

    def test_a_spare_does_not_come_back_to_a_node_that_is_cordoned(self) -> None:
        life = filled_world()
        life.do(MarkNode("a0002", NodeStatus.CORDONED))
        assert life.filled("keeper") == 4
        life.do(Complete("filler"), LATER_MS + 1)
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (0, 0)

    def test_a_filled_spare_on_a_drained_node_is_given_up(self) -> None:
        life = filled_world(has_executor=True)
        life.do(Drain("a0002"), LATER_MS + 1)
        assert life.filled("keeper") == 0
        assert life.stopping() == ["filler/0"]
        life.do(Confirm("filler/0"), LATER_MS + 2)
        assert life.gpus("keeper", SPARE) == 0

    def test_a_filled_spare_on_a_lost_node_is_given_up_for_its_slots_alone(self) -> None:
        life = one_and_two([node(f"n{number}", 2) for number in range(1, 6)])
        life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
        life.do(Submit(run("filler", 6, "two", group_gpus=2)))
        lost = min({name for c in life.state.pledges.values() for name, _ in c.slots})
        life.do(fail(lost), LATER_MS)
        # The filler waits again, and the spare on the other node is restored.
        assert life.phase("filler") is Phase.PENDING
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (0, 2)
        assert lost not in life.on("keeper", SPARE)


class TestReclaim:
    """A lost node: the filler is stopped, and the spare replaces the lost slots."""

    def test_without_an_executor_all_of_it_is_one_decision(self) -> None:
        life = filled_world()
        decision = life.do(fail("a0000"), LATER_MS + 1)
        assert stops(decision) == [("filler/0", EndReason.RECLAIMED_BY_SPARE)]
        assert [reason for _, reason in ends(decision)] == [
            EndReason.RECLAIMED_BY_SPARE,
            EndReason.FAIL,
            EndReason.SWAP,
        ]
        assert life.on("keeper") == {"a0001": 4, "a0002": 4}
        assert life.phase("filler") is Phase.PENDING
        assert life.state.pledges == {}

    def test_with_an_executor_the_run_waits_until_the_filler_is_gone(self) -> None:
        life = filled_world(has_executor=True)
        decision = life.do(fail("a0000"), LATER_MS + 1)
        assert stops(decision) == [("filler/0", EndReason.RECLAIMED_BY_SPARE)]
        assert ends(decision) == []
        assert life.on("keeper") == {"a0000": 4, "a0001": 4}
        assert life.ask(Tick()).events == ()
        decision = life.do(Confirm("filler/0"), LATER_MS + MINUTE_MS)
        assert life.on("keeper") == {"a0001": 4, "a0002": 4}
        assert life.phase("filler") is Phase.PENDING
        assert not any(isinstance(e, RunRequeued) and e.run == "keeper" for e in decision.events)

    def test_a_filler_that_never_goes_can_be_fenced(self) -> None:
        life = filled_world(has_executor=True)
        life.do(fail("a0000"), LATER_MS + 1)
        life.do(Tick(), LATER_MS + 30 * MINUTE_MS)
        assert life.phase("keeper") is Phase.RUNNING
        # The filler's node is lost, too: no spare is left to wait for.
        life.do(fail("a0002"), LATER_MS + 31 * MINUTE_MS)
        assert life.phase("filler") is Phase.PENDING
        life.do(Confirm("keeper/0"), LATER_MS + 32 * MINUTE_MS)
        assert life.phase("keeper") is Phase.PENDING
        assert life.on("filler") == {"a0001": 4}

    def test_a_node_that_comes_back_while_its_run_waits_comes_back_empty(self) -> None:
        life = filled_world(has_executor=True)
        life.do(fail("a0000"), LATER_MS + 1)
        life.do(MarkNode("a0000", NodeStatus.READY), LATER_MS + 2)
        assert set(life.stopping()) >= {"filler/0"}
        stopping = life.state.runs["keeper"].stopping
        assert stopping is not None
        assert (stopping.outcome, stopping.reason) == (None, EndReason.FAIL)
        for name in life.stopping():
            life.do(Confirm(name), LATER_MS + MINUTE_MS)
        assert life.phase("keeper") is Phase.RUNNING

    def test_the_run_may_end_while_it_waits(self) -> None:
        life = filled_world(has_executor=True)
        life.do(fail("a0000"), LATER_MS + 1)
        life.do(Fail("keeper", "lost a rank", has_gone=True), LATER_MS + 2)
        assert (life.phase("keeper"), life.state.pledges) == (Phase.FAILED, {})
        life.do(Confirm("filler/0"), LATER_MS + 3)

    def test_a_filler_that_is_going_anyway_is_waited_for(self) -> None:
        life = filled_world(has_executor=True)
        life.do(Cancel("filler"), LATER_MS + 1)
        decision = life.do(fail("a0000"), LATER_MS + 2)
        assert stops(decision) == []
        life.do(Confirm("filler/0"), LATER_MS + 3)
        assert life.on("keeper") == {"a0001": 4, "a0002": 4}
        assert life.phase("filler") is Phase.CANCELLED

    def test_nobody_else_stops_for_what_a_filler_that_is_going_anyway_gives_back(self) -> None:
        life = one_and_two([node(f"n{number}", 2) for number in range(4)], has_executor=True)
        life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
        for number, name in enumerate(("old", "new")):
            life.do(Submit(run(name, 2, "two")), NOW_MS + number)
        assert life.filled("keeper") == 4
        life.do(Cancel("old"), LATER_MS)
        assert stops(life.do(fail("n0"), LATER_MS + 1)) == []
        life.do(Confirm("old/0"), LATER_MS + 2)
        assert (life.gpus("keeper"), life.phase("new")) == (4, Phase.RUNNING)

    def test_the_spare_of_a_run_that_waits_is_not_filled(self) -> None:
        nodes = [node("n1", 4), node("n2", 2), node("n3", 2)]
        life = one_and_two(nodes, has_executor=True)
        life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
        life.do(Submit(run("f1", 2, "two")))
        life.do(fail("n1"), LATER_MS)
        assert life.gpus("keeper", SPARE) == 2
        life.do(Submit(run("f2", 2, "two")), LATER_MS + 1)
        assert life.phase("f2") is Phase.PENDING
        life.do(Confirm("f1/0"), LATER_MS + 2)
        assert life.on("keeper") == {"n2": 2, "n3": 2}

    def test_only_as_many_fillers_stop_as_are_needed_newest_first(self) -> None:
        life = one_and_two([node(f"n{number}", 2) for number in range(1, 5)])
        life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=4)))
        for number, at_ms in enumerate((NOW_MS, NOW_MS + 1, NOW_MS + 2)):
            life.do(Submit(run(f"f{number}", 1, "two")), at_ms)
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (3, 1)
        decision = life.do(fail("n1"), LATER_MS)
        assert stops(decision) == [("f2/0", EndReason.RECLAIMED_BY_SPARE)]
        assert life.on("keeper") == {"n2": 2, "n4": 2}
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (2, 0)

    @pytest.mark.parametrize(
        ("lost", "stopped"), [("n1", ["small/0", "narrow/0"]), ("n0", ["wide/0"])]
    )
    def test_no_filler_stops_that_could_be_left_alone(self, lost: str, stopped: list[str]) -> None:
        life = one_and_two([node("n0", 4), node("n1", 2), node("n2", 4), node("n3", 2)])
        life.do(Submit(run("keeper", 6, "one", group_gpus=6, spares_per_group=6)))
        assert life.on("keeper") == {"n0": 4, "n1": 2}
        life.do(Submit(run("wide", 4, "two")), NOW_MS)
        life.do(Submit(run("narrow", 1, "two")), NOW_MS + 1)
        life.do(Submit(run("small", 1, "two")), NOW_MS + 2)
        decision = life.do(fail(lost), LATER_MS)
        assert [name for name, _ in stops(decision)] == stopped

    def test_spares_and_filled_ones_that_do_not_suffice_are_left_alone(self) -> None:
        life = one_and_two(fleet({"A": 12}, gpus=4))
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=2)))
        life.do(Submit(run("filler", 4, "two")))
        assert life.filled("keeper") == 2
        decision = life.do(fail("a0000"), LATER_MS)
        assert stops(decision) == [("keeper/0", EndReason.FAIL)]
        assert (life.phase("filler"), life.state.pledges) == (Phase.RUNNING, {})

    def test_restart_does_not_reclaim(self) -> None:
        life = one_and_two(fleet({"A": 12}, gpus=4))
        keeper = run("keeper", 8, "one", group_gpus=8, spares_per_group=4, replace=Replace.RESTART)
        life.do(Submit(keeper))
        life.do(Submit(run("filler", 4, "two")))
        life.do(fail("a0000"), LATER_MS)
        assert (life.phase("filler"), life.phase("keeper")) == (Phase.RUNNING, Phase.PENDING)
        assert life.state.pledges == {}

    def test_a_malleable_fillers_step_is_reclaimed_and_its_minimum_stays(self) -> None:
        life = one_and_two([node("n1", 2), node("n2", 4), node("n3", 2)])
        life.do(Submit(run("keeper", 2, "one", group_gpus=2, spares_per_group=2)))
        assert life.on("keeper", SPARE) == {"n3": 2}
        life.do(MarkNode("n2", NodeStatus.CORDONED))
        elastic = Malleable(gpus_min=2, gpus_max=4, gpus_step=2, gpus_desired=4)
        life.do(Submit(run("filler", 4, "two", malleable=elastic)))
        assert life.on("filler") == {"n3": 2}
        life.do(MarkNode("n2", NodeStatus.READY))
        assert life.gpus("filler") == 4
        decision = life.do(fail("n1"), LATER_MS)
        # Its minimum is on the spare, so all of it stops; it restarts on free slots.
        assert {name for name, _ in stops(decision)} == {"filler/0", "filler/1"}
        assert life.on("keeper") == {"n3": 2}
        assert life.on("filler") == {"n2": 4}

    def test_where_a_step_of_a_malleable_filler_is_enough_its_minimum_stays(self) -> None:
        life = Life(
            nodes=[node("n0", 8), node("n1", 4), node("n2", 8), node("n3", 4)],
            budgets=[budget(name, name, envelope("e", 64)) for name in ("one", "two")],
            pools=[Pool(name=DEFAULT_POOL, whole_nodes=True)],
        )
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=16)))
        elastic = Malleable(gpus_min=8, gpus_max=12, gpus_step=4, gpus_desired=12)
        life.do(Submit(run("filler", 12, "two", group_gpus=8, malleable=elastic)))
        assert life.on("filler") == {"n1": 4, "n2": 8}
        # The spare without a filler replaces half of the lost GPUs.
        decision = life.do(fail("n0"), LATER_MS)
        assert stops(decision) == [("filler/1", EndReason.RECLAIMED_BY_SPARE)]
        assert (life.on("keeper"), life.on("filler")) == ({"n1": 4, "n3": 4}, {"n2": 8})

    def test_a_fillers_own_spare_goes_without_its_run(self) -> None:
        life = one_and_two([node("m1", 2), node("n1", 2), node("n2", 2)])
        life.do(MarkNode("m1", NodeStatus.CORDONED))
        life.do(Submit(run("keeper", 2, "one", group_gpus=2, spares_per_group=2)))
        life.do(MarkNode("m1", NodeStatus.READY))
        life.do(Submit(run("filler", 2, "two", group_gpus=2, spares_per_group=2)))
        assert (life.on("filler"), life.on("filler", SPARE)) == ({"m1": 2}, {"n2": 2})
        decision = life.do(fail("n1"), LATER_MS)
        assert stops(decision) == []
        assert life.on("keeper") == {"n2": 2}
        assert (life.gpus("filler"), life.gpus("filler", SPARE)) == (2, 0)

    def test_money_that_ends_while_a_run_waits_stops_it(self) -> None:
        hold_ms = HOUR_MS + 2 * MINUTE_MS
        life = Life(
            nodes=fleet({"A": 12}, gpus=4),
            budgets=[
                budget("b1", "one", envelope("e", 12, gpu_ms_max=12 * hold_ms)),
                budget("b2", "two", envelope("e", 4)),
                budget("b3", "three", envelope("e", 64)),
            ],
            owners=[Owner(name="one", parents=("three",))],
            has_executor=True,
        )
        life.do(Submit(run("keeper", 8, "one", group_gpus=8, spares_per_group=4)))
        life.do(Submit(run("filler", 4, "two", expected_duration_ms=5 * HOUR_MS)))
        life.do(fail("a0000"), NOW_MS + 30 * MINUTE_MS)
        # No lease on a lost node is handed over.
        life.do(Tick(), NOW_MS + HOUR_MS)
        stopping = life.state.runs["keeper"].stopping
        assert stopping is not None
        assert stopping.reason is EndReason.BUDGET_EXHAUSTED


class TestCounting:
    """The amounts reserved for spares, and their payers."""

    def test_a_filler_that_would_outstay_the_spares_run_takes_none_where_a_start_is_promised(
        self,
    ) -> None:
        life = one_and_two(fleet({"A": 8}, gpus=4))
        life.do(Apply((Pool(name="default", firm_horizon_ms=2 * HOUR_MS),)))
        life.do(
            Submit(
                run(
                    "keeper",
                    4,
                    "one",
                    group_gpus=4,
                    spares_per_group=4,
                    expected_duration_ms=2 * HOUR_MS,
                )
            )
        )
        life.do(Submit(run("promised", 8, "two", expected_duration_ms=HOUR_MS)))
        assert life.state.reservations
        life.do(Submit(run("long", 2, "two", expected_duration_ms=9 * HOUR_MS)), LATER_MS)
        life.do(Submit(run("short", 2, "two", expected_duration_ms=HOUR_MS)), LATER_MS)
        assert (life.gpus("long"), life.gpus("short"), life.filled("keeper")) == (0, 2, 2)

    def test_the_pledges_of_a_group_are_those_of_its_own_run(self) -> None:
        life = one_and_two(fleet({"A": 6}, gpus=6))
        for name in ("k1", "k2"):
            life.do(Submit(run(name, 2, "one", group_gpus=2, spares_per_group=1)))
        life.do(Submit(run("filler", 2, "two")), LATER_MS)
        assert (life.filled("k1"), life.filled("k2")) == (1, 1)
        for name in ("k1", "k2"):
            assert [c.run for c in pledges_of(life.state, name, "group/0")] == [name]

    def test_a_borrowed_spare_comes_back_within_what_its_run_may_borrow(self) -> None:
        life = Life(
            nodes=fleet({"A": 6}, gpus=6),
            budgets=[
                budget("b1", "one", envelope("e", 4)),
                budget("b2", "two", envelope("e", 4)),
                budget("b3", "rich", envelope("e", 4, lending=lending("one"))),
            ],
        )
        asked = run("keeper", 4, "one", group_gpus=4, spares_per_group=2, funding=borrowing(2))
        life.do(Submit(asked))
        life.do(Submit(run("filler", 2, "two")), LATER_MS)
        assert life.filled("keeper") == 2
        assert {pledge.tier for pledge in life.state.pledges.values()} == {Tier.BORROWED}
        life.do(Complete("filler"), LATER_MS + MINUTE_MS)
        assert (life.filled("keeper"), life.gpus("keeper", SPARE)) == (0, 2)

    def test_what_is_kept_for_filled_spares_is_in_use_as_far_as_its_payer_goes(self) -> None:
        life = Life(
            nodes=[node("n1", 4), node("n2", 4)],
            budgets=[
                budget("b1", "one", envelope("e", 8, gpu_ms_max=20 * HOUR_MS)),
                budget("b2", "two", envelope("e", 8)),
            ],
        )
        asked = run("keeper", 4, "one", group_gpus=4, spares_per_group=4)
        life.do(Submit(replace(asked, expected_duration_ms=HOUR_MS)))
        life.do(Submit(run("filler", 4, "two")))
        assert life.filled("keeper") == 4
        more = run("more", 1, "one", expected_duration_ms=4 * HOUR_MS)
        cover = cover_request(life.state, more, "H100", NOW_MS)
        payer_list = PayerList(life.state, cover, payer_phases(life.state, cover)[-1])
        said = limit_of(payer_list, EnvelopeId("b1/e"), Tier.OWNED)
        assert said == "concurrency 8, 8 in use"


def test_filled_spare_on_a_drained_node_keeps_no_room_elsewhere() -> None:
    life = planned_life(16)
    life.do(Submit(of("runs", 8, "one", 60)))
    life.do(Submit(of("parks", 4, "three", 240, group_gpus=4, spares_per_group=4)))
    life.do(Submit(of("fills", 4, "three", 30)))
    assert life.filled("parks") == 4
    (node_,) = life.on("fills")
    life.do(Submit(of("first", 8, "two", 60)))
    assert firm_ms(life, "first") == NOW_MS + HOUR_MS
    drained = MarkNode(node_, NodeStatus.CORDONED)
    assert moves(life.do(drained, NOW_MS + MINUTE_MS)) == []


def test_filled_spare_is_paid_no_longer_than_its_own_run_runs() -> None:
    life = planned_life(16, budgets=[budget("b-two", "two", envelope("e", 8))])
    life.do(Submit(of("runs", 8, "one", 60)))
    life.do(Submit(of("parks", 4, "two", 60, group_gpus=4, spares_per_group=4)))
    life.do(Submit(of("fills", 4, "three", 120)))
    assert life.filled("parks") == 4
    life.do(Submit(of("first", 8, "two", 60)))
    assert firm_ms(life, "first") == NOW_MS + HOUR_MS
    life.do(Complete("runs"), NOW_MS + HOUR_MS)
    life.do(Complete("parks"))
    assert life.phase("first") is Phase.RUNNING


def test_a_firm_start_that_is_due_is_not_refused_because_a_run_fills_spares() -> None:
    life = planned_life(24, budgets=[budget("b-three", "three", envelope("e", 8))])
    life.do(Submit(of("busy", 8, "two", 240)))
    life.do(Submit(of("keeper", 4, "one", 240, group_gpus=4, spares_per_group=4)))
    life.do(Submit(of("last", 8, "three", 60)))
    life.do(Submit(of("due", 8, "two", 60)))
    life.do(Submit(of("fills", 4, "three", 30)))
    assert firm_ms(life, "due") == NOW_MS + HOUR_MS
    life.do(Complete("last"), NOW_MS + HOUR_MS)
    assert life.filled("keeper") == 4
    assert (life.phase("fills"), life.phase("due")) == (Phase.RUNNING, Phase.RUNNING)
