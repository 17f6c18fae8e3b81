"""Faults of other schedulers with failures and widths: one named test each."""

from __future__ import annotations

import pytest

from quorate.core.commands import Complete, Confirm, Fail, MarkNode, Shrink, Submit, Tick
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import (
    EndReason,
    LeaseStarted,
    NodeStatus,
    Role,
    RunEnded,
    RunRequeued,
    StartReason,
)
from quorate.model.specs import Malleable, Node
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run
from tests.oracles.lives import Life, ends, stops

LATER_MS = NOW_MS + 10 * MINUTE_MS
SPARE = Role.SPARE


def life_on(nodes: list[Node], *, has_executor: bool = False) -> Life:
    return Life(
        nodes=nodes,
        budgets=[
            budget("b1", "one", envelope("e", 200)),
            budget("b2", "two", envelope("e", 200)),
        ],
        has_executor=has_executor,
    )


def fail(name: str) -> MarkNode:
    return MarkNode(name, NodeStatus.FAILED)


def elastic(least: int, most: int, step: int) -> Malleable:
    return Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=most)


def test_slot_identity() -> None:
    """Every lease has separate slots: numbering does not begin again with each lease or part."""
    life = life_on([node("n1", 8), node("n2", 8)])
    for number, gpus in enumerate((3, 2, 5, 1, 4)):
        life.do(Submit(run(f"r{number}", gpus, "one", group_gpus=1)))
    taken: set[tuple[str, int]] = set()
    for lease in life.state.leases.values():
        for name, mask in lease.fact.slots:
            slots = {(name, ordinal) for ordinal in range(8) if mask >> ordinal & 1}
            assert taken.isdisjoint(slots)
            taken |= slots
    assert len(taken) == 15
    # One slot becomes free and is allocated again: the same slot, and no other.
    life.do(Complete("r3"), LATER_MS)
    life.do(Submit(run("next", 2, "one")))
    masks = [mask for le in life.state.leases.values() for _, mask in le.fact.slots]
    assert sum(mask.bit_count() for mask in masks) == 16


def test_swap_onto_a_narrower_spare() -> None:
    """Four ranks do not continue with two GPUs: a spare replaces the full width or nothing."""
    life = life_on(fleet({"A": 10}, gpus=4))
    life.do(Submit(run("r", 8, "one", group_gpus=8, spares_per_group=2)))
    decision = life.do(fail("a0000"), LATER_MS)
    assert ends(decision) == [("r/0", EndReason.FAIL), ("r/1", EndReason.FAIL)]
    assert (life.phase("r"), life.state.runs["r"].leases) == (Phase.PENDING, {})


def test_malleable_run_lost_on_one_nodes_failure() -> None:
    """24 wide, minimum 8, losing 8: it continues with 16."""
    life = life_on(fleet({"A": 24}))
    life.do(Submit(run("r", 24, "one", malleable=elastic(8, 24, 8), group_gpus=8)))
    for lost, left in (("a0002", 16), ("a0001", 8)):
        decision = life.do(fail(lost), LATER_MS)
        assert not any(isinstance(event, RunRequeued) for event in decision.events)
        assert (life.phase("r"), life.gpus("r")) == (Phase.RUNNING, left)


@pytest.mark.parametrize("has_executor", [False, True], ids=["at once", "with an executor"])
def test_leaked_leases_after_failure(has_executor: bool) -> None:  # noqa: FBT001 - a parameter
    """A run that lost its nodes holds no lease, and no other run holds a lease for it."""
    life = life_on(fleet({"A": 24}), has_executor=has_executor)
    life.do(Submit(run("r", 16, "one", group_gpus=8, spares_per_group=4)))
    for lost in ("a0000", "a0001"):
        life.do(fail(lost), LATER_MS)
    for name in life.stopping():
        life.do(Confirm(name), LATER_MS + 1)
    assert (life.phase("r"), dict(life.state.leases)) == (Phase.PENDING, {})
    account = next(iter(life.state.envelopes.values()))
    assert (account.gpus_active, account.gpus_reserved) == (0, 0)
    assert account.held_gpu_ms(life.now_ms) == sum(
        share.gpus * share.hold_ms
        for record in life.state.reservations.values()
        for share in record.payers
    )


def test_spare_in_another_domain_never_swaps_in() -> None:
    """The spares of a group in B cannot replace a group in A, however wide they are."""
    nodes = [*fleet({"A": 6}, gpus=2), *fleet({"B": 8}, gpus=4)]
    life = life_on(nodes)
    life.do(Submit(run("r", 8, "one", group_gpus=4, spares_per_group=2)))
    homes = {place[0] for place in life.on("r")}
    assert homes == {"a", "b"}
    spare = next(place for place in life.on("r", SPARE) if place.startswith("a"))
    life.do(fail(spare), LATER_MS)
    lost = next(place for place in life.on("r") if place.startswith("a"))
    before = life.on("r", SPARE)
    assert sum(before.values()) >= 2
    decision = life.do(fail(lost), LATER_MS + 1)
    assert EndReason.SWAP not in [reason for _, reason in ends(decision)]
    assert life.phase("r") is Phase.PENDING


