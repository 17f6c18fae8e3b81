"""The usage records, compared with cases computed by hand; BL-.. are cases of other systems."""

from __future__ import annotations

from fractions import Fraction

import pytest

from quorate.core.accounting.integral import Integral
from quorate.core.accounting.usage_books import BudgetUse, Usage, UsageBooks, budget_uses
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    Outcome,
    OwnerApplied,
    OwnerRemoved,
    PledgeClosed,
    Role,
    RunEnded,
    RunRequeued,
    RunSubmitted,
    SpareFilled,
    StartReason,
    Tier,
)
from quorate.model.specs import EnvelopeId, Owner, Quota
from quorate.testing.builders import NOW_MS, node, run

START_MS = NOW_MS - 200 * DAY_MS


class Ledger:
    """Records events with short calls; ``books`` have all of them."""

    def __init__(self, *, nodes: int = 10, gpus: int = 4, window_ms: int | None = None) -> None:
        self.books = UsageBooks(window_ms=window_ms)
        self.gpus = gpus
        for number in range(nodes):
            self.has_node(f"n{number}", gpus)

    def tell(self, event: Event) -> None:
        self.books.fold(event)

    def has_node(self, name: str, gpus: int, flavor: str = "H100") -> None:
        spec = node(name, gpus, flavor=flavor)
        self.tell(NodeApplied(at_ms=START_MS, actor="t", node=spec))

    def submit(self, name: str, owner: str = "physics", user: str = "alice") -> None:
        spec = run(name, 1, owner, user=user)
        self.tell(RunSubmitted(at_ms=START_MS, actor="t", run=spec))

    def start(
        self,
        lease: str,
        *nodes: str,
        at_ms: int,
        gpus: int | None = None,
        role: Role = Role.ACTIVE,
        told_ms: int | None = None,
    ) -> None:
        count = self.gpus if gpus is None else gpus
        self.tell(
            LeaseStarted(
                at_ms=at_ms if told_ms is None else told_ms,
                actor="t",
                lease=lease,
                run=lease.partition("/")[0],
                partner=None,
                comp_path="group/0",
                bundle=0,
                role=role,
                slots=tuple((name, (1 << count) - 1) for name in nodes),
                payer=EnvelopeId("b/e"),
                tier=Tier.OWNED,
                hold_gpu_ms=0,
                start_ms=at_ms,
                reason=StartReason.START,
            )
        )

    def end(self, lease: str, end_ms: int, *, told_ms: int | None = None) -> None:
        at_ms = end_ms if told_ms is None else told_ms
        reason = EndReason.END
        self.tell(LeaseEnded(at_ms=at_ms, actor="t", lease=lease, reason=reason, end_ms=end_ms))

    def used(self, owner: str = "physics", *, days: int = 90) -> Usage:
        return self.books.owner(owner, from_ms=NOW_MS - days * DAY_MS, until_ms=NOW_MS)


def _ran(hours: int, nodes: int, *, ended: bool = True, gpus: int = 4) -> Usage:
    """Return the usage of one run of ``hours`` hours on ``nodes`` nodes, up to now."""
    ledger = Ledger(gpus=gpus)
    ledger.submit("r")
    ledger.start("r/0", *(f"n{i}" for i in range(nodes)), at_ms=NOW_MS - hours * HOUR_MS)
    if ended:
        ledger.end("r/0", NOW_MS)
    return ledger.used()


@pytest.mark.parametrize("ended", [True, False], ids=["completed", "running"])
def test_completed_and_running_work_counts_alike_bl_01_bl_28_bl_34(ended: bool) -> None:  # noqa: FBT001
    assert _ran(10, 4, ended=ended).gpu_ms == 160 * HOUR_MS  # BL-01
    both = _ran(10, 2, ended=ended)
    assert (both.gpu_ms, both.node_ms) == (80 * HOUR_MS, 20 * HOUR_MS)  # BL-28


def test_the_worse_fraction_wins_bl_22() -> None:
    quota = Quota(gpu_ms_budget=10_000 * HOUR_MS, node_ms_budget=25 * HOUR_MS)
    uses = budget_uses(quota, _ran(10, 2))
    assert uses is not None
    assert uses.worse.fraction == Fraction(4, 5)
    assert uses.worse is uses.node
    assert uses.gpu is not None
    assert uses.gpu.fraction == Fraction(80, 10_000)


def test_a_running_run_counts_up_to_now_bl_24() -> None:
    uses = budget_uses(Quota(node_ms_budget=1_000 * HOUR_MS), _ran(5, 1, ended=False))
    assert uses is not None
    assert uses.worse.fraction == Fraction(5, 1_000)


def test_what_ended_before_the_period_does_not_count_bl_25() -> None:
    ledger = Ledger()
    ledger.submit("r")
    ledger.start("r/0", "n0", at_ms=NOW_MS - 100 * DAY_MS)
    ledger.end("r/0", NOW_MS - 99 * DAY_MS)
    assert ledger.used() == Usage(gpu_ms=0, node_ms=0, flavors=())
    assert ledger.used(days=101).node_ms == DAY_MS


