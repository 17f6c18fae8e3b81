"""A failure of a simulation is reduced to a short story that fails in the same way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import pytest

from quorate.calc import run
from quorate.core.commands import Apply, Cancel, Tick
from quorate.model.events import ConflictResolved
from quorate.testing.builders import fleet
from quorate.testing.inspection import Inspection
from quorate.testing.shrinking import Deed, Replay, failure_of, scenario_of, shrink

pytestmark = pytest.mark.slow

_SEED = 7
"""A seed in which a run is drawn."""


@cache
def _recorded() -> list[Deed]:
    inspection = Inspection(_SEED)
    inspection.run()
    return inspection.deeds


def _draws(deeds: Sequence[Deed]) -> bool:
    replay = Replay(deeds[0].at_ms)
    replay.play(deeds)
    return any(isinstance(event, ConflictResolved) and event.draws for event in replay.events)


@pytest.mark.soak
def test_a_recorded_trial_is_replayed_without_a_fault() -> None:
    deeds = _recorded()
    assert failure_of(deeds) == ""
    assert _draws(deeds)


@pytest.mark.soak
def test_what_is_not_needed_is_left_out_and_the_rest_is_a_scenario() -> None:
    deeds = _recorded()
    short = shrink(deeds, _draws, work_max=8_000)
    assert _draws(short)
    assert len(short) < len(deeds) / 4
    answer = run("scenario", json.loads(json.dumps(scenario_of(short))))
    assert answer["violations"] == []
    assert "RandomPreempt" in json.dumps(answer["trace"])


def test_nothing_can_be_left_out_of_the_shortest() -> None:
    world = Deed(0, Apply(tuple(fleet({"A": 8}))))
    rest = [Deed(n, Cancel(f"run{n}")) for n in range(40)]
    needed = {rest[3], rest[17], rest[31]}
    found = shrink([world, *rest], lambda deeds: needed <= set(deeds))
    assert found == [world, rest[3], rest[17], rest[31]]


def test_shrinking_ends_when_its_work_is_used_up() -> None:
    deeds = [Deed(n, Tick()) for n in range(1_000)]
    tried: list[int] = []

    def fails(fewer: Sequence[Deed]) -> bool:
        tried.append(len(fewer))
        return False

    assert shrink(deeds, fails, work_max=5_000) == deeds
    assert sum(tried) < 7_000
