"""Worked cases that users check a scheduler with, each through ``decide``."""

from __future__ import annotations

import pytest

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Complete, Decision, Submit
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS
from quorate.model.events import LeaseStarted, RunRefused, Tier, lease_gpus
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Budget, Node, Owner, Placement, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    fleet,
    lending,
    node,
    opening,
    run,
)


class RequestContext:
    """A ledger that gets commands and returns their results."""

    def __init__(
        self,
        *,
        nodes: list[Node],
        budgets: list[Budget],
        owners: list[Owner] | None = None,
        pools: list[Pool] | None = None,
    ) -> None:
        self.events = opening(nodes=nodes, owners=owners or [], budgets=budgets, pools=pools or [])
        self.state = State()
        apply_all(self.state, self.events)

    def decide(self, command: Apply | Submit | Complete, *, at_ms: int = NOW_MS) -> Decision:
        """Return the decision, after recording it."""
        decision = decide(self.state, command, now_ms=at_ms, actor="alice")
        apply_all(self.state, decision.events)
        self.events.extend(decision.events)
        assert sweep(self.state) == []
        return decision

    def submit(self, wanted: Run) -> list[LeaseStarted]:
        """Return the leases with which ``wanted`` started at once."""
        decision = self.decide(Submit(wanted))
        assert audit(self.events, view=self.state) == []
        return [event for event in decision.events if isinstance(event, LeaseStarted)]

    def refused(self, wanted: Run) -> Refusal:
        """Return the reason why ``wanted`` has to wait."""
        decision = self.decide(Submit(wanted))
        assert not any(isinstance(event, LeaseStarted) for event in decision.events)
        (found,) = [event for event in decision.events if isinstance(event, RunRefused)]
        return found.refusal

    def free(self) -> dict[str, int]:
        """Return the free GPUs of each domain."""
        return {domain: -free for free, domain in self.state.domain_order("default", "H100")}


def _by_group(leases: list[LeaseStarted]) -> dict[str, tuple[str, int]]:
    """Return the domain and GPUs of each group; node names begin with the domain's letter."""
    found: dict[str, tuple[str, int]] = {}
    for lease in leases:
        (letter,) = {name[0].upper() for name, _ in lease.slots}
        _, gpus = found.get(lease.comp_path, ("", 0))
        found[lease.comp_path] = (letter, gpus + lease_gpus(lease.slots))
    return found


_CLASSIC = [Pool(name="default", placement=Placement.CLASSIC)]


def test_96_in_groups_of_64_over_72_and_48_binds_at_once_as_64_and_32() -> None:
    context = RequestContext(
        nodes=fleet({"A": 72, "B": 48}), budgets=[budget("rai", "rai", envelope("west-h100", 96))]
    )
    leases = context.submit(run("train", 96, "rai", group_gpus=64))
    assert _by_group(leases) == {"group/0": ("A", 64), "group/1": ("B", 32)}


def test_128_in_groups_of_64_over_72_and_48_free_is_refused_with_the_deficit_per_domain() -> None:
    # B has the nodes, but another owner uses two of them: 48 of its 64 GPUs are free.
    money = [budget("rai", "rai", envelope("west-h100", 512)), budget("x", "x", envelope("e", 64))]
    context = RequestContext(nodes=fleet({"A": 72, "B": 64}), budgets=money)
    context.submit(run("other", 16, "x", selector=(("fabric.domain", "B"),)))
    refusal = context.refused(run("train", 128, "rai", group_gpus=64))
    assert (refusal.code, refusal.wanted, refusal.short) == (
        RefusalCode.INSUFFICIENT_CAPACITY,
        128,
        16,
    )
    assert {s.where: (s.wanted, s.available, s.short) for s in refusal.shortages} == {
        "r/c/A": (64, 72, 0),
        "r/c/B": (64, 48, 16),
    }


def test_128_starts_as_soon_as_the_16_missing_gpus_are_free() -> None:
    money = [budget("rai", "rai", envelope("west-h100", 512)), budget("x", "x", envelope("e", 64))]
    context = RequestContext(nodes=fleet({"A": 72, "B": 64}), budgets=money)
    context.submit(run("other", 16, "x", selector=(("fabric.domain", "B"),)))
    context.refused(run("train", 128, "rai", group_gpus=64))
    decision = context.decide(Complete("other"), at_ms=NOW_MS + HOUR_MS)
    leases = [event for event in decision.events if isinstance(event, LeaseStarted)]
    assert _by_group(leases) == {"group/0": ("A", 64), "group/1": ("B", 64)}