def test_without_a_budget_there_is_no_entry_bl_26() -> None:
    assert budget_uses(Quota(nodes_max=3), _ran(1, 1)) is None


def test_gpus_are_those_given_at_the_start_bl_27() -> None:
    # In other systems a node outside the inventory counts as one GPU. Here a lease has its slots,
    # so its GPUs at its start are known for ever, whatever happens to the node.
    ledger = Ledger(gpus=1)
    ledger.submit("r")
    ledger.start("r/0", "n0", at_ms=NOW_MS - 10 * HOUR_MS)
    ledger.has_node("n0", 8, flavor="B200")
    used = ledger.used()
    assert (used.gpu_ms, used.flavors) == (10 * HOUR_MS, (("H100", 10 * HOUR_MS),))


def test_a_service_that_is_older_than_the_period_counts_for_all_of_it_bl_31() -> None:
    ledger = Ledger()
    ledger.submit("service")
    ledger.start("service/0", *(f"n{i}" for i in range(10)), at_ms=NOW_MS - 120 * DAY_MS)
    assert ledger.used().node_ms == 21_600 * HOUR_MS


def test_a_requeue_keeps_what_was_used_bl_32() -> None:
    ledger = Ledger()
    ledger.submit("r")
    ledger.start("r/0", "n0", "n1", "n2", "n3", at_ms=NOW_MS - 30 * HOUR_MS)
    ledger.end("r/0", NOW_MS - 10 * HOUR_MS)
    ledger.tell(RunRequeued(at_ms=NOW_MS, actor="t", run="r", reason=EndReason.FAIL))
    assert ledger.used().node_ms == 80 * HOUR_MS
    ledger.start("r/1", "n4", at_ms=NOW_MS - 1 * HOUR_MS)
    assert ledger.used().node_ms == 81 * HOUR_MS


@pytest.mark.parametrize(
    ("used", "budget", "fraction", "over"),
    [
        (0, 10, Fraction(0), False),
        (9, 10, Fraction(9, 10), False),
        (10, 10, Fraction(1), True),
        (12, 10, Fraction(6, 5), True),
        (0, 0, Fraction(0), False),
        (1, 0, None, True),  # BL-33: a budget of zero counts as no budget.
    ],
)
def test_how_much_of_a_budget_is_used(
    used: int,
    budget: int,
    fraction: Fraction | None,
    over: bool,  # noqa: FBT001
) -> None:
    use = BudgetUse(used_ms=used, budget_ms=budget)
    assert use.fraction == fraction
    assert use.reaches(100) is over


def test_use_of_an_empty_budget_is_worse_than_any_other() -> None:
    usage = Usage(gpu_ms=1, node_ms=10**9, flavors=())
    uses = budget_uses(Quota(gpu_ms_budget=0, node_ms_budget=1), usage)
    assert uses is not None
    assert uses.worse is uses.gpu
    swapped = budget_uses(Quota(gpu_ms_budget=1, node_ms_budget=0), usage)
    assert swapped is not None
    assert swapped.worse is swapped.node


def test_a_period_clips_a_lease_at_both_ends() -> None:
    ledger = Ledger(gpus=3)
    ledger.submit("r")
    ledger.start("r/0", "n0", at_ms=1_000_000)
    ledger.end("r/0", 2_000_000)
    for from_ms, until_ms, ms in (
        (0, 3_000_000, 1_000_000),
        (1_400_000, 1_400_001, 1),
        (1_999_999, 2_000_001, 1),
        (999_999, 1_000_001, 1),
        (2_000_000, 2_000_005, 0),
        (5, 1_000_000, 0),
        (1_500_000, 1_500_000, 0),
    ):
        found = ledger.books.owner("physics", from_ms=from_ms, until_ms=until_ms)
        assert (found.gpu_ms, found.node_ms) == (3 * ms, ms)


def test_a_node_that_two_leases_share_counts_once_and_their_gpus_twice() -> None:
    ledger = Ledger(gpus=2)
    ledger.submit("a", user="alice")
    ledger.submit("b", user="bob")
    ledger.start("a/0", "n0", at_ms=NOW_MS - 10)
    ledger.start("b/0", "n0", "n1", at_ms=NOW_MS - 4)
    ledger.end("a/0", NOW_MS - 2)
    assert ledger.used() == Usage(gpu_ms=16 + 16, node_ms=10 + 4, flavors=(("H100", 32),))
    found = ledger.books.users(owner="physics", from_ms=NOW_MS - 10, until_ms=NOW_MS)
    assert [(u.user, u.usage.gpu_ms, u.usage.node_ms) for u in found] == [
        ("alice", 16, 8),
        ("bob", 16, 8),
    ]


def test_an_end_told_late_uncovers_what_lay_under_it() -> None:
    # Before its end is reported, the long lease covers the whole time; then there is a gap.
    ledger = Ledger(gpus=1)
    ledger.submit("a")
    ledger.start("a/0", "n0", at_ms=100)
    ledger.start("a/1", "n0", at_ms=120)
    ledger.end("a/1", 130)
    books = ledger.books
    assert books.owner("physics", from_ms=0, until_ms=140).node_ms == 40
    ledger.end("a/0", 105, told_ms=140)
    assert books.owner("physics", from_ms=0, until_ms=140) == Usage(
        gpu_ms=15, node_ms=15, flavors=(("H100", 15),)
    )


