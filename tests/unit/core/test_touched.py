"""What a commit touched is looked at quickly where it is plain, and nothing is missed by that."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from quorate.core.audit.commit_checks import check_touched
from quorate.core.commands import Apply, Complete, Submit
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import Event, Role
from quorate.model.specs import Owner, envelope_id
from quorate.model.state.state import State
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import memory_engine

PLAIN = "plain"
WIDE = "wide"
PAYER = envelope_id("b", "e")


def world() -> tuple[Engine, State, list[Event]]:
    """Return an engine with a run on part of a node and one over two, and their events."""
    engine = memory_engine()
    money = budget("b", "team", envelope("e", 40))
    engine.execute(Apply((Owner(name="team"), *fleet({"A": 16, "B": 16}), money)), actor="test")
    for name, gpus in ((PLAIN, 4), (WIDE, 16)):
        receipt = engine.execute(Submit(run(name, gpus, "team")), actor="test")
        assert not receipt.decision.refusals
    events = [event for _, found in open_blocks(engine.store.blocks()) for event in found]
    return engine, engine._state, events


def change_fact(state: State, name: str, **changes: object) -> None:
    (lease,) = state.runs[name].leases
    state.leases[lease].fact = replace(state.leases[lease].fact, **changes)


def spoil_width(state: State) -> None:
    (lease,) = state.runs[PLAIN].leases
    ((node, _),) = state.leases[lease].fact.slots
    change_fact(state, PLAIN, slots=((node, 0b11),))


def spoil_slots(state: State) -> None:
    (lease,) = state.runs[WIDE].leases
    (first, _), (second, _) = state.leases[lease].fact.slots
    change_fact(state, WIDE, slots=((first, 0xFF00), (second, 0xFF)))


def spoil_place(state: State) -> None:
    (lease,) = state.runs[WIDE].leases
    (first, mask), _ = state.leases[lease].fact.slots
    other = next(
        name
        for name, node in state.nodes.items()
        if node.spec.domain != state.nodes[first].spec.domain
    )
    change_fact(state, WIDE, slots=((first, mask), (other, 0xFF)))


def spoil_role(state: State) -> None:
    change_fact(state, PLAIN, role=Role.SPARE)


def spoil_bundle(state: State) -> None:
    change_fact(state, PLAIN, bundle=3)


def spoil_start(state: State) -> None:
    change_fact(state, PLAIN, start_ms=state.at_ms + HOUR_MS)


def spoil_window(state: State) -> None:
    account = state.envelopes[PAYER]
    account.spec = replace(account.spec, end_ms=state.at_ms + 1)


def spoil_flavor(state: State) -> None:
    account = state.envelopes[PAYER]
    account.spec = replace(account.spec, flavor="A100")


def spoil_selector(state: State) -> None:
    account = state.envelopes[PAYER]
    account.spec = replace(account.spec, selector=(("region", "nowhere"),))


def spoil_concurrency(state: State) -> None:
    account = state.envelopes[PAYER]
    account.spec = replace(account.spec, concurrency=19)


def spoil_retired(state: State) -> None:
    state.envelopes[PAYER].retired = True


def spoil_ended(state: State) -> None:
    state.runs[PLAIN].ended_ms = state.at_ms - DAY_MS


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (spoil_width, "I5"),
        (spoil_place, "I5"),
        (spoil_role, "I5"),
        (spoil_bundle, "I5"),
        (spoil_start, "I6"),
        (spoil_window, "I3"),
        (spoil_flavor, "I3"),
        (spoil_selector, "I3"),
        (spoil_concurrency, "I2"),
        (spoil_retired, "I3"),
        (spoil_ended, "I11"),
    ],
)
def test_fault_of_a_plain_run_is_found(spoil: Callable[[State], None], rule: str) -> None:
    _, state, events = world()
    assert check_touched(state, events) == []
    spoil(state)
    assert rule in {violation.rule for violation in check_touched(state, events)}


def test_slots_that_a_node_does_not_have_are_found() -> None:
    _, state, _ = world()
    spoil_slots(state)
    (lease,) = state.runs[WIDE].leases
    # What is in the state is the event itself.
    found = check_touched(state, [state.leases[lease].fact])
    assert "I1" in {violation.rule for violation in found}


def test_run_that_ended_and_holds_something_is_found() -> None:
    engine, state, _ = world()
    held = dict(state.runs[PLAIN].leases)
    receipt = engine.execute(Complete(PLAIN), actor="test")
    assert check_touched(state, receipt.decision.events) == []
    state.runs[PLAIN].leases.update(dict.fromkeys(state.runs[WIDE].leases))
    assert held
    found = check_touched(state, receipt.decision.events)
    assert "I11" in {violation.rule for violation in found}
