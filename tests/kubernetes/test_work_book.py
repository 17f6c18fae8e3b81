"""The record of work by which the results of faults are checked."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from tests.kubernetes.work_book import Worked, leased, work_faults


def lease(name: str, start_ms: int, end_ms: int | None) -> list[dict[str, Any]]:
    run = name.partition("/")[0]
    slots = [{"node": "n", "slots": [0, 1]}]
    events: list[dict[str, Any]] = [
        {"tag": "lease-started/2", "lease": name, "run": run, "slots": slots, "start_ms": start_ms}
    ]
    if end_ms is not None:
        events.append({"tag": "lease-ended/1", "lease": name, "at_ms": end_ms})
    return events


def pod(run: str, began_ms: float, ended_ms: float, *slots: int, node: str = "n") -> Worked:
    return Worked(
        uid=f"{run}-{began_ms}",
        run=run,
        node=node,
        slots=tuple(("n", each) for each in slots),
        began_ms=began_ms,
        ended_ms=ended_ms,
    )


FAILED = {"tag": "node-marked/1", "node": "n", "status": "Failed", "at_ms": 50}
A = lease("a/1", 0, 100)
THEN_B = [*A, *lease("b/1", 100, 200)]


@pytest.mark.parametrize(
    ("events", "worked"),
    [
        (A, [pod("a", 5, 90, 0, 1)]),
        (THEN_B, [pod("a", 5, 90, 0, 1), pod("b", 110, 190, 0)]),
        ([*A, *lease("a/2", 100, 300)], [pod("a", 5, 250, 0)]),
        ([*A, FAILED], [pod("a", 5, inf, 0)]),
        ([*THEN_B, FAILED], [pod("a", 5, inf, 0), pod("b", 110, inf, 0)]),
        (lease("a/1", 0, None), [pod("a", 5, inf, 0)]),
    ],
)
def test_work_under_leases_is_as_it_should_be(
    events: list[dict[str, Any]], worked: list[Worked]
) -> None:
    assert work_faults(worked, leased(events)) == []


@pytest.mark.parametrize(
    ("events", "worked", "fault"),
    [
        (A, [pod("b", 5, 90, 0)], "b: works on ('n', 0) without a lease"),
        (A, [pod("a", 5, 90, 2)], "a: works on ('n', 2) without a lease"),
        (A, [pod("a", 5, 120, 0)], "a: works on ('n', 0) without a lease"),
        (lease("a/1", 10, 90), [pod("a", 5, 80, 0)], "a: works on ('n', 0) without a lease"),
        ([*A, *lease("a/2", 150, 300)], [pod("a", 5, 250, 0)], "without a lease"),
        (A, [pod("a", 5, 90, 0, node="m")], "a: a pod for n works on m"),
        (THEN_B, [pod("a", 5, 100, 0), pod("b", 100, 190, 0), pod("b", 150, 190, 0)], "b and b"),
        ([*A, *lease("b/1", 40, 90)], [pod("a", 5, 60, 0), pod("b", 50, 90, 0)], "a and b work"),
    ],
)
def test_work_without_a_lease_and_work_of_two_is_found(
    events: list[dict[str, Any]], worked: list[Worked], fault: str
) -> None:
    assert [each for each in work_faults(worked, leased(events)) if fault in each]