@pytest.mark.parametrize("has_executor", [False, True], ids=["at once", "with an executor"])
def test_worked_example_3_fill_and_reclaim(has_executor: bool) -> None:  # noqa: FBT001
    """72 GPUs; J1 64 + 4 spares; J2, 4 groups of 2, takes 4 free and 4 spare slots."""
    life = life_on(fleet({"A": 72}, gpus=4), has_executor=has_executor)
    life.do(Submit(run("j1", 64, "one", group_gpus=64, spares_per_group=4)))
    free = -life.state.domain_order("default", "H100")[0][0]
    assert (life.gpus("j1"), life.gpus("j1", SPARE), free) == (64, 4, 4)
    life.do(Submit(run("j2", 8, "two", group_gpus=2)), LATER_MS)
    assert (life.gpus("j2"), life.filled("j1"), life.gpus("j1", SPARE)) == (8, 4, 0)
    account = life.state.envelopes[next(iter(life.state.envelopes))]
    assert (account.gpus_active, account.gpus_reserved) == (64, 4)
    # J1 loses a node: its spares are restored, J2 waits again, and every payer can pay.
    lost = next(iter(life.on("j1")))
    decision = life.do(fail(lost), LATER_MS + 1)
    assert {reason for _, reason in stops(decision)} == {EndReason.RECLAIMED_BY_SPARE}
    for name in life.stopping():
        assert life.phase("j1") is Phase.RUNNING
        life.do(Confirm(name), LATER_MS + 2)
    assert (life.gpus("j1"), life.gpus("j1", SPARE), life.filled("j1")) == (64, 0, 0)
    assert lost not in life.on("j1")
    assert life.phase("j2") is Phase.PENDING


def test_worked_example_3_the_spares_return() -> None:
    life = life_on(fleet({"A": 72}, gpus=4))
    life.do(Submit(run("j1", 64, "one", group_gpus=64, spares_per_group=4)))
    before = life.on("j1", SPARE)
    life.do(Submit(run("j2", 8, "two", group_gpus=2)), LATER_MS)
    life.do(Complete("j2"), LATER_MS + 1)
    assert life.on("j1", SPARE) == before


@pytest.mark.parametrize("has_executor", [False, True], ids=["at once", "with an executor"])
def test_worked_example_4_grow_and_shrink(has_executor: bool) -> None:  # noqa: FBT001
    """Five nodes of 32, a run of 96 that may have 160: 96, then 128, then 96 again."""
    life = life_on(fleet({"A": 160}, gpus=32), has_executor=has_executor)
    for name in ("x", "y"):
        life.do(Submit(run(name, 32, "two")))
    life.do(Submit(run("r", 96, "one", malleable=elastic(96, 160, 32), group_gpus=32)))
    assert life.gpus("r") == 96
    decision = life.do(Complete("x", has_gone=True), LATER_MS)
    (grown,) = [event for event in decision.events if isinstance(event, LeaseStarted)]
    assert (grown.reason, life.gpus("r")) == (StartReason.GROW, 128)
    life.do(Shrink("r", 96), LATER_MS + 1)
    for name in life.stopping():
        life.do(Confirm(name), LATER_MS + 2)
    assert life.gpus("r") == 96
    # It was told to shrink: it does not grow again by itself, however many GPUs become free.
    life.do(Complete("y", has_gone=True), LATER_MS + 3)
    assert life.gpus("r") == 96


@pytest.mark.parametrize("has_executor", [False, True], ids=["at once", "with an executor"])
def test_grow_storm(has_executor: bool) -> None:  # noqa: FBT001 - a parameter
    """One gap is filled once: 24 are wanted, and repeated decisions still request 24."""
    life = life_on(fleet({"A": 64}), has_executor=has_executor)
    life.do(Submit(run("wide", 56, "two")))
    life.do(Submit(run("r", 24, "one", malleable=elastic(8, 24, 8))))
    assert life.gpus("r") == 8
    life.do(Complete("wide", has_gone=True), LATER_MS)
    for number in range(6):
        life.do(Tick(), LATER_MS + number)
    grown = [
        event
        for event in life.events
        if isinstance(event, LeaseStarted) and event.reason is StartReason.GROW
    ]
    assert (len(grown), life.gpus("r")) == (2, 24)


@pytest.mark.parametrize("command", [Complete("r", "done by hand"), Fail("r", "by hand")])
def test_a_run_that_a_person_ends_keeps_its_slots_until_its_processes_have_gone(
    command: Complete | Fail,
) -> None:
    """The user who reports that the work is done may not know whether its processes have ended."""
    life = life_on([node("n1", 8)], has_executor=True)
    life.do(Submit(run("r", 8, "one")))
    life.do(Submit(run("next", 8, "two")))
    life.do(command, LATER_MS)
    (lease,) = life.state.runs["r"].leases
    assert life.state.leases[lease].ending is not None
    assert (life.phase("r"), life.phase("next")) == (Phase.RUNNING, Phase.PENDING)
    life.do(Confirm(lease), LATER_MS + 5)
    over = Phase.COMPLETED if isinstance(command, Complete) else Phase.FAILED
    assert (life.phase("r"), life.phase("next")) == (over, Phase.RUNNING)
    (ended,) = [event for event in life.events if isinstance(event, RunEnded)]
    assert ended.note == command.note
