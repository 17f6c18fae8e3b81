"""Who may see which events: denied by default, also for new kinds of events."""

from __future__ import annotations

import pytest
from hypothesis import given

from quorate.model.events import (
    BackfillNoted,
    Event,
    NodesClaimed,
    NodeWiped,
    OwnerRemoved,
    PledgeClosed,
    SpareFilled,
    ThresholdCrossed,
    tag_of,
)
from quorate.operations.caller import Caller
from quorate.operations.visible_events import Sight
from quorate.testing.builders import NOW_MS
from quorate.testing.event_strategies import events
from tests.unit.operations.stage import (
    ADMIN,
    AUDITOR,
    OF_LAB,
    OF_NONE,
    OF_OTHER,
    OF_TEAM,
    engine_at_work,
)

VIEW = engine_at_work().view
EVERYBODYS = {
    "ledger-opened/1",
    "lottery-committed/1",
    "lottery-sealed/1",
    "system-applied/1",
    "pool-applied/1",
    "node-applied/1",
    "node-marked/1",
    "conflict-declared/1",
    "conflict-resolved/1",
}


@pytest.mark.heavy
@given(event=events())
def test_who_is_of_no_tenant_sees_the_fleet_and_conflicts_alone(event: Event) -> None:
    assert Sight(VIEW, OF_NONE).sees(event) == (tag_of(event) in EVERYBODYS)
    assert Sight(VIEW, ADMIN).sees(event)
    assert Sight(VIEW, AUDITOR).sees(event)


@pytest.mark.parametrize(
    ("event", "seen_by"),
    [
        (NodesClaimed(NOW_MS, "x", "of-team", "tim", ("a0000",), NOW_MS), (OF_LAB, OF_TEAM)),
        (NodeWiped(NOW_MS, "x", "a0000", "of-other", is_clean=True), (OF_OTHER,)),
        (OwnerRemoved(NOW_MS, "x", "team"), (OF_LAB, OF_TEAM)),
        (ThresholdCrossed(NOW_MS, "x", "lab", 80, is_above=True, used_ppm=1), (OF_LAB,)),
        (BackfillNoted(NOW_MS, "x", "of-other", 0, NOW_MS, "lab-waits@1"), (OF_OTHER,)),
        (SpareFilled(NOW_MS, "x", "of-team/0#0", "of-team/0", "of-team", (), 0), (OF_LAB, OF_TEAM)),
        (
            SpareFilled(NOW_MS, "x", "of-team/0#0", "of-team/0", "of-other", (), 0),
            (OF_LAB, OF_TEAM, OF_OTHER),
        ),
        (PledgeClosed(NOW_MS, "x", "of-other/0#0"), (OF_OTHER,)),
        (PledgeClosed(NOW_MS, "x", "nobody/0#0"), ()),
    ],
    ids=lambda each: tag_of(each) if hasattr(each, "at_ms") else None,
)
def test_what_happens_to_a_tenant_is_its_own_and_theirs_above_it(
    event: Event, seen_by: tuple[Caller, ...]
) -> None:
    callers = (OF_LAB, OF_TEAM, OF_OTHER, OF_NONE)
    assert tuple(each for each in callers if Sight(VIEW, each).sees(event)) == seen_by
