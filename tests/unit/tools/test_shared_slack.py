"""The count of shared slack: whole histories are played, and every event of them is counted."""

from __future__ import annotations

import pytest

from quorate.ledger.chain import open_blocks
from quorate.model.events import ReservationMade, ReservationMoved
from quorate.sim.demand import Size
from tools.shared_slack import Slack, Watch

SMALL = Size(hours=2, runs=8, wishes=2)


@pytest.mark.heavy
def test_every_event_and_firm_start_of_a_history_is_counted() -> None:
    watch = Watch(7, SMALL)
    watch.run()
    blocks = open_blocks(watch.trial.store.blocks())
    events = [event for _, block in blocks for event in block]
    assert watch.events == len(events)
    assert watch.firm == sum(isinstance(event, ReservationMade) for event in events) > 0
    moves = sum(isinstance(event, ReservationMoved) for event in events)
    assert watch.books.shared_slack <= watch.books.moved_later <= moves


def test_histories_are_added_up() -> None:
    found = Slack()
    for moved, shared in [(3, 2), (1, 0), (0, 0)]:
        watch = Watch(0, SMALL)
        watch.events, watch.firm = 10, 4
        watch.books.moved_later, watch.books.shared_slack = moved, shared
        found.add(watch)
    assert str(found) == (
        "3 histories, 30 events: 12 firm starts, which moved later 4 times in 2 histories; "
        "a younger lease shared the slack 2 times, in 1 histories"
    )
