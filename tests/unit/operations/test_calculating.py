"""A service computes small worlds, and refuses large ones with the local command."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.operations.ledger.calculating import STEPS_MAX, THINGS_MAX
from quorate.operations.ledger.ledger_operations import Calculate
from quorate.views.exits import CommandError
from tests.unit.operations.stage import ADMIN, ask, desk_for

NOW = "2026-01-01T00:00:00Z"


def scenario(**more: Any) -> Calculate:
    return Calculate(kind="scenario", world={"now": NOW, "steps": []} | more)


def nodes(count: int) -> list[dict[str, Any]]:
    place = {"flavor": "H100", "gpus": 8, "region": "r", "cluster": "c", "domain": "A"}
    return [{"name": f"n{number}"} | place for number in range(count)]


@pytest.mark.heavy
def test_a_scenario_of_as_many_steps_as_may_be_is_played() -> None:
    steps = [{"tick": True}] * STEPS_MAX
    found = ask(desk_for(ADMIN), "calc", scenario(steps=steps)).tree()
    assert len(found["trace"]) == STEPS_MAX


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("world", "says"),
    [
        (
            {"steps": [{"tick": True}] * (STEPS_MAX + 1)},
            f"steps: has {STEPS_MAX + 1} entries, and a service computes {STEPS_MAX} at most",
        ),
        (
            {"nodes": nodes(THINGS_MAX + 1)},
            (
                f"world: has {THINGS_MAX + 1} nodes, runs, documents, "
                f"and a service computes with {THINGS_MAX} at most"
            ),
        ),
    ],
)
def test_a_scenario_that_would_hold_up_others_is_refused_with_what_to_do(
    world: dict[str, Any], says: str
) -> None:
    with pytest.raises(CommandError) as caught:
        ask(desk_for(ADMIN), "calc", scenario(**world))
    assert caught.value.fault == "invalid"
    assert caught.value.lines == (f"{says}; run it on your machine: quorate calc scenario -f FILE",)


def test_a_world_that_is_none_is_told_as_ever() -> None:
    with pytest.raises(CommandError, match="world: must be a mapping"):
        ask(desk_for(ADMIN), "calc", Calculate(kind="scenario", world=[1]))


def test_a_recording_is_played_where_one_is() -> None:
    with pytest.raises(CommandError) as caught:
        ask(desk_for(ADMIN), "calc", Calculate(kind="rounds", world={}))
    assert caught.value.fault == "invalid"
    assert caught.value.lines == (
        (
            "kind: a service does not replay recordings; replay this one on your machine: "
            "quorate calc rounds -f FILE"
        ),
    )