def test_40_over_32_and_16_gives_32_and_8_and_leaves_8() -> None:
    context = RequestContext(
        nodes=fleet({"A": 32, "B": 16}),
        budgets=[budget("b", "team", envelope("e", 64))],
        pools=_CLASSIC,
    )
    leases = context.submit(run("sweep", 40))
    assert _by_group(leases) == {"group/0": ("A", 32), "group/1": ("B", 8)}
    assert context.free() == {"r/c/B": 8, "r/c/A": 0}


def test_owned_96_and_borrowed_32_pay_for_128() -> None:
    sponsor = budget("vision", "vision", envelope("spare", 64, lending=lending("team")))
    own = budget("team", "team", envelope("own", 96))
    context = RequestContext(nodes=fleet({"A": 128}), budgets=[own, sponsor])
    wanted = run("train", 128, funding=borrowing(32, "vision"))
    leases = context.submit(wanted)
    paid = {(lease.payer, lease.tier): lease_gpus(lease.slots) for lease in leases}
    assert paid == {("team/own", Tier.OWNED): 96, ("vision/spare", Tier.BORROWED): 32}


def test_borrowing_one_gpu_more_than_allowed_is_refused_and_says_so() -> None:
    sponsor = budget("vision", "vision", envelope("spare", 64, lending=lending("team")))
    own = budget("team", "team", envelope("own", 95))
    context = RequestContext(nodes=fleet({"A": 128}), budgets=[own, sponsor])
    refusal = context.refused(run("train", 128, funding=borrowing(32, "vision")))
    assert (refusal.code, refusal.wanted, refusal.short) == (RefusalCode.BORROW_LIMIT, 128, 1)


def _family() -> RequestContext:
    """Own 8, a sibling's 8 and a parent's 12 make 28; grandparents and cousins never pay."""
    owners = [
        Owner(name="org"),
        Owner(name="lab", parents=("org",)),
        Owner(name="team", parents=("lab",)),
        Owner(name="twin", parents=("lab",)),
        Owner(name="cousin", parents=("org",)),
    ]
    budgets = [
        budget("b-team", "team", envelope("e", 8)),
        budget("b-twin", "twin", envelope("e", 8)),
        budget("b-lab", "lab", envelope("e", 12)),
        budget("b-org", "org", envelope("e", 100)),
        budget("b-cousin", "cousin", envelope("e", 100)),
    ]
    return RequestContext(nodes=fleet({"A": 64}), owners=owners, budgets=budgets)


def test_a_family_that_can_reach_28_pays_for_28() -> None:
    leases = _family().submit(run("r", 28))
    assert {lease.payer: lease_gpus(lease.slots) for lease in leases} == {
        "b-team/e": 8,
        "b-twin/e": 8,
        "b-lab/e": 12,
    }


def test_a_family_that_can_reach_28_does_not_pay_for_29() -> None:
    refusal = _family().refused(run("r", 29))
    assert (refusal.code, refusal.short) == (RefusalCode.INSUFFICIENT_FUNDS, 1)


@pytest.mark.heavy
def test_1250_single_gpu_runs_on_1250_nodes_leave_more_than_1000_nodes_whole() -> None:
    nodes = [node(f"n{number:04d}", 8, f"d{number % 25:02d}") for number in range(1_250)]
    context = RequestContext(nodes=nodes, budgets=[budget("b", "team", envelope("e", 10_000))])
    for number in range(1_250):
        decision = decide(context.state, Submit(run(f"r{number}", 1)), now_ms=NOW_MS, actor="alice")
        assert len([e for e in decision.events if isinstance(e, LeaseStarted)]) == 1
        apply_all(context.state, decision.events)
    used = {node for node, leases in context.state.node_leases.items() if leases}
    assert len(nodes) - len(used) > 1_000
    assert len(used) == 1_250 // 8 + 1
    assert sweep(context.state) == []
