"""Lost nodes: swap, shrink, requeue (docs/design/lifecycle.md), including defects of Jobtree."""

from __future__ import annotations

import pytest

from quorate.core.audit.invariants import sweep
from quorate.core.commands import (
    Cancel,
    Command,
    Complete,
    Confirm,
    Decision,
    Drain,
    MarkNode,
    Shrink,
    Submit,
    Tick,
)
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeStatus,
    Role,
    RunRequeued,
    StartReason,
)
from quorate.model.specs import Malleable, Replace, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run, world

LATER_MS = NOW_MS + 10 * MINUTE_MS


class Fleet:
    """A state, and commands given to it in order; every invariant holds after each."""

    def __init__(self, state: State, *, has_executor: bool = False) -> None:
        self.state = state
        self.has_executor = has_executor

    def do(self, command: Command, at_ms: int = NOW_MS) -> Decision:
        decision = decide(
            self.state, command, now_ms=at_ms, actor="test", has_executor=self.has_executor
        )
        assert not decision.refusals, decision.refusals
        apply_all(self.state, decision.events)
        assert sweep(self.state) == []
        return decision

    def slots(self, name: str, role: Role = Role.ACTIVE) -> dict[str, int]:
        """Return the GPUs of a run on each node in one role."""
        found: dict[str, int] = {}
        for lease in self.state.runs[name].leases:
            fact = self.state.leases[lease].fact
            if fact.role is role:
                for place, mask in fact.slots:
                    found[place] = found.get(place, 0) + mask.bit_count()
        return found

    def phase(self, name: str) -> Phase:
        return self.state.runs[name].phase

    def gpus(self, name: str) -> int:
        return sum(self.slots(name).values())


def new_fleet(gpus: dict[str, int], *, concurrency: int = 64, has_executor: bool = False) -> Fleet:
    state = world(nodes=fleet(gpus), budgets=[budget("b", "team", envelope("e", concurrency))])
    return Fleet(state, has_executor=has_executor)


def fail(name: str) -> MarkNode:
    return MarkNode(name, NodeStatus.FAILED)


def elastic(least: int, most: int, step: int) -> Malleable:
    return Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=most)


def test_a_spare_in_the_groups_domain_takes_over_at_full_width() -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 16, group_gpus=16, spares_per_group=8)))
    assert world_.slots("r", Role.SPARE) == {"a0002": 8}
    decision = world_.do(fail("a0000"), LATER_MS)
    assert world_.slots("r") == {"a0001": 8, "a0002": 8}
    assert world_.slots("r", Role.SPARE) == {}
    assert world_.phase("r") is Phase.RUNNING
    ended = [event.reason for event in decision.events if isinstance(event, LeaseEnded)]
    started = [event.reason for event in decision.events if isinstance(event, LeaseStarted)]
    assert sorted(ended) == [EndReason.FAIL, EndReason.SWAP]
    assert set(started) == {StartReason.SWAP}


def test_a_spare_narrower_than_what_was_lost_is_not_swapped_in() -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 16, group_gpus=16, spares_per_group=2)))
    decision = world_.do(fail("a0000"), LATER_MS)
    assert any(isinstance(event, RunRequeued) for event in decision.events)
    # Two whole nodes are left, but no room for the spares: it waits, and names the shortage.
    assert world_.phase("r") is Phase.PENDING
    assert world_.state.runs["r"].leases == {}


def test_what_is_left_of_a_wider_spare_stays_one() -> None:
    state = world(
        nodes=[node(name, 4) for name in ("n1", "n2", "n3")],
        budgets=[budget("b", "team", envelope("e", 64))],
    )
    world_ = Fleet(state)
    world_.do(Submit(run("r", 4, group_gpus=4, spares_per_group=6)))
    assert world_.slots("r") == {"n1": 4}
    assert world_.slots("r", Role.SPARE) == {"n2": 4, "n3": 2}
    world_.do(fail("n1"), LATER_MS)
    assert world_.slots("r") == {"n2": 4}
    assert world_.slots("r", Role.SPARE) == {"n3": 2}


