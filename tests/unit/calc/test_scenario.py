"""``calc scenario``: the engine plays a script, and failed expectations are listed."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run, unmet
from tests.unit.calc.drawn import NOW, budget, envelope, nodes, work

MINE = budget("mine", "me", envelope("e", 64))
EL: dict[str, Any] = {"malleable": {"min": 8, "max": 16, "step": 8}, "groupGPUs": 8}


def played(*steps: dict[str, Any], runs: list[dict[str, Any]] | None = None, **more: Any) -> Any:
    """Return the answer for a domain of 16 GPUs and one owner with enough money."""
    world = {
        "now": NOW,
        "nodes": nodes(A=16),
        "budgets": [MINE],
        "runs": runs if runs is not None else [work("r", 8)],
        "steps": list(steps),
    }
    return run("scenario", world | more)


def last(answer: Any) -> Any:
    """Return the state after the last step of a script whose expectations all hold."""
    assert unmet(answer) == []
    return answer["trace"][-1]


def document(kind: str, name: str, **spec: object) -> dict[str, Any]:
    """Return a document in the form that users write."""
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


RUN_DOCUMENT = document(
    "Run",
    "whole",
    owner="me",
    resources={"gpuType": "H100", "totalGPUs": 4},
    runtime={"expectedDuration": "2h", "checkpoint": "3m"},
    nonce="n",
)


def test_a_run_is_submitted_by_name_in_few_words_or_as_a_document() -> None:
    state = last(played({"submit": "r"}, {"submit": work("s", 2)}, {"submit": RUN_DOCUMENT}))
    assert {name: each["width"]["allocated"] for name, each in state["runs"].items()} == {
        "r": 8,
        "s": 2,
        "whole": 4,
    }
    assert state["free"] == {"west/c/A": 2}


def test_a_world_may_be_documents_and_steps_may_apply_more() -> None:
    more = document("Node", "b00", gpus=8, flavor="H100")
    more["metadata"]["labels"] = {"region": "west", "cluster": "c", "fabric.domain": "B"}
    pool = document("Pool", "default", reservationNotice="1m")
    answer = played({"apply": [more]}, {"submit": "r"}, documents=[document("Owner", "o"), pool])
    assert last(answer)["free"] == {"west/c/A": 16, "west/c/B": 0}
    assert "owner/o" not in answer["trace"][0]["events"]


def test_the_events_of_a_step_are_told_in_words() -> None:
    answer = played({"submit": "r"}, {"at": "1h", "complete": "r"})
    assert answer["trace"][0]["events"] == [
        "run/r of me: 8 GPUs, H100",
        "lease/r/0 Start, the run was admitted: 8 GPUs on a00[0-7], paid from mine/e (owned)",
    ]
    assert answer["trace"][1]["events"] == [
        "lease/r/0 End, the work is done: charged up to 2026-01-01T13:00:00Z",
        "run/r Completed",
    ]
    assert answer["trace"][1]["at"] == "2026-01-01T13:00:00Z"


def test_what_is_expected_and_is_not_so_is_named_with_both_values() -> None:
    answer = played(
        {"submit": "r", "expect": {"runs": {"r": {"phase": "Pending", "leases": 1}}}},
        {"expect": {"free": {"west/c/A": 8}, "runs": {"ghost": {"phase": "Running"}}}},
    )
    assert answer["ok"] is False
    assert answer["failed"] == [
        {"path": "steps[0].expect.runs.r.phase", "expected": "Pending", "found": "Running"},
        {
            "path": "steps[1].expect.runs.ghost",
            "expected": {"phase": "Running"},
            "found": None,
        },
    ]
    assert unmet(answer)[0] == ('steps[0].expect.runs.r.phase: expected "Pending", found "Running"')


@pytest.mark.parametrize(
    ("expected", "holds"),
    [
        ({"atLeast": 8}, True),
        ({"atLeast": 9}, False),
        ({"atMost": 8}, True),
        ({"atMost": 7}, False),
        ({"atLeast": 1, "atMost": 9}, True),
        ({"oneOf": [1, 8]}, True),
        ({"oneOf": [1, 2]}, False),
        ({"absent": True}, False),
        ({"absent": False}, True),
        (8, True),
        ("8", False),
    ],
)
def test_operators(expected: object, holds: bool) -> None:  # noqa: FBT001 - a parameter
    answer = played({"submit": "r", "expect": {"free": {"west/c/A": expected}}})
    assert answer["ok"] is holds


def test_a_field_that_is_absent_may_be_expected_to_be() -> None:
    state = {"runs": {"ghost": {"absent": True}}, "error": {"absent": True}}
    last(played({"submit": "r", "expect": state}))
    assert not played({"submit": "r", "expect": {"runs": {"r": {"absent": True}}}})["ok"]
    assert not played({"submit": "r", "expect": {"runs": {"ghost": {"atLeast": 0}}}})["ok"]


def test_a_refused_deed_is_part_of_the_story() -> None:
    state = last(
        played({"complete": "r"}, {"cancel": "r", "expect": {"error": "there is no run 'r'"}})
    )
    assert state["refusals"][0]["code"] == "unknown-name"


def test_between_two_steps_what_is_due_happens_unless_it_is_quiet() -> None:
    runs = [work("r", 16, expectedDuration="1h")]
    steps: list[dict[str, Any]] = [{"submit": "r"}, {"at": "3h"}]
    loud = last(played(*steps, runs=runs))["events"]
    quiet = last(played(*steps, runs=runs, quiet=True))["events"]
    assert {text.partition(":")[0] for text in [*loud, *quiet]} == {"lease/r/0"}
    assert (len(loud), len(quiet)) == (8, 1)


def test_with_an_executor_a_stop_is_over_when_it_is_confirmed() -> None:
    runs = [work("r", 16, **EL)]
    stopping: list[dict[str, Any]] = [
        {"submit": "r"},
        {"at": "1h", "shrink": {"run": "r", "gpus": 8}},
    ]
    state = last(played(*stopping, runs=runs, executor=True))
    assert (state["free"], state["runs"]["r"]["stoppingGPUs"]) == ({"west/c/A": 0}, 8)
    for confirm in ("r", True, {"lease": "r/1"}, {"run": "r"}):
        state = last(played(*stopping, {"confirm": confirm}, runs=runs, executor=True))
        assert (state["free"], state["runs"]["r"]["stoppingGPUs"]) == ({"west/c/A": 8}, 0)
    state = last(played(*stopping, runs=runs))
    assert state["free"] == {"west/c/A": 8}


def test_confirming_a_lease_that_is_not_stopping_is_refused() -> None:
    answer = played({"submit": "r"}, {"confirm": {"lease": "r/0"}}, executor=True)
    assert "was not ordered to stop" in last(answer)["error"]


def test_nodes_fail_come_back_are_cordoned_and_drained() -> None:
    answer = played(
        {"submit": "r"},
        {"failNode": "a00", "expect": {"nodes": {"a00": "Failed"}, "free": {"west/c/A": 0}}},
        {"recover": "a00", "expect": {"nodes": {"a00": {"absent": True}}}},
        {"cordon": "a00", "expect": {"nodes": {"a00": "Cordoned"}}},
        {"drain": "a01", "expect": {"nodes": {"a01": "Cordoned"}}},
        {"expect": {"runs": {"r": {"phase": "Pending"}}}},
    )
    assert last(answer)["runs"]["r"]["closedLeaseGPUs"] == {"Drained": 8, "Fail": 8}


def test_resolving_by_hand_is_declared_one_notice_ahead() -> None:
    answer = played(
        {"submit": "r"},
        {"at": "2h", "resolve": {"flavor": "H100", "deficit": 8, "domains": ["west/c/A"]}},
        {"expect": {"conflicts": [{"outcome": "Declared", "cause": "ByHand", "deficit": 8}]}},
        {"at": "2h15m", "expect": {"conflicts": [{"outcome": "Cleared", "victims": ["r"]}]}},
    )
    assert last(answer)["runs"]["r"]["closedLeaseGPUs"] == {"RandomPreempt": 8}


def test_owners_come_change_and_go() -> None:
    waiting = document(
        "Run", "w", owner="me", resources={"gpuType": "H100", "totalGPUs": 8}, onQuota="wait"
    )
    answer = played(
        {"createOwner": document("Owner", "new", quota={"maxNodes": 1})},
        {"updateOwner": {"name": "me", "quota": {"max_nodes": 1}, "parents": ["new"]}},
        {"submit": "r"},
        {"submit": waiting, "expect": {"runs": {"w": {"phase": "Pending"}}}},
        {"removeOwner": "new"},
        {"updateOwner": {"name": "me", "unset": ["maxNodes", "parents"], "version": 1}},
        {"updateOwner": {"name": "me", "unset": ["maxNodes", "parents"]}},
        {"removeOwner": {"name": "new"}, "expect": {"runs": {"w": {"phase": "Running"}}}},
    )
    codes = [[each["code"] for each in step.get("refusals", [])] for step in answer["trace"]]
    assert codes[4:] == [["conflict"], ["stale-version"], [], []]
    assert last(answer)["runs"]["w"]["phase"] == "Running"


def test_after_a_restart_the_story_goes_on() -> None:
    steps: list[dict[str, Any]] = [{"submit": "r"}, {"at": "1h", "tick": True}]
    end = {"at": "2h", "complete": "r", "expect": {"runs": {"r": {"phase": "Completed"}}}}
    one, other = played(*steps, end), played(*steps, {"restart": True}, end)
    assert last(one) == last(other)


def test_the_clock_may_be_set_back_and_time_does_not_run_back() -> None:
    answer = played({"at": "2h", "submit": "r"}, {"at": "1h", "complete": "r"})
    assert last(answer)["runs"]["r"]["phase"] == "Completed"


def test_runs_may_be_somewhere_in_their_lives_when_a_story_begins() -> None:
    runs = [
        work("up", 8, phase="Completed"),
        work("on", 8, phase="Running"),
        work("down", 8, follow={"after": ["up", "on"]}),
    ]
    answer = played(
        {
            "submit": "down",
            "expect": {"runs": {"down": {"phase": "Waiting", "message": "waiting for: on"}}},
        },
        {"complete": "on", "expect": {"runs": {"down": {"phase": "Running"}}}},
        runs=runs,
    )
    last(answer)


def test_steps_with_an_op_do_what_they_are_called() -> None:
    answer = played(
        {"op": "bind", "run": "r"},
        {"op": "addNode", "addNode": nodes(B=8)[0]},
        {"op": "addRun", "addRun": work("el", 16, **EL)},
        {"op": "reconcile", "run": "el", "at": "2026-01-01T12:30:00Z"},
        {"op": "set", "run": "el", "desired": 8},
        {"op": "failNode", "node": "b00"},
        {"op": "set", "run": "r", "phase": "Completed"},
        {"op": "activate", "at": "2026-01-01T13:00:00Z"},
    )
    assert [entry["op"] for entry in answer["trace"]][:2] == ["bind", "addNode"]
    state = last(answer)
    assert (state["runs"]["r"]["phase"], state["runs"]["el"]["width"]["allocated"]) == (
        "Completed",
        8,
    )


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ([{"submit": "ghost"}], "steps[0].submit"),
        ([{"submit": "r", "cancel": "r"}], "steps[0].cancel"),
        ([{"submitt": "r"}], "steps[0].submitt"),
        ([{"tick": 1}], "steps[0].tick"),
        ([{"at": "soon"}], "steps[0].at"),
        ([{"at": 3}], "steps[0].at"),
        ([{"shrink": {"run": "r"}}], "steps[0].shrink.gpus"),
        ([{"submit": "r"}, {"expect": 3}], "steps[1].expect"),
        ([{"expect": {"runs": {"r": {"oneOf": 3}}}}], "steps[0].expect.runs.r.oneOf"),
        ([{"expect": {"runs": {"oneOf": [1], "r": {}}}}], "steps[0].expect.runs.oneOf"),
        ([{"expect": {"free": [{"atLeast": "1"}]}}], "steps[0].expect.free[0].atLeast"),
        ([{"op": "dance"}], "steps[0].op"),
        ([{"op": "bind"}], "steps[0].run"),
        ([{"op": "bind", "run": "ghost"}], "steps[0].run"),
        ([{"op": "set", "run": "r", "phase": "Running"}], "steps[0].phase"),
        ([{"op": "addRun", "addRun": {"name": "x"}}], "steps[0].addRun.gpuType"),
        ([{"apply": {"kind": "Nope"}}], "steps[0].apply.apiVersion"),
        ([{"apply": [RUN_DOCUMENT, {}]}], "steps[0].apply[1].apiVersion"),
        ([{"submit": document("Owner", "o")}], "steps[0].submit"),
        ([{"createOwner": document("Owner", "o", quota={"maxNodes": -1})}], "steps[0].createOwner"),
        ([{"createOwner": RUN_DOCUMENT}], "steps[0].createOwner"),
        ([{"updateOwner": {"quota": {}}}], "steps[0].updateOwner.name"),
        ([{"updateOwner": {"name": "me", "quota": 3}}], "steps[0].updateOwner"),
        ([{"updateOwner": {"name": "me", "unset": ["nodes"]}}], "steps[0].updateOwner.unset[0]"),
        ([{"updateOwner": {"name": "me", "version": 0}}], "steps[0].updateOwner.version"),
        ([{"removeOwner": {"version": 4}}], "steps[0].removeOwner.name"),
        pytest.param(
            [{"at": "1h"}, {"at": "2190-01-01T00:00:00Z"}], "steps[1].at", marks=pytest.mark.slow
        ),
        ("none", "steps"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_path(steps: Any, path: str) -> None:
    if path == "steps[1].at":
        # A change is due every quarter of an hour for a very long time.
        steps = [{"submit": "r"}, steps[1]]
    world = {"now": NOW, "nodes": nodes(A=16), "budgets": [MINE], "runs": [work("r", 8)]}
    with pytest.raises(CalcInputError) as caught:
        run("scenario", {**world, "steps": steps})
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"leases": []}, "leases"),
        ({"secret": 3}, "secret"),
        ({"executor": "yes"}, "executor"),
        ({"documents": [document("Pool", "p", notice="1h")]}, "documents[0].spec.notice"),
        ({"runs": [work("r", 8), work("r", 8)]}, "runs[1].name"),
        (
            {"runs": [work("r", 8, malleable={"min": 8, "max": 13, "step": 4})]},
            "runs[0].malleable.max",
        ),
        ({"runs": [work("r", 9, malleable={"min": 8, "max": 16, "step": 4})]}, "runs[0].totalGPUs"),
        ({"runs": [work("r", 5000, groupGPUs=1)]}, "runs[0].groupGPUs"),
        (
            {"runs": [work("r", 1, malleable={"min": 1, "max": 900, "step": 1})]},
            "runs[0].malleable.step",
        ),
        ({"runs": [{"name": "r", "gpuType": "H100", "totalGPUs": 1}]}, "runs[0].owner"),
        ({"runs": [work("r", 8, follow={"after": []})]}, "runs[0].follow.after"),
    ],
)
def test_a_world_that_cannot_be_read_is_named_by_its_path(more: dict[str, Any], path: str) -> None:
    with pytest.raises(CalcInputError) as caught:
        played({"submit": "r"}, **more)
    assert caught.value.path == path


def test_a_world_that_cannot_be_declared_is_refused_with_the_reason() -> None:
    circle = [document("Owner", "a", parents=["b"]), document("Owner", "b", parents=["a"])]
    with pytest.raises(CalcInputError, match="world: "):
        played({"submit": "r"}, documents=circle)


def test_owners_whose_parents_make_a_circle_are_refused_where_they_are_declared() -> None:
    circle = [{"name": "a", "parents": ["b"]}, {"name": "b", "parents": ["a"]}]
    with pytest.raises(CalcInputError, match="owners: has parents that make a cycle: a -> b -> a"):
        played({"submit": "r"}, owners=circle)
