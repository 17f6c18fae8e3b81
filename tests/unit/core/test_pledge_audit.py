"""The audit and the sweep find faults of filled spares: each history here has one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Complete, Submit
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    PledgeClosed,
    Role,
    SpareFilled,
    StartReason,
)
from quorate.model.specs import EnvelopeId
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, node, run
from tests.oracles.lives import Life

LATER_MS = NOW_MS + 10 * MINUTE_MS
History = list[Event]


def history() -> History:
    """Return a history without faults in which two spares are filled and restored."""
    life = Life(
        nodes=[node("n1", 4), node("n2", 2)],
        budgets=[
            budget("b1", "one", envelope("e", 6), envelope("f", 6)),
            budget("b2", "two", envelope("e", 6)),
        ],
    )
    life.do(Submit(run("keeper", 4, "one", group_gpus=4, spares_per_group=2)))
    life.do(Submit(run("filler", 2, "two")), LATER_MS)
    life.do(Complete("filler"), LATER_MS + 1)
    assert any(isinstance(event, PledgeClosed) for event in life.events)
    return life.events


def at(events: History, kind: type[Event], *, last: bool = False) -> int:
    """Return the index of the first (or last) event of ``kind``."""
    found = [place for place, event in enumerate(events) if isinstance(event, kind)]
    return found[-1 if last else 0]


def end_without_a_pledge(events: History) -> None:
    events[:] = [event for event in events if not isinstance(event, SpareFilled | PledgeClosed)]


def pledge_without_an_end(events: History) -> None:
    (filled,) = [
        place
        for place, event in enumerate(events)
        if isinstance(event, LeaseEnded) and event.reason is EndReason.FILLED
    ]
    end = events[filled]
    assert isinstance(end, LeaseEnded)
    events[filled] = replace(end, reason=EndReason.DROP_SPARE)


def pledge_on_the_work(events: History) -> None:
    place = at(events, SpareFilled)
    filled = events[place]
    assert isinstance(filled, SpareFilled)
    events[place] = replace(filled, slots=(("n1", 1),))


def pledge_on_itself(events: History) -> None:
    place = at(events, SpareFilled)
    filled = events[place]
    assert isinstance(filled, SpareFilled)
    events[place] = replace(filled, filler="keeper")


def return_before_the_pledge_is_closed(events: History) -> None:
    place = at(events, PledgeClosed)
    closed = events.pop(place)
    events.append(closed)


def closed_twice(events: History) -> None:
    events.insert(at(events, PledgeClosed), events[at(events, PledgeClosed)])


def changed_return(**fields: object) -> Callable[[History], None]:
    def change(events: History) -> None:
        place = at(events, LeaseStarted, last=True)
        spare = events[place]
        assert isinstance(spare, LeaseStarted)
        assert (spare.role, spare.reason) == (Role.SPARE, StartReason.START)
        events[place] = replace(spare, **fields)

    return change


def more_money(events: History) -> None:
    spare = events[at(events, LeaseStarted, last=True)]
    assert isinstance(spare, LeaseStarted)
    changed_return(hold_gpu_ms=spare.hold_gpu_ms + 2)(events)


def test_the_history_that_is_spoiled_below_is_a_good_one() -> None:
    assert audit(history()) == []


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (end_without_a_pledge, "I6"),
        (pledge_without_an_end, "I6"),
        (pledge_on_the_work, "I6"),
        (pledge_on_itself, "I6"),
        (return_before_the_pledge_is_closed, "I1"),
        (closed_twice, "I6"),
        (changed_return(payer=EnvelopeId("b1/f")), "I3"),
        (changed_return(slots=(("n2", 1),), comp_path="spare/1"), "I3"),
        (more_money, "I2"),
    ],
)
def test_the_audit_finds(spoil: Callable[[History], None], rule: str) -> None:
    events = history()
    spoil(events)
    assert rule in {violation.rule for violation in audit(events)}


def test_an_audit_counts_what_is_kept_for_filled_spares() -> None:
    events = history()
    for place, event in enumerate(events):
        if isinstance(event, SpareFilled):
            events[place] = replace(event, hold_gpu_ms=10**15)
    assert "I2" in {violation.rule for violation in audit(events)}


def test_the_sweep_finds_pledges_that_nobody_fills() -> None:
    state = State()
    apply_all(state, [e for e in history() if not isinstance(e, PledgeClosed) and not _returns(e)])
    assert {violation.rule for violation in sweep(state)} == {"I1"}


def _returns(event: Event) -> bool:
    return (
        isinstance(event, LeaseStarted) and event.role is Role.SPARE and event.start_ms > LATER_MS
    )


def test_an_audit_counts_the_width_that_is_kept_for_filled_spares() -> None:
    events = history()
    place = at(events, SpareFilled)
    filled = events[place]
    assert isinstance(filled, SpareFilled)
    events.insert(place, replace(filled, pledge="another", hold_gpu_ms=0))
    assert ("I2", "b1/e") in {(violation.rule, violation.subject) for violation in audit(events)}
