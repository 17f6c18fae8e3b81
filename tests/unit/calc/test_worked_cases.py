"""The worked cases, end to end: submitted to ``decide``, and not only calculated."""

from __future__ import annotations

from collections import Counter

import pytest

from quorate.core.commands import Submit
from quorate.core.decide import decide
from quorate.model.events import LeaseStarted, RunRefused, Tier, lease_gpus
from quorate.model.refusal import Refusal
from quorate.model.specs import Owner, Run
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
    run,
    world,
)


def submit(state: State, spec: Run) -> list[LeaseStarted] | Refusal:
    """Return the leases with which the run starts, or the reason why it waits."""
    decision = decide(state, Submit(spec), now_ms=NOW_MS, actor="test")
    assert not decision.refusals, decision
    apply_all(state, decision.events)
    for event in decision.events:
        if isinstance(event, RunRefused):
            return event.refusal
    return [event for event in decision.events if isinstance(event, LeaseStarted)]


def started(state: State, spec: Run) -> list[LeaseStarted]:
    found = submit(state, spec)
    assert not isinstance(found, Refusal), found
    return found


def test_96_in_groups_of_64_bind_as_64_and_32() -> None:
    state = world(nodes=fleet({"A": 72, "B": 48}), budgets=[budget("b", "team", envelope("e", 96))])
    leases = started(state, run("train", 96, group_gpus=64))
    assert [(lease.comp_path, lease_gpus(lease.slots)) for lease in leases] == [
        ("group/0", 64),
        ("group/1", 32),
    ]


def test_128_in_groups_of_64_wait_with_the_deficit_per_domain() -> None:
    state = world(
        nodes=fleet({"A": 72, "B": 48}), budgets=[budget("b", "team", envelope("e", 128))]
    )
    refusal = submit(state, run("train", 128, group_gpus=64))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "insufficient-capacity"
    assert refusal.short == 16
    assert [(s.where, s.wanted, s.available, s.short) for s in refusal.shortages] == [
        ("r/c/A", 64, 72, 0),
        ("r/c/B", 64, 48, 16),
    ]


def test_owned_96_and_borrowed_32() -> None:
    state = world(
        nodes=fleet({"A": 128}),
        budgets=[
            budget("mine", "team", envelope("e", 96)),
            budget("theirs", "vision", envelope("e", 64, lending=lending())),
        ],
    )
    over = submit(state, run("less", 128, group_gpus=32, funding=borrowing(31)))
    assert isinstance(over, Refusal)
    assert (over.code, over.short) == ("borrow-limit", 1)
    leases = started(state, run("train", 128, group_gpus=32, funding=borrowing(32)))
    paid: Counter[Tier] = Counter()
    for lease in leases:
        paid[lease.tier] += lease_gpus(lease.slots)
    assert paid == {Tier.OWNED: 96, Tier.BORROWED: 32}


def test_family_reaches_exactly_28() -> None:
    family = [Owner(name="mm")] + [Owner(name=n, parents=("mm",)) for n in ("vision", "audio")]
    state = world(
        nodes=fleet({"A": 200}),
        owners=family,
        budgets=[
            budget("mm", "mm", envelope("e", 40)),
            budget("vision", "vision", envelope("e", 28)),
            budget("audio", "audio", envelope("e", 12)),
        ],
    )
    for name, gpus, owner in (("own", 28, "vision"), ("up", 20, "mm"), ("side", 4, "audio")):
        started(state, run(name, gpus, owner))
    over = submit(state, run("over", 29, "vision"))
    assert isinstance(over, Refusal)
    assert (over.wanted, over.short) == (29, 1)
    leases = started(state, run("exact", 28, "vision"))
    assert [(lease.payer, lease_gpus(lease.slots)) for lease in leases] == [
        ("audio/e", 8),
        ("mm/e", 20),
    ]


@pytest.mark.heavy
def test_small_runs_leave_over_1000_whole_nodes_free_under_tight() -> None:
    nodes = [node(f"n{number:04d}", 8, f"D{number % 25:02d}") for number in range(1_250)]
    state = world(nodes=nodes, budgets=[budget("b", "team", envelope("e", 10_000))])
    for number in range(1_250):
        started(state, run(f"small-{number}", 1))
    untouched = [name for name in state.nodes if not state.node_leases.get(name)]
    assert len(untouched) > 1_000