def test_a_lost_spare_ends_and_the_run_goes_on() -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 16, group_gpus=16, spares_per_group=8)))
    world_.do(fail("a0002"), LATER_MS)
    assert world_.gpus("r") == 16
    assert world_.slots("r", Role.SPARE) == {}


def test_a_swap_holds_no_more_than_was_held() -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 16, group_gpus=16, spares_per_group=8)))
    before = world_.state.envelopes[next(iter(world_.state.envelopes))].committed_gpu_ms
    world_.do(fail("a0000"), LATER_MS)
    after = world_.state.envelopes[next(iter(world_.state.envelopes))].committed_gpu_ms
    assert after < before


def test_a_malleable_run_loses_the_step_on_the_failed_node_and_no_more() -> None:
    # Jobtree failed the whole run: 24 wide, minimum 8, losing 8.
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 24, malleable=elastic(8, 24, 8), group_gpus=8)))
    last = max(world_.slots("r"))
    world_.do(fail(last), LATER_MS)
    assert world_.gpus("r") == 16
    assert world_.phase("r") is Phase.RUNNING


def test_a_step_takes_the_place_of_a_lost_group_of_the_minimum() -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 24, malleable=elastic(8, 24, 8), group_gpus=8)))
    core = next(
        lease.fact.slots[0][0] for lease in world_.state.leases.values() if lease.fact.bundle == 0
    )
    world_.do(fail(core), LATER_MS)
    assert world_.gpus("r") == 16
    assert {lease.fact.bundle for lease in world_.state.leases.values()} == {0, 1}


def test_without_spare_or_step_the_run_waits_again_and_holds_nothing() -> None:
    # Jobtree left open leases with 16 GPUs.
    world_ = new_fleet({"A": 16})
    world_.do(Submit(run("r", 16)))
    world_.do(fail("a0000"), LATER_MS)
    record = world_.state.runs["r"]
    assert (record.phase, record.leases, dict(world_.state.leases)) == (Phase.PENDING, {}, {})
    world_.do(MarkNode("a0000", NodeStatus.READY), LATER_MS + 1)
    assert world_.gpus("r") == 16


def test_restart_skips_spares_and_steps() -> None:
    world_ = new_fleet({"A": 32})
    world_.do(Submit(run("r", 16, group_gpus=16, spares_per_group=8, replace=Replace.RESTART)))
    decision = world_.do(fail("a0000"), LATER_MS)
    assert any(isinstance(event, RunRequeued) for event in decision.events)
    assert world_.gpus("r") == 16  # It fits elsewhere and restarts at once.


def test_nothing_is_placed_on_a_node_that_is_cordoned_or_failed() -> None:
    world_ = new_fleet({"A": 16})
    world_.do(MarkNode("a0000", NodeStatus.CORDONED))
    world_.do(Submit(run("r", 8)))
    assert world_.slots("r") == {"a0001": 8}
    world_.do(Submit(run("s", 1)))
    assert world_.phase("s") is Phase.PENDING
    world_.do(MarkNode("a0000", NodeStatus.READY))
    assert world_.slots("s") == {"a0000": 1}


def test_a_cordoned_node_keeps_its_work_and_gives_its_slots_back_when_ready() -> None:
    world_ = new_fleet({"A": 8})
    world_.do(Submit(run("r", 4)))
    world_.do(MarkNode("a0000", NodeStatus.CORDONED))
    assert world_.gpus("r") == 4
    world_.do(Complete("r"), LATER_MS)
    assert [-free for free, _ in world_.state.domain_order("default", "H100")] == [0]
    world_.do(MarkNode("a0000", NodeStatus.READY), LATER_MS)
    assert [-free for free, _ in world_.state.domain_order("default", "H100")] == [8]


def test_marking_a_node_as_it_is_changes_nothing() -> None:
    world_ = new_fleet({"A": 8})
    assert world_.do(MarkNode("a0000", NodeStatus.READY)).events == ()
    world_.do(fail("a0000"))
    assert world_.do(fail("a0000")).events == ()