def test_spares_and_claims_count() -> None:
    ledger = Ledger(gpus=2)
    ledger.submit("r")
    ledger.start("r/0", "n0", at_ms=NOW_MS - 5, role=Role.SPARE)
    ledger.start("r/1", "n1", at_ms=NOW_MS - 5, role=Role.CLAIM)
    used = ledger.used()
    assert (used.gpu_ms, used.node_ms) == (20, 10)


def test_a_filled_spare_keeps_its_node_for_its_owner_and_its_gpus_are_the_fillers() -> None:
    ledger = Ledger(gpus=1)
    ledger.submit("r")
    ledger.submit("filler", owner="biology", user="bob")
    ledger.start("r/0", "n0", at_ms=NOW_MS - 10, role=Role.SPARE)
    filled_ms = NOW_MS - 6
    ledger.tell(
        SpareFilled(
            at_ms=filled_ms,
            actor="t",
            pledge="r/0#0",
            lease="r/0",
            filler="filler",
            slots=(("n0", 1),),
            hold_gpu_ms=0,
        )
    )
    ledger.end("r/0", filled_ms)
    ledger.start("filler/0", "n0", at_ms=filled_ms)
    ledger.end("filler/0", NOW_MS - 2)
    ledger.tell(PledgeClosed(at_ms=NOW_MS - 2, actor="t", pledge="r/0#0"))
    mine, theirs = ledger.used(), ledger.used("biology")
    assert (mine.gpu_ms, mine.node_ms) == (4, 8)
    assert (theirs.gpu_ms, theirs.node_ms) == (4, 4)


def test_a_family_counts_everybody_below_once() -> None:
    ledger = Ledger(gpus=1)
    parents = {"top": (), "left": ("top",), "right": ("top",), "low": ("left", "right")}
    for name, above in parents.items():
        owner = Owner(name=name, parents=above)
        ledger.tell(OwnerApplied(at_ms=START_MS, actor="t", owner=owner))
    for name in ("left", "low"):
        ledger.submit(f"of-{name}", owner=name)
        ledger.start(f"of-{name}/0", "n0", at_ms=NOW_MS - 10)
    books = ledger.books
    found = {
        name: books.family(name, from_ms=NOW_MS - 20, until_ms=NOW_MS).gpu_ms for name in parents
    }
    assert found == {"top": 20, "left": 20, "right": 10, "low": 10}
    assert books.family("top", from_ms=NOW_MS - 20, until_ms=NOW_MS).node_ms == 10
    assert books.owner("top", from_ms=NOW_MS - 20, until_ms=NOW_MS).gpu_ms == 0
    ledger.tell(OwnerRemoved(at_ms=NOW_MS, actor="t", owner="low"))
    assert books.family("top", from_ms=NOW_MS - 20, until_ms=NOW_MS).gpu_ms == 10


def test_flavors_are_told_apart() -> None:
    ledger = Ledger(gpus=2)
    ledger.has_node("old", 8, flavor="A100")
    ledger.submit("r")
    ledger.start("r/0", "n0", at_ms=NOW_MS - 3)
    ledger.start("r/1", "old", at_ms=NOW_MS - 2, gpus=8)
    assert ledger.used().flavors == (("A100", 16), ("H100", 6))


@pytest.mark.slow
def test_books_of_a_window_do_not_grow_with_the_ledger() -> None:
    ledger = Ledger(gpus=1, window_ms=1_000)
    sizes = set()
    for number in range(4_000):
        at_ms = START_MS + number * 10
        ledger.submit(f"r{number}", owner=f"o{number}", user=f"u{number}")
        ledger.start(f"r{number}/0", f"n{number % 10}", at_ms=at_ms)
        ledger.end(f"r{number}/0", at_ms + 10)
        over = RunEnded(at_ms=at_ms + 10, actor="t", run=f"r{number}", outcome=Outcome.COMPLETED)
        ledger.tell(over)
        if number > 200:
            books = ledger.books
            sizes.add(max(len(each) for each in (books._owners, books._users, books._runs)))
    assert max(sizes) < 120
    end_ms = START_MS + 40_000
    window = [
        ledger.books.owner(f"o{n}", from_ms=end_ms - 1_000, until_ms=end_ms) for n in range(4_000)
    ]
    assert sum(used.gpu_ms for used in window) == 1_000


def test_a_meter_forgets_and_stays_right() -> None:
    meter = Integral()
    meter.add(10, 2)
    meter.add(20, -1)
    meter.add(30, -1)
    assert meter.used(0, 40) == 30
    meter.forget(15)
    assert meter.used(15, 40) == 20
    meter.add(12, -2)  # A late report about a forgotten period still counts afterwards.
    meter.add(35, 2)
    assert meter.used(15, 30) == -10
    assert not meter.is_empty


def test_a_meter_that_was_told_nothing_has_counted_nothing() -> None:
    assert Integral().used(0, 10) == 0
