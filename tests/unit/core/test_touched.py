"""The quick check of plain changes in a commit misses no violation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.core.audit.commit_checks import check_touched
from quorate.core.audit.invariants import Violation, check_lease, check_run_record, sweep
from quorate.core.commands import Apply, Command, Complete, Submit
from quorate.ledger.chain import open_blocks
from quorate.loop.commit_types import Breach
from quorate.loop.engine import Engine
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import EndReason, Event, LeaseEnding, Role, RunSubmitted, Tier
from quorate.model.specs import Cap, Lending, Owner, cap_id, envelope_id
from quorate.model.state.state import State
from quorate.ports.errors import DecidingStoppedError
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import memory_engine

PLAIN = "plain"
BESIDE = "beside"
WIDE = "wide"
PAYER = envelope_id("b", "e")
CAP = cap_id("b", "c")


def world() -> tuple[Engine, State, list[Event]]:
    """Return an engine with two runs that share a node and one on two nodes, and their events."""
    engine = memory_engine()
    cap = Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=40, gpu_ms_max=10**15)
    money = replace(budget("b", "team", envelope("e", 40)), caps=(cap,))
    engine.execute(Apply((Owner(name="team"), *fleet({"A": 16, "B": 16}), money)), actor="test")
    for name, gpus in ((PLAIN, 4), (BESIDE, 4), (WIDE, 16)):
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
    account.spec = replace(account.spec, concurrency=23)


def spoil_retired(state: State) -> None:
    state.envelopes[PAYER].retired = True


def spoil_hours(state: State) -> None:
    account = state.envelopes[PAYER]
    account.spec = replace(account.spec, gpu_ms_max=account.committed_gpu_ms - 1)


def spoil_lending(state: State) -> None:
    account = state.envelopes[PAYER]
    account.lent_gpus_active = 1
    account.spec = replace(account.spec, lending=Lending(concurrency_max=0))


def spoil_cap(state: State) -> None:
    account = state.caps[CAP]
    account.spec = replace(account.spec, concurrency_max=account.gpus_active - 1)


def spoil_cap_hours(state: State) -> None:
    account = state.caps[CAP]
    account.spec = replace(account.spec, gpu_ms_max=account.committed_gpu_ms - 1)


def spoil_shared_node(state: State) -> None:
    """Give a run on part of a node the slots of the other run there."""
    (lease,) = state.runs[BESIDE].leases
    change_fact(state, PLAIN, slots=state.leases[lease].fact.slots)


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
        (spoil_hours, "I2"),
        (spoil_lending, "I2"),
        (spoil_cap, "I2"),
        (spoil_cap_hours, "I2"),
        (spoil_shared_node, "I1"),
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
    # The state has the event itself.
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


def only(changes: dict[str, object]) -> Callable[[State, str], None]:
    """Return a function that changes one field of the fact of a run's lease."""

    def change(state: State, name: str) -> None:
        change_fact(state, name, **changes)

    return change


def change_hold(state: State, name: str) -> None:
    (lease,) = state.runs[name].leases
    state.leases[lease].hold_gpu_ms *= 10**6


def change_ending(state: State, name: str) -> None:
    (lease,) = state.runs[name].leases
    state.leases[lease].ending = LeaseEnding(
        state.at_ms, "test", lease, EndReason.END, state.at_ms + 1
    )


def change_rack(state: State, _: str) -> None:
    account = state.envelopes[PAYER]
    account.spec = replace(account.spec, selector=(("rack", "r1"),))


def change_nothing(_: State, __: str) -> None:
    """Change nothing."""


CHANGES: list[Callable[[State, str], None]] = [
    change_nothing,
    change_hold,
    change_ending,
    change_rack,
    only({"tier": Tier.BORROWED}),
    only({"comp_path": "spare/0"}),
    only({"comp_path": "group/1"}),
    only({"role": Role.SPARE}),
    only({"bundle": 2}),
    only({"start_ms": 0}),
    only({"slots": (("b0000", 0xFFFF),)}),
]
"""Changes that make a run wrong or unusual."""


def in_detail(state: State) -> set[Violation]:
    """Return the violations of runs and leases, each checked separately."""
    found: set[Violation] = set()
    for record in state.runs.values():
        found.update(check_run_record(state, record))
        for lease in record.leases:
            found.update(check_lease(state, state.leases[lease]))
    return found


@given(st.sampled_from(CHANGES), st.sampled_from([PLAIN, BESIDE, WIDE]), st.data())
def test_glance_leaves_out_nothing_that_the_detail_finds(
    change: Callable[[State, str], None], name: str, data: st.DataObject
) -> None:
    _, state, events = world()
    assert sweep(state) == []
    change(state, name)
    data.draw(st.sampled_from(CHANGES))(state, data.draw(st.sampled_from([PLAIN, BESIDE, WIDE])))
    assert set(check_touched(state, events)) >= in_detail(state)


def test_decision_within_a_block_that_breaks_an_invariant_is_not_recorded() -> None:
    engine, state, _ = world()
    kept: list[Breach] = []

    def keep(breach: Breach) -> str:
        kept.append(breach)
        return "an invariant would not hold"

    engine.on_violation = keep
    head = engine.store.head()
    (lease,) = state.runs[BESIDE].leases
    ((node, _),) = state.leases[lease].fact.slots
    change_fact(state, BESIDE, slots=((node, 0xFF),))
    # The first has a node alone, and the last one takes the slots that the second has left.
    commands: list[Command] = [
        Submit(run("first", 8, "team")),
        Complete(PLAIN),
        Submit(run("last", 4, "team")),
    ]
    with pytest.raises(DecidingStoppedError, match="an invariant would not hold"):
        engine.execute_block(commands, actor="test")
    (breach,) = kept
    assert {violation.rule for violation in breach.violations} == {"I1"}
    assert breach.head == head == engine.store.head()
    assert isinstance(breach.events[0], RunSubmitted)
    assert "first" not in engine.view.runs
