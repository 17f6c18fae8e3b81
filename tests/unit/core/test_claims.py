"""Sensitive claims: whole nodes for one user, paid in advance, never cut, wiped afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.core.commands import (
    Apply,
    Cancel,
    Change,
    Complete,
    Confirm,
    Decision,
    Drain,
    Fail,
    MarkNode,
    Release,
    RemoveOwner,
    Resolve,
    Submit,
    Tick,
    Wiped,
)
from quorate.core.explain.explanation import Explanation, explain
from quorate.core.explain.remedies import RemedyKind
from quorate.core.explain.wipe_remedies import wipe_remedies
from quorate.core.tenancy.tenant_use import uses
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    LeaseStarted,
    NodesClaimed,
    NodeStatus,
    NodeWiped,
    Role,
    RunSubmitted,
    Tier,
)
from quorate.model.refusal import RefusalCode
from quorate.model.specs import (
    Follow,
    Malleable,
    OnQuota,
    Owner,
    Pool,
    Quota,
    Run,
    Sharing,
    System,
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
from tests.oracles.plans import of, planned_life, quiet_pool

HOURS = 4
END_MS = NOW_MS + HOURS * HOUR_MS


def claim(name: str = "c", nodes: int = 1, owner: str = "lab", **more: Any) -> Run:
    fields = {"user": "dr-x", "expected_duration_ms": HOURS * HOUR_MS} | more
    return run(name, 8 * nodes, owner, sensitive=True, checkpoint_ms=MINUTE_MS, **fields)


def ward(nodes: int = 3, *, width: int = 64, **more: Any) -> Life:
    """Return nodes of 8 GPUs, and a lab and a team with separate money."""
    return Life(
        nodes=[node(f"n{number}") for number in range(nodes)],
        budgets=[
            budget("lab", "lab", envelope("e", width)),
            budget("team", "team", envelope("e", 64)),
        ],
        **more,
    )


class TestGranting:
    def test_it_takes_whole_nodes_paid_to_the_end_by_its_owner(self) -> None:
        life = ward()
        decision = life.do(Submit(claim(nodes=2)))
        assert [type(event) for event in decision.events] == [
            RunSubmitted,
            NodesClaimed,
            LeaseStarted,
            LeaseStarted,
        ]
        audit, *leases = decision.events[1:]
        assert audit == NodesClaimed(
            at_ms=NOW_MS, actor="test", claim="c", user="dr-x", nodes=("n0", "n1"), end_ms=END_MS
        )
        for number, fact in enumerate(leases):
            assert isinstance(fact, LeaseStarted)
            assert (fact.role, fact.tier, fact.payer) == (Role.CLAIM, Tier.OWNED, "lab/e")
            assert fact.slots == ((f"n{number}", 0xFF),)
            assert fact.hold_gpu_ms == 8 * HOURS * HOUR_MS
        assert {n.leases for n in life.state.unwiped.values()} == {1}

    def test_a_node_of_two_payers_is_one_node(self) -> None:
        life = Life(
            nodes=[node("n0")],
            budgets=[budget("lab", "lab", envelope("d", 4), envelope("e", 4))],
        )
        life.do(Submit(claim()))
        assert (life.on("c", Role.CLAIM), life.state.unwiped["n0"].leases) == ({"n0": 8}, 2)
        life.do(Release("c"))
        assert life.state.unwiped["n0"].leases == 0

    def test_what_is_not_whole_is_refused(self) -> None:
        life = ward()
        life.do(Submit(run("r", 1, "team")))
        refused = life.ask(Submit(claim(nodes=3)))
        assert refused.refusals[0].code is RefusalCode.INSUFFICIENT_CAPACITY
        assert refused.events == ()
        odd = life.ask(Submit(run("c", 9, "lab", sensitive=True, expected_duration_ms=HOUR_MS)))
        assert odd.refusals[0].code is RefusalCode.INSUFFICIENT_CAPACITY

    @pytest.mark.parametrize("family", ["parent", "sibling", "lender"])
    def test_nobody_elses_money_pays(self, family: str) -> None:
        lines = {
            "parent": budget("org", "org", envelope("e", 64)),
            "sibling": budget("kin", "kin", envelope("e", 64)),
            "lender": budget("rich", "rich", envelope("e", 64, lending=lending())),
        }
        life = Life(
            nodes=[node("n0")],
            owners=[
                Owner(name="org"),
                Owner(name="rich"),
                *(Owner(name=name, parents=("org",)) for name in ("lab", "kin")),
            ],
            budgets=[lines[family], budget("lab", "lab", envelope("e", 4))],
        )
        shared = lines[family].envelopes[0].sharing is Sharing.FAMILY
        assert shared
        refused = life.ask(Submit(claim())).refusals
        assert [found.code for found in refused] == [RefusalCode.INSUFFICIENT_FUNDS]
        assert refused[0].short == 4

    def test_a_payer_must_be_open_to_the_end(self) -> None:
        def with_end(end_ms: int) -> Life:
            line = envelope("e", 64, end_ms=end_ms)
            return Life(nodes=[node("n0")], budgets=[budget("lab", "lab", line)])

        with_end(END_MS).do(Submit(claim()))
        refused = with_end(END_MS - 1).ask(Submit(claim())).refusals
        assert [found.code for found in refused] == [RefusalCode.INSUFFICIENT_FUNDS]

    @pytest.mark.parametrize(
        ("field", "more"),
        [
            ("user", {"user": ""}),
            ("runtime.expectedDuration", {"expected_duration_ms": None}),
            ("runtime.expectedDuration", {"expected_duration_ms": MINUTE_MS}),
            (
                "malleable",
                {"malleable": Malleable(gpus_min=8, gpus_max=8, gpus_step=8, gpus_desired=8)},
            ),
            ("sparesPerGroup", {"spares_per_group": 1}),
            ("locality.groupGPUs", {"group_gpus": 8}),
            ("funding", {"funding": borrowing()}),
            ("onQuota", {"on_quota": OnQuota.WAIT}),
            ("follow", {"follow": Follow(after=("r",))}),
        ],
    )
    def test_what_a_claim_may_not_be_is_named(self, field: str, more: dict[str, Any]) -> None:
        life = ward()
        life.do(Submit(run("r", 1, "team")))
        (refusal,) = life.ask(Submit(claim(**more))).refusals
        assert refusal.code is RefusalCode.INVALID
        assert refusal.subject.startswith(f"Run/c: spec.{field}: ")
        assert refusal.remedy

    def test_it_takes_nothing_that_was_promised(self) -> None:
        life = ward(2)
        life.do(Submit(run("r", 8, "team", expected_duration_ms=HOUR_MS)))
        life.do(Submit(run("wide", 16, "team", expected_duration_ms=HOUR_MS)))
        assert life.state.runs["wide"].reservation is not None
        (refusal,) = life.ask(Submit(claim(expected_duration_ms=30 * MINUTE_MS))).refusals
        assert refusal.code is RefusalCode.RESERVED  # It would end, but not be wiped, in time.

    def test_of_several_in_one_command_all_are_granted_or_none(self) -> None:
        life = ward(2)
        both = life.ask(Apply((claim("c"), claim("d", nodes=2))))
        assert [found.code for found in both.refusals] == [RefusalCode.INSUFFICIENT_CAPACITY]
        assert both.events == ()
        life.do(Apply((claim("c"), claim("d"))))
        assert {life.phase("c"), life.phase("d")} == {Phase.RUNNING}

    def test_the_same_one_again_changes_nothing(self) -> None:
        life = ward()
        life.do(Submit(claim()))
        assert life.do(Submit(claim())).events == ()


class TestLimits:
    def test_all_claims_together_have_a_limit(self) -> None:
        life = ward()
        life.do(Apply((System(sensitive_pool_size=2),)))
        life.do(Submit(claim()))
        (refusal,) = life.ask(Submit(claim("d", nodes=2, owner="team"))).refusals
        assert refusal.code is RefusalCode.SENSITIVE_POOL_SIZE
        assert (refusal.current, refusal.wanted, refusal.limit, refusal.short) == (1, 2, 2, 1)
        life.do(Submit(claim("d")))
        life.do(Apply((System(sensitive_pool_size=0),)))
        assert len(life.state.unwiped) == 2  # Lowering the limit ends nothing.
        life.do(Release("c"))
        life.do(Apply((System(sensitive_pool_size=2),)))
        (refusal,) = life.ask(Submit(claim("e"))).refusals
        assert refusal.current == 2  # A node that is not wiped yet gets no other work.
        life.do(Wiped("n0", is_clean=True))
        life.do(Submit(claim("e")))
        life.do(Apply((System(),)))
        life.do(Submit(claim("f")))

    @pytest.mark.parametrize("several", [False, True])
    def test_no_document_gets_around_it(self, several: bool) -> None:  # noqa: FBT001 - a case
        life = ward()
        life.do(Apply((System(sensitive_pool_size=1 if several else 0),)))
        wanted = (claim("c"), claim("d")) if several else (claim("c"),)
        refused = life.ask(Apply(wanted))
        assert [found.code for found in refused.refusals] == [RefusalCode.SENSITIVE_POOL_SIZE]
        assert refused.events == ()

    def test_no_document_gets_it_onto_a_spare(self) -> None:
        life = ward(2)
        life.do(Submit(run("r", 8, "team", spares_per_group=8)))
        refused = life.ask(Apply((claim("c"),)))
        assert [found.code for found in refused.refusals] == [RefusalCode.INSUFFICIENT_CAPACITY]

    def test_a_document_behind_a_long_queue_and_beside_spares_is_refused_too(self) -> None:
        life = ward(2, width=8, pools=[Pool(name="default", reservation_depth=1)])
        life.do(Submit(run("r", 4, "team", spares_per_group=4)))
        life.do(Submit(run("s", 8, "team")))
        for number in range(2):
            life.do(Submit(run(f"w{number}", 8, "lab", user="dr-x")))
        refused = life.ask(Apply((claim("c"),)))
        assert [found.code for found in refused.refusals] == [RefusalCode.INSUFFICIENT_CAPACITY]
        assert refused.events == ()

    def test_it_counts_as_nodes_and_not_as_a_run(self) -> None:
        quota = Quota(nodes_max=1, concurrent_runs_max=0)
        life = ward(owners=[Owner(name="lab", quota=quota), Owner(name="team")])
        (refusal,) = life.ask(Submit(claim(nodes=2))).refusals
        assert (refusal.code, refusal.limit) == (RefusalCode.MAX_NODES, 1)
        life.do(Submit(claim()))
        assert life.state.holdings.runs.get("lab", 0) == 0
        assert life.state.holdings.nodes["lab"] == 1
        life.do(Release("c"))
        assert life.state.holdings.nodes["lab"] == 1
        (refusal,) = life.ask(Submit(claim("d"))).refusals
        assert (refusal.code, "onQuota" in refusal.remedy) == (RefusalCode.MAX_NODES, False)
        assert life.ask(RemoveOwner("lab")).refusals
        life.do(Wiped("n0", is_clean=True))
        assert life.state.holdings.held() == {}
        life.do(RemoveOwner("lab"))

    def test_tenants_are_told_what_their_limits_count(self) -> None:
        life = ward()
        life.do(Submit(claim()))
        use = uses(life.state)["lab"]
        assert (use.nodes, use.running) == ({"n0"}, set())
        life.do(Release("c"))
        assert uses(life.state)["lab"].nodes == {"n0"}

    def test_a_run_that_waits_for_the_quota_is_woken_by_the_wipe(self) -> None:
        quota = Quota(nodes_max=1)
        life = ward(owners=[Owner(name="lab", quota=quota), Owner(name="team")])
        life.do(Submit(claim()))
        life.do(Submit(run("r", 8, "lab", on_quota=OnQuota.WAIT)))
        life.do(Release("c"))
        assert life.phase("r") is Phase.PENDING
        life.do(Wiped("n0", is_clean=True))
        assert life.phase("r") is Phase.RUNNING


class TestEnding:
    def test_it_is_over_at_its_stated_end_and_charged_to_it(self) -> None:
        life = ward()
        life.do(Submit(claim()))
        assert life.due_ms() == END_MS
        decision = life.do(Tick(), END_MS + HOUR_MS)
        assert ends(decision) == [("c/0", EndReason.END)]
        assert life.phase("c") is Phase.COMPLETED
        assert life.state.envelopes["lab/e"].ended_gpu_ms == 8 * HOURS * HOUR_MS  # type: ignore[index]

    def test_with_an_executor_it_is_told_one_grace_before(self) -> None:
        life = ward(has_executor=True)
        life.do(Submit(claim()))
        assert life.due_ms() == END_MS - MINUTE_MS
        decision = life.do(Tick(), END_MS - MINUTE_MS)
        assert stops(decision) == [("c/0", EndReason.END)]
        assert life.phase("c") is Phase.RUNNING
        life.do(Confirm("c/0"), END_MS)
        assert life.phase("c") is Phase.COMPLETED
        assert life.state.unwiped["n0"].leases == 0

    def test_released_early_it_costs_what_it_had(self) -> None:
        life = ward()
        life.do(Submit(claim(nodes=2)))
        life.do(Release("c", "done"), NOW_MS + HOUR_MS)
        account = life.state.envelopes["lab/e"]  # type: ignore[index]
        assert account.committed_gpu_ms == account.ended_gpu_ms == 16 * HOUR_MS
        assert life.state.runs["c"].note == "done"

    def test_it_can_be_cancelled_too(self) -> None:
        life = ward()
        life.do(Submit(claim()))
        assert ends(life.do(Cancel("c"))) == [("c/0", EndReason.CANCELLED)]
        assert life.state.unwiped["n0"].claim == "c"

    @pytest.mark.parametrize("command", [Complete("c"), Fail("c")])
    def test_work_that_ends_leaves_it_as_it_is(self, command: Complete | Fail) -> None:
        life = ward()
        life.do(Submit(claim()))
        (refusal,) = life.ask(command).refusals
        assert "quorate release c" in refusal.remedy

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("nobody", RefusalCode.UNKNOWN_NAME),
            ("r", RefusalCode.CONFLICT),
            ("done", RefusalCode.NOT_RUNNING),
            ("cancelled", RefusalCode.NOT_RUNNING),
        ],
    )
    def test_only_a_claim_that_is_held_can_be_released(self, name: str, code: RefusalCode) -> None:
        life = ward()
        life.do(Submit(run("r", 1, "team")))
        life.do(Submit(run("done", 1, "team")))
        life.do(Complete("done"))
        life.do(Submit(claim("cancelled")))
        life.do(Cancel("cancelled"))
        assert [found.code for found in life.ask(Release(name)).refusals] == [code]

    def test_one_that_was_released_can_be_released_again(self) -> None:
        life = ward()
        life.do(Submit(claim()))
        life.do(Release("c"))
        again = life.ask(Release("c"))
        assert again == Decision(changes=(("Claim", "c", Change.UNCHANGED),))


class TestWiping:
    def test_nobody_gets_a_node_before_it_is_clean(self) -> None:
        life = ward(1)
        life.do(Submit(claim()))
        life.do(Submit(run("r", 1, "team")))
        life.do(Release("c"))
        life.do(Tick(), NOW_MS + HOUR_MS)
        assert life.phase("r") is Phase.PENDING
        life.do(Wiped("n0", is_clean=True))
        assert life.on("r") == {"n0": 1}

    def test_a_failed_wipe_quarantines_until_somebody_says_clean(self) -> None:
        life = ward(1)
        life.do(Submit(claim()))
        life.do(Submit(run("r", 1, "team")))
        life.do(Release("c"))
        life.do(Wiped("n0", is_clean=False, note="disk 2"))
        assert life.state.unwiped["n0"].is_quarantined
        assert life.do(Wiped("n0", is_clean=False, note="disk 2")).events == ()
        (again,) = life.do(Wiped("n0", is_clean=False, note="disk 3")).events
        assert isinstance(again, NodeWiped)
        assert life.phase("r") is Phase.PENDING
        life.do(Wiped("n0", is_clean=True, note="new disks"))
        assert life.on("r") == {"n0": 1}

    def test_a_late_word_about_an_earlier_claim_frees_nothing(self) -> None:
        life = ward(1)
        life.do(Submit(claim("c")))
        life.do(Release("c"))
        life.do(Wiped("n0", is_clean=True, claim="c"))
        life.do(Submit(claim("d")))
        held = life.ask(Wiped("n0", is_clean=True, claim="d")).refusals
        assert held[0].subject == "claim 'd' of dr-x still has node 'n0'"
        life.do(Release("d"))
        late = life.ask(Wiped("n0", is_clean=True, claim="c")).refusals
        assert late[0].subject == "node 'n0' needs no wipe after claim 'c'"
        life.do(Wiped("n0", is_clean=True, claim="d"))
        assert life.state.unwiped == {}

    def test_ordinary_work_leaves_nothing_to_wipe(self) -> None:
        life = ward(1)
        life.do(Submit(run("r", 8, "team")))
        life.do(Complete("r"))
        (refusal,) = life.ask(Wiped("n0", is_clean=True)).refusals
        assert refusal.subject == "node 'n0' needs no wipe"
        life.do(Submit(run("s", 8, "team")))
        assert life.phase("s") is Phase.RUNNING

    def test_no_status_of_the_machine_makes_it_clean(self) -> None:
        life = ward(1)
        life.do(Submit(claim()))
        life.do(Submit(run("r", 1, "team")))
        life.do(Release("c"))
        for status in (NodeStatus.CORDONED, NodeStatus.FAILED, NodeStatus.READY):
            life.do(MarkNode("n0", status))
        assert life.phase("r") is Phase.PENDING
        life.do(MarkNode("n0", NodeStatus.FAILED))
        life.do(Wiped("n0", is_clean=True))
        assert life.phase("r") is Phase.PENDING
        life.do(MarkNode("n0", NodeStatus.READY))
        assert life.phase("r") is Phase.RUNNING

    def test_a_claimed_node_cannot_grow(self) -> None:
        life = ward(1)
        life.do(Submit(claim()))
        (refusal,) = life.ask(Apply((node("n0", 9),))).refusals
        assert refusal.code is RefusalCode.CONFLICT
        assert "quorate release c" in refusal.remedy

    def test_a_node_declared_anew_is_not_clean_for_that(self) -> None:
        life = ward(1)
        life.do(Submit(claim()))
        life.do(Release("c"))
        life.do(Apply((node("n0", 16, "B"),)))
        (refusal,) = life.ask(Submit(claim("d"))).refusals
        assert refusal.code is RefusalCode.INSUFFICIENT_CAPACITY


class TestNeverCut:
    def test_a_failed_node_leaves_it_the_others(self) -> None:
        life = ward(3, has_executor=True)
        life.do(Submit(claim(nodes=2)))
        decision = life.do(MarkNode("n0", NodeStatus.FAILED))
        assert ends(decision) == [("c/0", EndReason.FAIL)]
        assert (life.on("c", Role.CLAIM), life.phase("c")) == ({"n1": 8}, Phase.RUNNING)
        assert life.state.unwiped["n0"].leases == 0
        life.do(MarkNode("n0", NodeStatus.READY))
        assert "n0" in life.state.unwiped
        life.do(MarkNode("n1", NodeStatus.FAILED))
        assert (life.phase("c"), life.state.runs["c"].note) == (
            Phase.FAILED,
            "its last node failed",
        )

    def test_draining_leaves_it_and_says_so(self) -> None:
        life = ward()
        life.do(Submit(claim()))
        decision = life.do(Drain("n0"))
        assert decision.warnings == (
            "node n0 stays with claim c of dr-x until its end: a claim is never cut",
        )
        assert life.phase("c") is Phase.RUNNING
        assert life.do(Drain("n1")).warnings == ()

    def test_no_room_is_made_of_it(self) -> None:
        life = ward(1)
        life.do(Submit(claim()))
        refused = life.ask(Resolve("default", "H100", (), 8)).refusals
        assert [found.code for found in refused] == [RefusalCode.NOT_RESOLVABLE]

    def test_a_limit_cannot_be_tightened_below_it(self) -> None:
        life = Life(
            nodes=[node("n0"), node("n1")],
            budgets=[budget("lab", "lab", envelope("d", 8), envelope("e", 8))],
        )
        life.do(Submit(claim()))
        tighter = budget("lab", "lab", envelope("d", 4), envelope("e", 8))
        refused = life.ask(Apply((tighter,))).refusals
        assert [found.code for found in refused] == [RefusalCode.NOT_RESOLVABLE]

    def test_a_promise_does_not_count_on_its_nodes(self) -> None:
        life = ward(1)
        life.do(Submit(claim()))
        life.do(Submit(run("r", 8, "team")))
        assert life.state.runs["r"].reservation is None


def test_whoever_waits_for_a_wipe_is_told_so() -> None:
    life = ward(2)
    life.do(Submit(claim(nodes=2)))
    life.do(Submit(run("r", 8, "team")))
    life.do(Release("c"))
    found = explain(life.state, "r", life.now_ms)
    assert isinstance(found, Explanation)
    (remedy,) = [each for each in found.remedies if each.kind is RemedyKind.WIPE_NODE]
    assert remedy.command == ("quorate", "node", "wiped", "n0", "--after", "c")
    life.do(remedy.trial)
    assert life.phase("r") is Phase.RUNNING


@pytest.mark.parametrize(
    ("others", "flavor", "named"),
    [(7, "H100", ["n9"]), (8, "H100", []), (8, "A100", ["n9"])],
    ids=["as many as may be", "one too many", "none that could be of use"],
)
def test_no_more_nodes_are_tried_for_a_wipe_that_helps_than_may_be(
    others: int, flavor: str, named: list[str]
) -> None:
    small = [node(f"n{number}", 1, flavor=flavor) for number in range(others)]
    money = [budget(name, name, envelope("e", 64)) for name in ("lab", "team")]
    more = budget("more", "lab", envelope("a", 64, flavor="A100"))
    life = Life(nodes=[*small, node("n9")], budgets=[*money, more])
    lone = {"sensitive": True, "expected_duration_ms": HOUR_MS}
    life.do(Submit(run("c0", others, "lab", flavors=(flavor,), **lone)))
    life.do(Submit(run("c1", 8, "lab", **lone)))
    life.do(Submit(run("r", 8, "team")))
    for name in ("c0", "c1"):
        life.do(Release(name))
    remedies = wipe_remedies(life.state, life.state.runs["r"].spec, life.now_ms)
    assert [remedy.target_name for remedy in remedies] == named


def test_claim_that_is_applied_behind_the_depth_beside_idle_spares_is_granted() -> None:
    life = planned_life(nodes=fleet({"A": 16, "B": 8}), pool=quiet_pool(reservation_depth=1))
    here = (("fabric.domain", "A"),)
    parks = of("parks", 4, "three", selector=here, group_gpus=4, spares_per_group=4)
    life.do(Submit(parks))
    life.do(Submit(of("waits", 16, "two", selector=here)))
    life.do(Apply((of("claim", 8, "one", sensitive=True),)))
    assert life.phase("claim") is Phase.RUNNING