def test_draining_stops_what_is_there_and_moves_it() -> None:
    world_ = new_fleet({"A": 16})
    world_.do(Submit(run("r", 8)))
    (home,) = world_.slots("r")
    decision = world_.do(Drain(home), LATER_MS)
    reasons = {event.reason for event in decision.events if isinstance(event, LeaseEnded)}
    assert reasons == {EndReason.DRAINED}
    assert home not in world_.slots("r")
    assert world_.gpus("r") == 8


@pytest.mark.parametrize("gpus", [8, 16])
def test_a_run_shrinks_by_whole_steps_highest_first(gpus: int) -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 24, malleable=elastic(8, 24, 8))))
    world_.do(Shrink("r", gpus), LATER_MS)
    assert world_.gpus("r") == gpus
    assert {
        lease.fact.bundle for lease in world_.state.leases.values() if lease.fact.run == "r"
    } == (set(range(1 + (gpus - 8) // 8)))


@pytest.mark.parametrize(("malleable", "gpus"), [(elastic(8, 24, 8), 12), (None, 8)])
def test_shrinking_off_the_grid_or_a_fixed_run_is_refused(
    malleable: Malleable | None, gpus: int
) -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 24, malleable=malleable)))
    decision = decide(world_.state, Shrink("r", gpus), now_ms=LATER_MS, actor="test")
    assert decision.refusals
    assert not decision.events


def test_a_run_grows_by_steps_up_to_what_it_desires_when_nobody_waits() -> None:
    world_ = new_fleet({"A": 32})
    world_.do(Submit(run("other", 16)))
    world_.do(Submit(run("r", 16, malleable=elastic(8, 24, 8))))
    assert world_.gpus("r") == 16
    world_.do(Complete("other"), LATER_MS)
    assert world_.gpus("r") == 24
    reasons = [lease.fact.reason for lease in world_.state.leases.values()]
    assert reasons.count(StartReason.GROW) == 1
    # The same gap is never filled twice.
    assert world_.do(Tick(), LATER_MS + 1).events == ()


def test_a_run_grows_to_what_it_desires_in_the_decision_that_starts_it() -> None:
    world_ = new_fleet({"A": 32})
    world_.do(Submit(run("r", 8, malleable=elastic(8, 24, 8))))
    assert world_.gpus("r") == 24


@pytest.mark.heavy
def test_a_run_grows_while_another_waits_whose_planned_start_that_leaves_where_it_is() -> None:
    world_ = new_fleet({"A": 32})
    world_.do(Submit(run("other", 16, checkpoint_ms=0)))
    world_.do(Submit(run("r", 16, malleable=elastic(8, 24, 8), checkpoint_ms=0)))
    world_.do(Submit(run("wide", 32)))
    planned_ms = world_.state.reservations["wide@1"].planned_start_ms
    world_.do(Complete("other"), LATER_MS)
    assert world_.gpus("r") == 24
    assert world_.state.reservations["wide@1"].planned_start_ms == planned_ms


