"""Events that are applied together or one by one give the same states and indexes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from quorate.core.commands import Apply, Complete, Submit
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event, LeaseStarted, RunSubmitted
from quorate.model.specs import Follow, Owner
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.testing.states import same


def history() -> list[tuple[Event, ...]]:
    """Return the events of blocks with runs that start at once, wait, follow, and are refused."""
    clock = HandClock()
    engine: Engine = memory_engine(clock=clock)
    money = [budget(name, name, envelope("e", 16)) for name in ("team", "other")]
    owners = (Owner(name="team"), Owner(name="other"))
    engine.execute(Apply((*fleet({"A": 16}), *owners, *money)), actor="root")
    hour: dict[str, object] = {"expected_duration_ms": HOUR_MS}
    together = [
        run("first", 4, "team", **hour),
        run("second", 8, "team", **hour),
        run("waits", 8, "other", **hour),
        run("small", 2, "other", expected_duration_ms=MINUTE_MS),
        run("follows", 2, "team", follow=Follow(after=("first",)), **hour),
        run("penniless", 32, "team", **hour),
    ]
    receipts = engine.execute_all([Submit(each) for each in together], actor="root")
    assert not any(each.decision.refusals for each in receipts)
    clock.ms += MINUTE_MS
    engine.execute(Complete("first"), actor="root")
    engine.execute(Complete("second"), actor="root")
    return [tuple(events) for _, events in open_blocks(engine.store.blocks())]


def indexed() -> State:
    """Return an empty state whose indexes are in use, like those of a service."""
    state = State()
    state.overlay()
    return state


def test_run_that_starts_at_once_is_applied_together_as_one_by_one() -> None:
    blocks = history()
    events = [event for block in blocks for event in block]
    at_once = [
        one
        for one, other in pairwise(events)
        if isinstance(one, RunSubmitted)
        and isinstance(other, LeaseStarted)
        and other.run == one.run.name
    ]
    assert len(at_once) >= 2
    single, together = indexed(), indexed()
    over = together.overlay()
    for block in blocks:
        for event in block:
            apply(single, event)
        over = together.overlay()
        apply_all(over, block)
        apply_all(together, block)
        assert same(single, together) == []
        assert single.waiting.entries() == together.waiting.entries() == over.waiting.entries()
        assert dict(single.queued) == dict(together.queued) == dict(over.queued)


def test_run_is_queued_where_it_is_the_last_event() -> None:
    state, (opening, *rest) = indexed(), history()
    apply_all(state, opening)
    apply_all(state, rest[0])
    submitted = next(each for block in rest for each in block if isinstance(each, RunSubmitted))
    apply_all(state, [submitted])
    assert dict(state.queued) == {"first": state.seq}
    assert state.runs["first"].seq == state.seq


@pytest.mark.parametrize("has_executor", [False, True])
def test_overlay_knows_when_a_hold_that_it_has_listed_may_be_due(*, has_executor: bool) -> None:
    state, blocks = indexed(), history()
    for block in blocks[:2]:
        apply_all(state, block)
    over = state.overlay()
    apply_all(over, blocks[2])
    leases = list(over.leases.values())
    due_ms = min(each.renew_ms if has_executor else each.hold_ends_ms for each in leases)
    assert due_ms > NOW_MS
    assert not over.may_hold_be_due(due_ms - 1, has_executor=has_executor)
    assert over.may_hold_be_due(due_ms, has_executor=has_executor)
    assert not state.may_hold_be_due(due_ms, has_executor=has_executor)
    assert over.overlay().may_hold_be_due(due_ms, has_executor=has_executor)
