"""``calc forecast``: the start of a run, and what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run
from tests.unit.calc.drawn import NOW, budget, envelope, nodes, placed, work

MINE = budget("mine", "me", envelope("e", 64))


def forecast(
    *leases: dict[str, Any], runs: list[dict[str, Any]], name: str = "new", **more: Any
) -> dict[str, Any]:
    """Return the start of a run in a domain of 16 GPUs; by default no run may be drawn."""
    world = {
        "now": NOW,
        "nodes": nodes(A=16),
        "budgets": [MINE],
        "pool": {"disruptionRate": 0},
        "runs": runs,
        "leases": list(leases),
        "forecast": {"run": name},
    }
    return run("forecast", world | more)


OLD = work("old", 8, expectedDuration="5h")
"""Running since 10:00, so until 15:00."""


def test_a_run_that_fits_starts_now() -> None:
    answer = forecast(runs=[work("new", 16)])
    assert (answer["startsNow"], answer["plannedStart"], answer["deficit"]) == (True, NOW, 0)
    assert answer["payers"] == [{"payer": "mine/e", "tier": "owned", "quantity": 16}]
    assert answer["domains"] == [["west/c/A", 16]]


def test_a_run_starts_when_what_is_in_its_way_is_expected_to_end() -> None:
    answer = forecast(placed("old", "a00", 8), runs=[OLD, work("new", 16)])
    assert answer["startsNow"] is False
    assert answer["plannedStart"] == answer["naturalStart"] == "2026-01-01T15:00:00Z"
    assert answer["countdownSeconds"] == 3 * 60 * 60
    assert answer["planState"] == "tentative"
    assert (answer["deficit"], answer["payingEnvelope"]) == (8, "e")
    assert answer["reason"] == "cluster short by 8 GPUs in scope"
    assert answer["scope"] == {"region": "west", "cluster": "c", "fabric.domain": "A"}
    assert answer["confidence"] == "expected"


@pytest.mark.heavy
def test_a_conflict_comes_before_that_where_one_may_be_asked_for() -> None:
    answer = forecast(
        placed("old", "a00", 8),
        runs=[OLD, work("new", 16)],
        pool={"disruptionRate": 1},
    )
    assert answer["byConflict"] is True
    assert answer["plannedStart"] == answer["conflictStart"] == "2026-01-01T12:15:00Z"
    assert answer["planState"] == "firm"
    assert answer["naturalStart"] == "2026-01-01T15:00:00Z"


def test_why_no_conflict_may_be_asked_for_is_said() -> None:
    answer = forecast(placed("old", "a00", 8), runs=[OLD, work("new", 16)])
    assert answer["noConflictBecause"] == "pool default has a disruptionRate of 0"


def test_one_who_waits_before_is_not_delayed() -> None:
    first = work("first", 16, phase="Pending", expectedDuration="2h")
    alone = forecast(placed("old", "a00", 8), runs=[OLD, work("new", 12)])
    behind = forecast(placed("old", "a00", 8), runs=[OLD, first, work("new", 12)])
    assert alone["plannedStart"] == "2026-01-01T15:00:00Z"
    assert behind["plannedStart"] == "2026-01-01T17:00:00Z"
    assert behind["queuePosition"] == 2


def test_who_has_no_money_is_told_how_much_is_short() -> None:
    answer = forecast(runs=[work("new", 16)], budgets=[budget("mine", "me", envelope("e", 12))])
    assert (answer["plannedStart"], answer["deficit"]) == (None, 4)
    assert answer["reason"] == "budget headroom short by 4 GPUs"
    assert answer["parked"]
    assert any("12 GPUs" in remedy for remedy in answer["remedies"])


def test_a_window_that_opens_is_waited_for() -> None:
    later = envelope(
        "e", 16, start="2026-01-02T00:00:00Z", preActivation={"allowReservations": True}
    )
    answer = forecast(runs=[work("new", 16)], budgets=[budget("mine", "me", later)])
    assert answer["plannedStart"] == "2026-01-02T00:00:00Z"
    assert answer["confidence"] == "certain"


def test_an_overdue_run_makes_the_answer_rough() -> None:
    late = work("old", 8, expectedDuration="1h")
    answer = forecast(placed("old", "a00", 8), runs=[late, work("new", 16)])
    # Two hours of one: 75 min, 93.75 min, 117.2 min are over; the next rung is 146.5 min.
    assert answer["plannedStart"] == "2026-01-01T12:26:29.062Z"
    assert (answer["confidence"], answer["overdue"]) == ("rough", ["old"])


def test_leases_on_nodes_outside_the_world_cost_money_and_no_room() -> None:
    spent = placed("old", "far", 8, budget="mine", envelope="e")
    answer = forecast(
        spent, runs=[OLD, work("new", 16)], budgets=[budget("mine", "me", envelope("e", 20))]
    )
    assert (answer["deficit"], answer["plannedStart"]) == (4, "2026-01-01T15:00:00Z")


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"forecast": {"run": "ghost"}}, "forecast.run"),
        ({"forecast": {}}, "forecast.run"),
        ({"forecast": {"run": "new", "when": 1}}, "forecast.when"),
        ({"runs": [work("new", 16) | {"gpus": 3}]}, "runs[0].gpus"),
        ({"pool": {"notice": "1h"}}, "pool.notice"),
        ({"nodes": [{"name": "n", "gpus": 8}]}, "nodes[0].flavor"),
        ({"leases": [placed("new", "a00", 8, budget="b", envelope="e")]}, "leases[0].budget"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_path(more: dict[str, Any], path: str) -> None:
    with pytest.raises(CalcInputError) as caught:
        forecast(**({"runs": [work("new", 16)]} | more))
    assert caught.value.path == path


def test_a_run_that_runs_is_no_question() -> None:
    assert forecast(placed("old", "a00", 8), runs=[OLD], name="old")["error"] == "InvalidRequest"
