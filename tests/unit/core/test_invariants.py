"""Each violated invariant is detected, in a state and in a history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from quorate.core.audit.history_audit import VIOLATIONS_MAX, audit
from quorate.core.audit.invariants import Tally, check_run_record, check_shape, sweep
from quorate.core.commands import Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.model.amounts import HOUR_MS
from quorate.model.events import (
    EndReason,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    Outcome,
    Role,
    RunEnded,
    RunSubmitted,
    Tier,
)
from quorate.model.specs import Cap, CapId, EnvelopeId, Malleable
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
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


def _history() -> tuple[list[Event], State]:
    """Return a short history with every kind of lease: shared domain, spares, borrowed, ended."""
    own = budget(
        "b", "team", envelope("e", 8), caps=[Cap(name="c", flavor="H100", envelopes=("e",))]
    )
    rich = budget("rich", "rich", envelope("e", 16, lending=lending(concurrency_max=8)))
    events = opening(
        nodes=[*fleet({"A": 16, "B": 8}), node("other", 8, "C", "A100")], budgets=[own, rich]
    )
    state = State()
    apply_all(state, events)
    elastic = Malleable(gpus_min=2, gpus_max=4, gpus_step=1, gpus_desired=4)
    for command, later in (
        (Submit(run("done", 4)), 0),
        (Submit(run("grouped", 4, group_gpus=2, spares_per_group=1, funding=borrowing())), 1),
        (Submit(run("elastic", 4, "rich", malleable=elastic)), 1),
        (Complete("done"), 2),
        (Tick(), 3),
    ):
        decision = decide(state, command, now_ms=NOW_MS + later * HOUR_MS, actor="alice")
        assert not decision.refusals
        apply_all(state, decision.events)
        events.extend(decision.events)
    assert all(state.runs[name].leases for name in ("grouped", "elastic"))
    return events, state


def _lease(state: State, run_name: str, path: str = "group/0") -> LeaseStarted:
    return next(
        lease.fact
        for lease in state.leases.values()
        if lease.fact.run == run_name and lease.fact.comp_path == path
    )


def _change(state: State, fact: LeaseStarted, **fields: object) -> None:
    state.leases[fact.lease].fact = replace(fact, **fields)


def _take_a_taken_slot(state: State) -> None:
    slots = _lease(state, "grouped").slots
    _change(state, _lease(state, "elastic"), slots=slots)


def _leave_a_slot_that_is_not_there(state: State) -> None:
    _change(state, _lease(state, "elastic"), slots=(("a0000", 1 << 9),))


def _pay_too_much(state: State) -> None:
    account = state.envelopes[EnvelopeId("b/e")]
    account.spec = replace(account.spec, concurrency=1)
    state.budgets["b"] = replace(state.budgets["b"], envelopes=(account.spec,))


def _lend_too_much(state: State) -> None:
    line = state.budgets["rich"].envelopes[0]
    tight = replace(line, lending=replace(line.lending, concurrency_max=0))
    state.budgets["rich"] = replace(state.budgets["rich"], envelopes=(tight,))


def _cap_too_low(state: State) -> None:
    cap = replace(state.budgets["b"].caps[0], gpu_ms_max=1)
    state.budgets["b"] = replace(state.budgets["b"], caps=(cap,))


def _pay_elsewhere(state: State) -> None:
    account = state.envelopes[EnvelopeId("rich/e")]
    account.spec = replace(account.spec, selector=(("region", "elsewhere"),))


def _pay_another_flavor(state: State) -> None:
    account = state.envelopes[EnvelopeId("rich/e")]
    account.spec = replace(account.spec, flavor="A100")


def _pay_before_the_window(state: State) -> None:
    account = state.envelopes[EnvelopeId("rich/e")]
    account.spec = replace(account.spec, start_ms=NOW_MS + 9 * HOUR_MS)


def _hold_past_the_window(state: State) -> None:
    account = state.envelopes[EnvelopeId("rich/e")]
    account.spec = replace(account.spec, end_ms=NOW_MS + 1)


def _tear_a_group_apart(state: State) -> None:
    fact = _lease(state, "elastic")
    _change(state, fact, slots=(*fact.slots, ("b0000", 1)))


def _lose_a_part_of_a_bundle(state: State) -> None:
    _change(state, _lease(state, "grouped"), slots=(("a0000", 1),))


def _forget_the_first_bundle(state: State) -> None:
    for lease in state.leases.values():
        if lease.fact.run == "elastic" and lease.fact.bundle == 0:
            lease.fact = replace(lease.fact, bundle=7)


def _call_a_spare_active(state: State) -> None:
    _change(state, _lease(state, "grouped", "spare/0"), role=Role.ACTIVE)


def _grow_off_the_grid(state: State) -> None:
    record = state.runs["elastic"]
    record.spec = replace(
        record.spec, malleable=Malleable(gpus_min=2, gpus_max=3, gpus_step=1, gpus_desired=3)
    )


def _start_in_the_future(state: State) -> None:
    _change(state, _lease(state, "elastic"), start_ms=state.at_ms + 1)


def _miscount_active(state: State) -> None:
    state.envelopes[EnvelopeId("b/e")].gpus_active += 1


def _miscount_a_cap(state: State) -> None:
    state.caps[CapId("b/c")].committed_gpu_ms -= 1


def _miscount_spent(state: State) -> None:
    state.envelopes[EnvelopeId("b/e")].ended_gpu_ms += 1


def _forget_a_charge(state: State) -> None:
    state.runs["done"].charges.clear()


def _end_a_run_that_has_leases(state: State) -> None:
    state.runs["grouped"].phase = Phase.COMPLETED


def _lose_the_leases_of_a_run(state: State) -> None:
    state.runs["grouped"].leases.clear()


def _forget_who_waits(state: State) -> None:
    state.pending["elastic"] = 3


def _free_a_taken_slot(state: State) -> None:
    record = state.nodes[_lease(state, "grouped").slots[0][0]]
    state.islands[record.island].free[record.position] = 0xFF


def _lose_a_lease_of_an_owner(state: State) -> None:
    state.owner_leases["team"].clear()


def _lose_a_lease_of_a_node(state: State) -> None:
    state.node_leases["a0000"].clear()


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("I1", _take_a_taken_slot),
        ("I1", _leave_a_slot_that_is_not_there),
        ("I2", _pay_too_much),
        ("I2", _lend_too_much),
        ("I2", _cap_too_low),
        ("I3", _pay_elsewhere),
        ("I3", _pay_another_flavor),
        ("I3", _pay_before_the_window),
        ("I3", _hold_past_the_window),
        ("I5", _tear_a_group_apart),
        ("I5", _lose_a_part_of_a_bundle),
        ("I5", _forget_the_first_bundle),
        ("I5", _call_a_spare_active),
        ("I7", _grow_off_the_grid),
        ("I6", _start_in_the_future),
        ("I8", _miscount_active),
        ("I8", _miscount_a_cap),
        ("I8", _forget_who_waits),
        ("I8", _free_a_taken_slot),
        ("I8", _lose_a_lease_of_an_owner),
        ("I8", _lose_a_lease_of_a_node),
        ("I10", _miscount_spent),
        ("I10", _forget_a_charge),
        ("I11", _end_a_run_that_has_leases),
        ("I11", _lose_the_leases_of_a_run),
    ],
)
def test_sweep_finds_what_was_spoiled(rule: str, spoil: Callable[[State], None]) -> None:
    _, state = _history()
    assert sweep(state) == []
    spoil(state)
    found = sweep(state)
    assert rule in {violation.rule for violation in found}
    assert all(str(violation).startswith(f"{violation.rule}: ") for violation in found)


def _first(events: list[Event], shape: type, skip: int = 0) -> int:
    return [n for n, event in enumerate(events) if isinstance(event, shape)][skip]


def _edit(events: list[Event], at: int, **fields: object) -> list[Event]:
    return [*events[:at], replace(events[at], **fields), *events[at + 1 :]]


_Spoil = Callable[[list[Event]], list[Event]]


def _lease_at(events: list[Event], name: str) -> int:
    return next(n for n, e in enumerate(events) if isinstance(e, LeaseStarted) and e.run == name)


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("I6", lambda es: [*es[: _first(es, LeaseEnded) + 1], *es[_first(es, LeaseEnded) :]]),
        ("I6", lambda es: [e for e in es if not (isinstance(e, LeaseStarted) and e.run == "done")]),
        ("I6", lambda es: [*es, es[_first(es, LeaseEnded)]]),
        ("I6", lambda es: _edit(es, _first(es, LeaseEnded), reason="Bored")),
        ("I6", lambda es: _edit(es, _first(es, LeaseStarted), reason="Fun")),
        ("I6", lambda es: _edit(es, _first(es, LeaseEnded), end_ms=NOW_MS + 90 * HOUR_MS)),
        ("I6", lambda es: _edit(es, len(es) - 1, at_ms=1)),
        ("I6", lambda es: [*es, es[_first(es, RunSubmitted)]]),
        ("I6", lambda es: [*es, es[_first(es, RunEnded)]]),
        ("I6", lambda es: [*es, HoldExtended(es[-1].at_ms, "x", "nobody/0", 1)]),
        ("I1", lambda es: _edit(es, _lease_at(es, "elastic"), slots=_slots_of(es, "grouped"))),
        ("I1", lambda es: _edit(es, _lease_at(es, "done"), slots=(("a0000", 1 << 20),))),
        ("I1", lambda es: [*es, NodeApplied(es[-1].at_ms, "x", node("a0000", 1))]),
        ("I2", lambda es: _edit(es, _lease_at(es, "done"), hold_gpu_ms=10**15)),
        ("I2", lambda es: _edit(es, _lease_at(es, "done"), hold_gpu_ms=1)),
        ("I3", lambda es: _edit(es, _lease_at(es, "done"), payer=EnvelopeId("no/where"))),
        ("I3", lambda es: _edit(es, _lease_at(es, "done"), slots=(("other", 15),))),
        ("I5", lambda es: _edit(es, _lease_at(es, "grouped"), comp_path="group/1")),
        ("I5", lambda es: _drop(es, _lease_at(es, "grouped"))),
        ("I11", lambda es: [*es, RunEnded(es[-1].at_ms, "x", "grouped", Outcome.COMPLETED)]),
        ("I11", lambda es: _edit(es, _lease_at(es, "elastic"), run="done")),
        ("I11", lambda es: _edit(es, _lease_at(es, "elastic"), run="nobody")),
    ],
)
def test_audit_finds_what_was_spoiled(rule: str, spoil: _Spoil) -> None:
    events, state = _history()
    assert audit(events, view=state) == []
    assert rule in {violation.rule for violation in audit(spoil(events))}


def _slots_of(events: list[Event], name: str) -> object:
    fact = events[_lease_at(events, name)]
    assert isinstance(fact, LeaseStarted)
    return fact.slots


def _drop(events: list[Event], at: int) -> list[Event]:
    return [*events[:at], *events[at + 1 :]]


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("I10", lambda state: state.runs["done"].charges.update({("b/e", Tier.OWNED): 7})),
        ("I10", lambda state: state.runs["done"].charges.clear()),
        ("I10", lambda state: state.runs["done"].charges.update({("rich/e", Tier.BORROWED): 1})),
        ("I10", _miscount_spent),
        ("I8", lambda state: state.leases.pop(next(iter(state.leases)))),
    ],
)
def test_audit_holds_the_state_against_its_own_books(
    rule: str, spoil: Callable[[State], None]
) -> None:
    events, state = _history()
    spoil(state)
    assert rule in {violation.rule for violation in audit(events, view=state)}


def test_audit_stops_naming_violations_at_its_limit() -> None:
    events, _ = _history()
    again = [LeaseEnded(events[-1].at_ms, "x", "no/0", EndReason.END, 0)] * (VIOLATIONS_MAX + 5)
    assert len(audit([*events, *again])) == VIOLATIONS_MAX


def test_a_lease_may_not_move_with_its_node() -> None:
    events, _ = _history()
    moved = NodeApplied(events[-1].at_ms, "x", node("a0000", 8, "Z"))
    assert [violation.rule for violation in audit([*events, moved])] == ["I5"]


def test_a_start_that_holds_no_money_takes_width_all_the_same() -> None:
    tight = budget("b", "team", envelope("e", 1))
    events = opening(nodes=[node("n", 2)], budgets=[tight])
    state = State()
    apply_all(state, events)
    events += decide(state, Submit(run("r", 1)), now_ms=NOW_MS, actor="alice").events
    start = events[_lease_at(events, "r")]
    assert isinstance(start, LeaseStarted)
    free = replace(start, lease="r/1", comp_path="group/1", slots=(("n", 2),), hold_gpu_ms=0)
    found = [v for v in audit([*events, free]) if v.rule == "I2"]
    assert [violation.subject for violation in found] == ["b/e"]


def test_what_was_lent_and_is_told_to_stop_is_counted_as_lent_too() -> None:
    tally = Tally()
    tally.tell(Tier.BORROWED, 3)
    tally.tell(Tier.OWNED, 4)
    assert (tally.going, tally.lent_going) == (7, 3)


def test_a_lease_that_is_not_in_the_table_is_missing_from_its_run() -> None:
    _, state = _history()
    fact = _lease(state, "grouped")
    del state.leases[fact.lease]
    found = list(check_run_record(state, state.runs["grouped"]))
    assert {violation.rule for violation in found} >= {"I5"}


def test_a_shape_with_more_spares_than_asked_for_or_a_group_in_two_domains_is_wrong() -> None:
    _, state = _history()
    spec = state.runs["grouped"].spec
    facts = [lease.fact for lease in state.leases.values() if lease.fact.run == "grouped"]
    nodes = {name: record.spec for name, record in state.nodes.items()}
    assert list(check_shape(spec, facts, nodes, ())) == []
    fewer = list(check_shape(replace(spec, spares_per_group=0), facts, nodes, ()))
    assert [v.found for v in fewer] == [f"group {n} has 1 spare GPUs" for n in range(2)]
    torn = [replace(f, slots=(("b0000", 128),)) if f.role is Role.SPARE else f for f in facts]
    found = [v.found for v in check_shape(spec, torn, nodes, ())]
    assert found[0] == "group 0 is in several domains: ['r/c/A', 'r/c/B']"


def test_a_run_that_waits_is_tried_or_parked() -> None:
    _, state = _history()
    decision = decide(state, Submit(run("waits", 64)), now_ms=state.at_ms, actor="alice")
    apply_all(state, decision.events)
    assert "waits" in state.queued
    assert sweep(state) == []
    state.queued_counts["default", "team"] = 2
    assert [str(violation) for violation in sweep(state)] == [
        "I8: queue: has wrong counts of runs by pool and owner"
    ]
    state.queued.pop("waits")
    assert [str(violation) for violation in sweep(state)] == [
        "I8: queue: differs from the runs that are tried plus those that are parked"
    ]
