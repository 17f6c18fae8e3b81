"""A decision while no run waits writes the same events as a walk over the queue."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.core.commands import Cancel, Command, Complete, Submit
from quorate.core.decide import decide
from quorate.core.decision_log import DecisionLog
from quorate.core.planning.idle_fleet import start_alone
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import LeaseStarted, RunSubmitted
from quorate.model.specs import Budget, Cap, Owner, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, envelope, node
from tests.oracles.choosing import Chooser, chooser
from tests.oracles.effort import examples
from tests.oracles.walking import walked_events
from tests.oracles.worlds import (
    Fleet,
    choose_caps,
    choose_family,
    choose_fleet,
    choose_funding,
    choose_line,
    choose_selector,
    state_of,
)

COMMANDS = 12


def capped(choose: Chooser, owner: str, owners: list[str]) -> Budget:
    """Return a budget of up to four envelopes, which overlapping caps limit together."""
    names = [f"e{number}" for number in range(choose.number(1, 4))]
    lines = tuple(choose_line(choose, name, owners, gpus=9, racks=choose.flip()) for name in names)
    return Budget(
        name=f"{owner}-money",
        owner=owner,
        envelopes=lines,
        caps=choose_caps(choose, lines, gpus=12),
    )


def a_run(choose: Chooser, number: int, owners: list[str]) -> Run:
    """Return a run in one part or in groups, in one domain or in several."""
    return Run(
        name=f"run{number}",
        owner=choose.one_of(owners),
        flavors=choose.one_of((("H100",), ("H100",), ("H100", "A100"))),
        gpus=choose.number(1, 6),
        group_gpus=choose.maybe(1, 3),
        cross_group_spread=choose.flip(),
        selector=choose_selector(choose),
        expected_duration_ms=choose.one_of((None, 10 * MINUTE_MS, 3 * HOUR_MS)),
        funding=choose_funding(choose, owners),
    )


def a_command(choose: Chooser, state: State, number: int, owners: list[str]) -> Command:
    """Return the start or the end of a run; a waiting run is withdrawn first."""
    if state.pending:
        return Cancel(min(state.pending))
    running = [name for name, each in state.runs.items() if each.phase is Phase.RUNNING]
    if running and choose.number(0, 3) == 0:
        return Complete(choose.one_of(running))
    return Submit(a_run(choose, number, owners))


def test_a_run_whose_payer_has_a_cap_starts_without_a_walk() -> None:
    cap = Cap(name="all", flavor="H100", envelopes=("one",), concurrency_max=6)
    money = Budget(name="money", owner="o0", envelopes=(envelope("one", 8),), caps=(cap,))
    fleet = Fleet((node("n0", 8, "A"),), taken=(("n0", 1),))
    state = state_of(fleet, owners=[Owner(name="o0")], money=(money,))
    run = Run(name="run", owner="o0", flavors=("H100",), gpus=6)
    log = DecisionLog(state, now_ms=NOW_MS, actor="test", has_executor=False)
    assert start_alone(log, RunSubmitted(at_ms=NOW_MS, actor="test", run=run))
    more = RunSubmitted(at_ms=NOW_MS, actor="test", run=replace(run, name="more", gpus=1))
    assert not start_alone(log, more)


@st.composite
def choosers(draw: st.DrawFn) -> Chooser:
    """Draw the chooser of all other choices."""
    return chooser(draw)


@pytest.mark.heavy
@given(choosers())
@examples(1)
def test_a_shortcut_writes_what_a_walk_writes(choose: Chooser) -> None:
    has_executor = choose.flip()
    family = choose_family(choose)
    owners = sorted(family)
    money = tuple(capped(choose, owner, owners) for owner in owners)
    state = state_of(choose_fleet(choose), owners=family.values(), money=money)
    now_ms = NOW_MS
    for number in range(COMMANDS):
        command = a_command(choose, state, number, owners)
        walked = walked_events(state, command, now_ms, has_executor=has_executor)
        decision = decide(state, command, now_ms=now_ms, actor="test", has_executor=has_executor)
        if walked is not None and not decision.refusals:
            assert decision.events == walked
            payers = {each.payer for each in decision.events if isinstance(each, LeaseStarted)}
            if any(state.envelopes[payer].caps for payer in payers):
                event("a payer with caps, without a walk")
        apply_all(state, decision.events)
        now_ms += choose.one_of((0, 1, MINUTE_MS, 25 * MINUTE_MS))
