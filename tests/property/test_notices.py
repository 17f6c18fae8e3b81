"""Notices report everything that happens, and are the same whenever they are computed.

Whole histories with faults are read block by block.
"""

from __future__ import annotations

import pytest

from quorate.ledger.chain import open_blocks
from quorate.model.events import (
    ConflictResolved,
    Event,
    LeaseStarted,
    Outcome,
    Role,
    RunEnded,
    RunRequeued,
    StartReason,
)
from quorate.model.notice_kinds import NoticeKind
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.sim.seed_trial import Trial
from quorate.views.notices.notice import KnownFew, KnownView, Notice, names_in
from quorate.views.notices.notice_feed import notices_of
from tests.oracles.effort import few_of

SEEDS = few_of(range(6), 1)


def blocks_of(seed: int) -> list[tuple[int, list[Event]]]:
    """Return the first sequence and the events of each block of a history."""
    trial = Trial(seed)
    trial.run()
    opened = open_blocks(trial.store.blocks())
    return [(head.seq - len(events) + 1, list(events)) for head, events in opened]


def started(events: list[Event]) -> set[str]:
    """Return the runs that these events start."""
    return {
        event.run
        for event in events
        if isinstance(event, LeaseStarted)
        and event.reason is StartReason.START
        and event.role is not Role.SPARE
    }


def check(found: list[Notice], events: list[Event]) -> None:
    """Check that everything in a block that needs a notice has one notice."""
    kinds = {kind: [each for each in found if each.kind is kind] for kind in NoticeKind}
    assert {each.run for each in kinds[NoticeKind.RUN_STARTED]} == started(events)
    failed = [e.run for e in events if isinstance(e, RunEnded) and e.outcome is Outcome.FAILED]
    assert [each.run for each in kinds[NoticeKind.RUN_FAILED]] == failed
    done = [e.run for e in events if isinstance(e, RunEnded) and e.outcome is Outcome.COMPLETED]
    assert [each.run for each in kinds[NoticeKind.RUN_COMPLETED]] == done
    cuts = {(c.run, c.step) for e in events if isinstance(e, ConflictResolved) for c in e.cuts}
    told = {
        (each.run, each.facts["step"])
        for each in (*kinds[NoticeKind.RUN_CUT], *kinds[NoticeKind.LOTTERY_LOST])
        if "conflict" in each.facts
    }
    assert told == cuts
    assert len({each.name for each in found}) == len(found)
    assert [each.seq for each in found] == sorted(each.seq for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_is_told_whole_and_the_same_then_and_later(seed: int) -> None:
    blocks = blocks_of(seed)
    state, then = State(), list[Notice]()
    warned: set[str] = set()
    for first_seq, events in blocks:
        apply_all(state, events)
        found = notices_of(first_seq, events, KnownView(state))
        assert found == notices_of(first_seq, events, KnownFew.of(state, *names_in(events)))
        check(found, events)
        warned |= {each.run for each in found if each.facts.get("waitsAgain")}
        # No run goes back to the queue without a notice with the reason.
        again = {event.run for event in events if isinstance(event, RunRequeued)}
        assert again <= warned
        warned -= again
        then += found
    late = [
        each for first, events in blocks for each in notices_of(first, events, KnownView(state))
    ]
    assert late == then
    assert then
