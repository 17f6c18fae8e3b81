"""The inputs of a ledger: every event is read as a command, or follows from others."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from quorate.model.events import Event
from quorate.sim.whatif.recorded_inputs import ACTS, DECLARED, FOLLOWING, REQUESTS


def test_every_event_is_in_exactly_one_list() -> None:
    listed = Counter(
        each for one in (DECLARED, REQUESTS, ACTS, FOLLOWING) for each in get_args(one)
    )
    assert listed == Counter(get_args(Event))
