"""``calc rounds``: a replayed recording, and the errors of faulty recordings."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from quorate.calc import CalcInputError, run
from tests.unit.calc.test_spoiled_worlds import RECORDING


def recording(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(RECORDING), **changes}


def played(world: object) -> Any:
    return run("rounds", world)


def said(world: object) -> str:
    with pytest.raises(CalcInputError) as refused:
        run("rounds", world)
    return str(refused.value)


def assignments(answer: dict[str, Any]) -> list[dict[str, list[int]]]:
    return [each["assignments"] for each in answer["rounds"]]


def test_the_rounds_are_those_of_the_published_mechanism() -> None:
    answer = played(recording())
    # The strict mechanism gives job 0 v100 although its share there is 0, because v100 comes first.
    assert assignments(answer) == [{"0": [2], "1": [0]}, {"0": [2]}, {"0": [2]}, {}]
    assert answer["jct"] == {"0": 180.0, "1": 60.0}
    assert answer["makespan"] == 180.0
    assert answer["average_jct"] == 120.0
    assert answer["lease_extensions"] == [2, 2]
    assert answer["utilization"] == pytest.approx((180 + 60) / 180 / 3)


def test_a_round_has_all_that_it_was_chosen_by() -> None:
    first = played(recording())["rounds"][0]
    assert first["t"] == 0.0
    assert first["reset"] is True
    assert first["allocation"]["0,1"] == {"a100": 0.5}
    assert first["priorities"]["a100"] == {"0": 1.5, "1": 0.0, "0,1": 1.5}
    assert first["deficits"]["v100"] == {"0": 0.0, "1": 0.0, "0,1": 30.0}
    assert first["job_time_so_far"]["0"] == {"a100": 30.0, "v100": 30.0}
    assert first["worker_time_so_far"] == {"a100": 90.0, "v100": 90.0}
    assert first["remaining_steps"] == {"0": 90, "1": 60}


def test_gpus_are_numbered_by_flavor_and_server_where_they_are_not_named() -> None:
    world = recording()
    del world["worker_ids"]
    assert run("rounds", world) == run("rounds", recording())


def test_pairs_too_small_to_be_recorded_are_found_from_their_priorities() -> None:
    world = recording()
    del world["resets"][0]["allocation"]["0,1"]
    priorities = {"a100": {"0": 1.5, "1": 0.0, "0,1": 3e-10}, "v100": {"0,1": 0.0}}
    world["rounds"] = [
        {"reset": True, "priorities": priorities},
        {"reset": True, "priorities": {}},
        {"reset": False},
    ]
    first = played(world)["rounds"][0]
    assert first["allocation"]["0,1"] == {"a100": 1e-10, "v100": 0.0}
    assert first["priorities"]["a100"]["0,1"] == pytest.approx(3e-10)


def test_what_is_missing_is_named() -> None:
    for name in ("policy", "cluster_spec", "jobs", "resets"):
        world = recording()
        del world[name]
        assert said(world) == f"{name}: is required; add {name}"
    world = recording()
    del world["throughputs"]
    assert said(world).startswith("throughputs: is required")
    assert "--throughputs" in said(world)


def test_a_type_of_job_that_the_table_does_not_have_is_named() -> None:
    world = recording()
    world["jobs"][1]["type"] = "gan"
    assert said(world) == (
        "throughputs.a100: has no \"('gan', 1)\"; add it: a job of the recording needs its rate"
    )
    world = recording()
    del world["throughputs"]["v100"]
    assert said(world).startswith('throughputs: has no "v100"')
    world = recording()
    del world["throughputs"]["v100"]["('lm', 1)"]["('lm', 1)"]
    assert said(world).startswith("throughputs.v100[\"('lm', 1)\"]: has no \"('lm', 1)\"")


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (-1, "must be steps per second, got -1; write 0 or more"),
        (float("nan"), "must be steps per second"),
        ("fast", "must be steps per second"),
    ],
)
def test_a_rate_that_is_none_is_named(rate: object, message: str) -> None:
    world = recording()
    world["throughputs"]["v100"]["('lm', 1)"]["null"] = rate
    assert f"throughputs.v100[\"('lm', 1)\"].null: {message}" in said(world)


def test_an_allocation_that_does_not_belong_is_named() -> None:
    world = recording()
    world["resets"][1]["t"] = 61.0
    assert said(world).startswith("resets[1].t: is 61.0, but the next reset is at 60.0 s")
    del world["resets"][1]
    assert said(world) == "resets: has no allocation for the reset at 60.0 s; add it"
    world = recording()
    world["resets"][1]["allocation"]["1"] = {"a100": 1.0}
    assert said(world).startswith(
        "resets[1].allocation: has 1, but not all of its jobs wait or run"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("7", "is not a job of this recording"),
        ("0,0", "is not a pair of two jobs of the same scale_factor"),
        ("0,1,0", "is not a pair of two jobs of the same scale_factor"),
    ],
)
def test_a_row_that_is_none_is_named(row: str, message: str) -> None:
    world = recording()
    world["resets"][0]["allocation"][row] = {"a100": 0.1}
    assert message in said(world)


def test_a_pair_is_none_of_a_policy_that_makes_none_nor_a_flavor_of_another_cluster() -> None:
    assert "max_min_fairness makes no pairs" in said(recording(policy="max_min_fairness"))
    world = recording()
    world["resets"][0]["allocation"]["0"] = {"h100": 0.1}
    assert "h100: is not a flavor of cluster_spec" in said(world)


def test_jobs_come_in_order_and_once() -> None:
    world = recording()
    world["jobs"][0]["arrival"] = 5.0
    assert said(world) == "jobs: are not in the order in which they arrive; sort them by arrival"
    world = recording()
    world["jobs"][1]["id"] = 0
    assert said(world).startswith("jobs: has job 0 more than once")
    assert said(recording(jobs=[])).startswith("jobs: is empty")


def test_jobs_that_never_run_are_named() -> None:
    world = recording(policy="fifo_packed")
    world["resets"][0]["allocation"] = {"0": {"a100": 0.0}, "1": {"a100": 0.0}}
    assert said(world).startswith("resets: 2 jobs never run, job '0' among them")
    world = recording()
    world["jobs"][0]["total_steps"] = 10**11
    assert said(world).startswith("resets: job '0' takes more than 100000 rounds")
    assert said(recording(worker_ids=None, cluster_spec={"a100": 10**6})).startswith(
        "cluster_spec: has more than 100000 GPUs"
    )


def test_what_else_a_recording_has_is_left_alone() -> None:
    assert run("rounds", recording(trace="x", jct={}, note=[1])) == run("rounds", recording())
