"""I12 in states and histories: forbidden changes of a claim are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.core.admission.run_shape import check_shape
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Release, Submit, Wiped
from quorate.model.amounts import HOUR_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeMarked,
    NodesClaimed,
    NodeStatus,
    NodeWiped,
    Role,
    SystemApplied,
    Tier,
)
from quorate.model.specs import System
from quorate.testing.builders import NOW_MS, budget, envelope, node, run
from tests.oracles.lives import Life

History = list[Event]


def history() -> History:
    """Return a claim of two nodes that is released and wiped, and then a run on one of them."""
    life = Life(
        nodes=[node("n0"), node("n1")],
        budgets=[
            budget("lab", "lab", envelope("e", 64)),
            budget("team", "team", envelope("e", 64)),
        ],
    )
    claim = run("c", 16, "lab", user="ada", sensitive=True, expected_duration_ms=HOUR_MS)
    life.do(Apply((System(sensitive_pool_size=2),)))
    life.do(Submit(claim))
    life.do(Submit(run("r", 8, "team")))
    life.do(Release("c"), NOW_MS + 1)
    life.do(Wiped("n0", is_clean=True))
    life.do(Wiped("n1", is_clean=False))
    return life.events


def at(events: History, kind: type[Event], number: int = 0) -> int:
    places = [place for place, event in enumerate(events) if isinstance(event, kind)]
    return places[number]


def without(kind: type[Event], number: int = 0) -> Callable[[History], None]:
    def change(events: History) -> None:
        del events[at(events, kind, number)]

    return change


def changed(kind: type[Event], number: int = 0, **fields: Any) -> Callable[[History], None]:
    def change(events: History) -> None:
        place = at(events, kind, number)
        events[place] = replace(events[place], **fields)

    return change


def wiped_too_soon(events: History) -> None:
    wiped = events.pop(at(events, NodeWiped))
    events.insert(at(events, LeaseStarted, 1) + 1, replace(wiped, at_ms=NOW_MS))


def claimed_while_cordoned(events: History) -> None:
    marked = NodeMarked(at_ms=NOW_MS, actor="t", node="n1", status=NodeStatus.CORDONED)
    events.insert(at(events, NodesClaimed), marked)


def smaller_pool(events: History) -> None:
    system = SystemApplied(at_ms=NOW_MS, actor="t", system=System(sensitive_pool_size=1))
    events.insert(at(events, NodesClaimed), system)


def claimed_again(events: History) -> None:
    place = at(events, NodesClaimed)
    events.insert(at(events, NodeWiped), replace(events[place], at_ms=NOW_MS + 1))


def cut(events: History) -> None:
    for kind in (LeaseEnding, LeaseEnded):
        changed(kind, reason=EndReason.BURST_CUT)(events)


def test_the_history_that_is_spoiled_below_is_a_good_one() -> None:
    assert audit(history()) == []


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (without(NodesClaimed), "I12"),
        (changed(NodesClaimed, user="bob"), "I12"),
        (changed(NodesClaimed, end_ms=NOW_MS + 2 * HOUR_MS), "I12"),
        (changed(LeaseStarted, role=Role.ACTIVE), "I12"),
        (changed(LeaseStarted, tier=Tier.SHARED), "I12"),
        (without(LeaseStarted, 1), "I6"),
        (changed(LeaseStarted, 1, slots=(("n1", 0x7F),)), "I12"),
        (without(NodeWiped), "I12"),
        (changed(NodeWiped, claim="d"), "I12"),
        (changed(NodeWiped, is_clean=False), "I12"),
        (wiped_too_soon, "I12"),
        (claimed_while_cordoned, "I12"),
        (claimed_again, "I12"),
        (smaller_pool, "I4"),
        (cut, "I12"),
    ],
)
def test_the_audit_finds(spoil: Callable[[History], None], rule: str) -> None:
    events = history()
    spoil(events)
    assert rule in {violation.rule for violation in audit(events)}


def test_the_audit_finds_a_node_that_is_claimed_in_part() -> None:
    events = history()
    events = events[: at(events, LeaseStarted, 1) + 1]
    assert audit(events) == []
    changed(LeaseStarted, 1, slots=(("n1", 0x7F),), hold_gpu_ms=7 * HOUR_MS)(events)
    assert {violation.rule for violation in audit(events)} == {"I5", "I12"}


def test_a_claim_that_may_not_be_spread_lies_in_one_domain() -> None:
    life = Life(
        nodes=[node("n0"), node("n1", domain="B")],
        budgets=[budget("lab", "lab", envelope("e", 64))],
    )
    claim = run("c", 16, "lab", sensitive=True, expected_duration_ms=HOUR_MS)
    life.do(Submit(claim))
    facts = [lease.fact for lease in life.state.leases.values()]
    nodes = {name: record.spec for name, record in life.state.nodes.items()}
    assert list(check_shape(claim, facts, nodes, ())) == []
    (found,) = check_shape(replace(claim, cross_group_spread=False), facts, nodes, ())
    assert str(found) == "I5: c: may not be spread, but is in ['r/c/A', 'r/c/B']"


def claimed() -> Life:
    life = Life(nodes=[node("n0"), node("n1")], budgets=[budget("lab", "lab", envelope("e", 64))])
    claim = run("c", 8, "lab", user="ada", sensitive=True, expected_duration_ms=HOUR_MS)
    life.do(Submit(claim))
    life.do(Submit(run("r", 1, "lab")))
    return life


def test_the_sweep_finds_others_on_a_node_that_was_not_wiped() -> None:
    life = claimed()
    life.state.unwiped["n1"] = life.state.unwiped["n0"].copy()
    found = {(violation.rule, violation.subject) for violation in sweep(life.state)}
    assert {("I12", "r/0"), ("I8", "n1")} <= found


def test_the_sweep_finds_a_claim_on_a_node_that_is_not_set_apart() -> None:
    life = claimed()
    del life.state.unwiped["n0"]
    assert ("I12", "c/0") in {(found.rule, found.subject) for found in sweep(life.state)}


def test_the_sweep_finds_a_node_that_is_set_apart_for_somebody_else() -> None:
    life = claimed()
    life.state.unwiped.own("n0").user = "bob"
    assert ("I12", "n0") in {(found.rule, found.subject) for found in sweep(life.state)}


def test_the_sweep_finds_a_wrong_count() -> None:
    life = claimed()
    life.state.unwiped.own("n0").leases += 1
    assert [found.subject for found in sweep(life.state)] == ["n0"]