class TestWithAnExecutor:
    """Stops are two facts: slots are free only when the executor confirms."""

    def started(self, asked: Run, gpus: dict[str, int] | None = None) -> Fleet:
        world_ = new_fleet(gpus or {"A": 8}, has_executor=True)
        world_.do(Submit(asked))
        return world_

    def test_a_cancelled_run_keeps_its_slots_until_it_is_gone(self) -> None:
        world_ = self.started(run("r", 8, checkpoint_ms=3 * MINUTE_MS))
        world_.do(Submit(run("next", 8)))
        decision = world_.do(Cancel("r"), LATER_MS)
        (ending,) = [event for event in decision.events if isinstance(event, LeaseEnding)]
        assert ending.deadline_ms == LATER_MS + 3 * MINUTE_MS
        assert world_.phase("r") is Phase.RUNNING
        assert world_.phase("next") is Phase.PENDING
        world_.do(Confirm("r/0"), LATER_MS + MINUTE_MS)
        assert world_.phase("r") is Phase.CANCELLED
        assert world_.phase("next") is Phase.RUNNING

    def test_a_second_confirmation_changes_nothing(self) -> None:
        world_ = self.started(run("r", 8))
        world_.do(Cancel("r"), LATER_MS)
        world_.do(Confirm("r/0"), LATER_MS)
        assert world_.do(Confirm("r/0"), LATER_MS).events == ()

    def test_what_was_not_told_to_stop_cannot_be_confirmed(self) -> None:
        world_ = self.started(run("r", 8))
        decision = decide(
            world_.state, Confirm("r/0"), now_ms=LATER_MS, actor="t", has_executor=True
        )
        assert decision.refusals

    def test_a_failed_node_confirms_for_its_own_work(self) -> None:
        world_ = self.started(run("r", 8))
        world_.do(Cancel("r"), LATER_MS)
        world_.do(fail("a0000"), LATER_MS + 1)
        assert world_.phase("r") is Phase.CANCELLED

    def test_a_requeued_run_waits_until_the_last_process_is_gone(self) -> None:
        world_ = self.started(run("r", 16), {"A": 24})
        lost = next(iter(world_.slots("r")))
        world_.do(fail(lost), LATER_MS)
        assert world_.phase("r") is Phase.RUNNING
        world_.do(Confirm("r/0"), LATER_MS + 1)
        assert lost not in world_.slots("r")
        assert world_.gpus("r") == 16

    def test_money_that_ends_stops_the_work_one_grace_before(self) -> None:
        hold_ms = HOUR_MS + 2 * MINUTE_MS
        line = envelope("e", 8, gpu_ms_max=8 * hold_ms)
        world_ = Fleet(
            world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", line)]), has_executor=True
        )
        world_.do(Submit(run("r", 8, expected_duration_ms=HOUR_MS)))
        assert world_.do(Tick(), NOW_MS + HOUR_MS - 1).events == ()
        decision = world_.do(Tick(), NOW_MS + HOUR_MS)
        (ending,) = [event for event in decision.events if isinstance(event, LeaseEnding)]
        assert (ending.reason, ending.deadline_ms) == (
            EndReason.BUDGET_EXHAUSTED,
            NOW_MS + hold_ms,
        )
        # However late the confirmation is, no payer is charged more than the hold.
        world_.do(Confirm("r/0"), NOW_MS + 5 * HOUR_MS)
        account = next(iter(world_.state.envelopes.values()))
        assert account.committed_gpu_ms == 8 * hold_ms
        assert world_.phase("r") is Phase.PENDING

    def test_a_cancelled_run_stays_cancelled_when_its_node_is_drained(self) -> None:
        world_ = self.started(run("r", 8), {"A": 16})
        (home,) = world_.slots("r")
        world_.do(Cancel("r"), LATER_MS)
        world_.do(Drain(home), LATER_MS + 1)
        world_.do(Confirm("r/0"), LATER_MS + 2)
        assert world_.phase("r") is Phase.CANCELLED

    def test_a_run_that_is_put_back_can_still_be_cancelled(self) -> None:
        world_ = self.started(run("r", 8), {"A": 16})
        (home,) = world_.slots("r")
        world_.do(Drain(home), LATER_MS)
        world_.do(Cancel("r"), LATER_MS + 1)
        world_.do(Confirm("r/0"), LATER_MS + 2)
        assert world_.phase("r") is Phase.CANCELLED

    def test_nobody_has_to_confirm_for_nodes_that_are_all_lost(self) -> None:
        world_ = self.started(run("r", 8), {"A": 16})
        (home,) = world_.slots("r")
        world_.do(fail(home), LATER_MS)
        assert home not in world_.slots("r")
        assert world_.gpus("r") == 8


def test_a_run_that_shrank_does_not_grow_back_by_itself() -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 24, malleable=elastic(8, 24, 8))))
    world_.do(Shrink("r", 8), LATER_MS)
    world_.do(Tick(), LATER_MS + 1)
    assert world_.gpus("r") == 8


def test_draining_a_node_with_a_spare_only_drops_the_spare() -> None:
    world_ = new_fleet({"A": 24})
    world_.do(Submit(run("r", 16, group_gpus=16, spares_per_group=8)))
    world_.do(Drain("a0002"), LATER_MS)
    assert (world_.gpus("r"), world_.slots("r", Role.SPARE)) == (16, {})
