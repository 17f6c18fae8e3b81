"""Conditions of a run that released its GPUs because its pods were not ready in time."""

from __future__ import annotations

from typing import Any

from quorate.service.custom_resources.resource_conditions import (
    Said,
    condition_trees,
    eviction_conditions,
)

HELD = {
    "phase": "Pending",
    "refusal": {"code": "start-refused", "message": "exceeded quota", "wanted": 8},
}
WAITS = {"phase": "Pending", "refusal": {"code": "reserved", "message": "later", "wanted": 8}}
RUNS = {"phase": "Running"}
OVER = {"phase": "Failed"}


def after(*statuses: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    """Return the conditions of a run that had ``statuses`` one after the other."""
    trees: list[dict[str, Any]] = []
    said: tuple[Said, ...] = ()
    for each in statuses:
        said = eviction_conditions(each, trees)
        trees = condition_trees(said, trees, 1, "now")
    return {each.type: (each.holds, each.reason) for each in said}


def test_nothing_is_said_of_a_run_that_was_never_refused() -> None:
    assert after(WAITS, RUNS, OVER) == {}


def test_a_run_is_evicted_until_it_is_admitted_again_and_queued_when_its_pause_is_over() -> None:
    evicted = (True, "PodsReadyTimeout")
    assert after(HELD) == {"Evicted": evicted, "Requeued": (False, "PodsReadyTimeout")}
    assert after(HELD, WAITS) == {"Evicted": evicted, "Requeued": (True, "BackoffFinished")}
    again = {"Evicted": (False, "Admitted"), "Requeued": (True, "BackoffFinished")}
    assert after(HELD, WAITS, RUNS) == again
    assert after(HELD, RUNS, WAITS) == again
    assert after(HELD, RUNS, OVER) == again
    assert after(HELD, RUNS, HELD) == after(HELD)
