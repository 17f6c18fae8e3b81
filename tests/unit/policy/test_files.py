"""Faults of files of rates, jobs and clusters: each is named with its place and a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from quorate.model.job_types import JobType, parse_type
from quorate.policy.files.cluster_file import Cluster, read_cluster, read_clusters
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.jobs_file import JobState, read_jobs
from quorate.policy.files.problem_file import read_problem
from quorate.policy.files.table_problem import problem_from_table
from quorate.policy.files.throughputs_file import (
    ThroughputTable,
    read_throughputs,
    write_throughputs,
)
from quorate.policy.problem import Problem

SHARED: Final = Path(__file__).parents[4] / "shared" / "data" / "gavel"
SMALL: Final = "('small', 1)"
LARGE: Final = "('large', 1)"


def table(**changes: Any) -> dict[str, Any]:
    """Return a valid table of two types on two flavors, with ``changes`` to one of them."""
    fast = {
        SMALL: {"null": 4.0, SMALL: [3.0, 3.0], LARGE: [2.0, 0.5]},
        LARGE: {"null": 1.0, SMALL: [0.5, 2.0], LARGE: [0, 0]},
    }
    return {"fast": fast, "slow": {SMALL: {"null": 2.0}, LARGE: {"null": 0.0}}} | changes


def texts(found: object) -> list[str]:
    """Return the faults of unreadable input, as lines."""
    assert isinstance(found, Faulty), found
    return [fault.text() for fault in found.faults]


def encoded(tree: object) -> bytes:
    return json.dumps(tree).encode()


def sound(**changes: Any) -> ThroughputTable:
    found = read_throughputs(encoded(table(**changes)))
    assert isinstance(found, ThroughputTable), found
    return found


def test_a_cluster_without_names_counts_the_published_flavors() -> None:
    assert read_cluster("300:200:100") == Cluster(
        flavors=("v100", "p100", "k80"), gpus=(300, 200, 100)
    )
    assert read_clusters(b'{"philly": ["500:0:0"]}') == {
        "philly": (Cluster(flavors=("v100", "p100", "k80"), gpus=(500, 0, 0)),)
    }


def test_a_cluster_with_names_has_any_flavors_in_their_order() -> None:
    assert read_cluster("h100=8, l4 = 16") == Cluster(flavors=("h100", "l4"), gpus=(8, 16))


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["must give the GPUs of v100:p100:k80 in that order"]),
        ("8:8", ["must give the GPUs of v100:p100:k80 in that order"]),
        ("8:-1:x", ["p100: must be a number of GPUs, got '-1'", "k80: must be a number of GPUs"]),
        ("a=1,a=2,=3,b", ["a: is given twice", "has '=3'", "'b' has no number; write b=8"]),
        ("h100", ["'h100' has no number; write h100=8"]),
        ("h100,4", ["'h100' has no number; write h100=8", "has '4', which is not NAME=GPUS"]),
        ("a=1.5", ["a: must be a number of GPUs, got '1.5'; write 0 to "]),
    ],
)
def test_every_fault_of_a_cluster_is_named(text: str, faults: list[str]) -> None:
    found = texts(read_cluster(text))
    assert len(found) == len(faults)
    assert all(part in line for part, line in zip(faults, found, strict=True))


def test_a_file_of_clusters_names_the_trace_of_a_fault() -> None:
    found = texts(read_clusters(b'{"a": ["1:2"], "b": 7, "c": [3]}'))
    assert [line.split(":")[0] for line in found] == ["a[0]", "b", "c[0]"]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("('ResNet-18 (batch size 16)', 1)", JobType("ResNet-18 (batch size 16)", 1)),
        ('("it\'s", 8)', JobType("it's", 8)),
        ("('ResNet-18', 0)", None),
        ("ResNet-18", None),
        ("('a', 'b', 1)", None),
        ("('a' + 'b', 1)", None),
    ],
)
def test_a_type_is_a_model_and_its_gpus(key: str, found: JobType | None) -> None:
    assert parse_type(key) == found


def test_a_table_has_its_rates_under_their_names() -> None:
    spread = {SMALL: {"null": 3.5}, LARGE: {"null": 1.0}}
    found = sound(fast_unconsolidated=spread)
    assert found.flavors == ("fast", "slow")
    assert found.types == (JobType("small", 1), JobType("large", 1))
    assert found.together.alone.tolist() == [[4.0, 2.0], [1.0, 0.0]]
    assert found.together.paired[:, 0].tolist() == [[3.0, 3.0], [2.0, 0.5], [0.0, 0.0]]
    assert np.isnan(found.together.paired[:, 1]).all()
    assert found.spread.alone[:, 0].tolist() == [3.5, 1.0]
    assert np.isnan(found.spread.alone[:, 1]).all()


def test_what_a_table_lacks_is_named_and_no_fault() -> None:
    found = sound(slow={SMALL: {"null": 2.0}})
    assert [gap.text() for gap in found.gaps()] == [
        f'slow."{LARGE}".null: is missing; add its rate, 0 where it cannot run',
        (
            f'slow."{SMALL}"."{SMALL}": is missing; add the rates of the two, [0, 0] where '
            "they cannot share"
        ),
    ]


def test_only_types_of_several_gpus_can_lack_a_rate_on_gpus_that_are_not_together() -> None:
    wide, wider = "('wide', 2)", "('wider', 4)"
    both = {wide: {"null": 1.0, wide: [0.5, 0.5]}, wider: {"null": 2.0}}
    found = sound(fast=table()["fast"] | both, fast_unconsolidated={wide: {"null": 0.5}})
    assert [gap.place for gap in found.spread_gaps()] == [
        f'fast_unconsolidated."{wider}".null',
        f'fast_unconsolidated."{wide}"."{wide}"',
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"slow": {SMALL: {}}}, f'slow."{SMALL}".null: is missing'),
        ({"slow": {SMALL: {"null": -2}}}, f'slow."{SMALL}".null: is below 0: -2'),
        ({"slow": {SMALL: {"null": float("nan")}}}, f'slow."{SMALL}".null: is not finite: NaN'),
        ({"slow": {SMALL: {"null": 10**400}}}, f'slow."{SMALL}".null: is not a rate: 1000'),
        ({"slow": {SMALL: {"null": 1e-13}}}, f'slow."{SMALL}".null: is not a rate: 1e-13'),
        ({"slow": {SMALL: {"null": "2"}}}, "must be steps per second, got"),
        (
            {"slow": {SMALL: {"null": 1, SMALL: [1]}}},
            "must be the rates of the two jobs, got a list of 1",
        ),
        (
            {"slow": {SMALL: {"null": 1, SMALL: [1, -1]}}},
            f'slow."{SMALL}"."{SMALL}"[1]: is below 0',
        ),
        (
            {"slow": {SMALL: {"null": 1, SMALL: [1, 2]}}},
            "is [1, 2], but the same pair in the other order is [1, 2]",
        ),
        ({"slow": {"ResNet-18": {"null": 1}}}, 'slow."ResNet-18": is not a type of job'),
        ({"slow": 7}, "slow: must be an object, got 7"),
        ({"old_unconsolidated": {}}, "old_unconsolidated: there is no flavor old"),
        (
            {
                "slow": {
                    SMALL: {"null": 1, "('small', 2)": [1, 1]},
                    "('small', 2)": {"null": 1, SMALL: [1, 1]},
                }
            },
            "shares GPUs with a type of another scale",
        ),
    ],
)
def test_a_fault_of_a_table_has_its_place(changes: dict[str, Any], fault: str) -> None:
    found = texts(read_throughputs(encoded(table(**changes))))
    assert any(fault in line for line in found), found


@pytest.mark.parametrize("side", [SMALL, LARGE])
def test_a_pair_on_one_side_only_is_taken_and_written_back_on_both(side: str) -> None:
    other = LARGE if side == SMALL else SMALL
    rates = {SMALL: {"null": 1.0}, LARGE: {"null": 2.0}}
    one_sided = {**rates, side: {**rates[side], other: [3.0, 4.0]}}
    both = {**one_sided, other: {**rates[other], side: [4.0, 3.0]}}
    found = read_throughputs(encoded({"slow": one_sided}))
    mirrored = read_throughputs(encoded({"slow": both}))
    assert isinstance(found, ThroughputTable)
    assert isinstance(mirrored, ThroughputTable)
    assert write_throughputs(found) == write_throughputs(mirrored)
    assert len(found.pair_first) == 1


def test_a_key_that_is_given_twice_is_a_fault() -> None:
    found = texts(read_throughputs(b'{"a": {}, "a": {}, "b": {"null": 1, "null": 2}}'))
    assert [line for line in found if "twice" in line] == [
        "null: is given twice in one object; remove one of the two",
        "a: is given twice in one object; remove one of the two",
    ]


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000, b"7" * 5000, b'{"\\ud800": {}}'])
def test_a_text_that_is_no_json_is_one_fault(text: bytes) -> None:
    assert len(texts(read_throughputs(text))) == 1


def test_jobs_may_use_the_names_of_either_format() -> None:
    state = {"job_id": 3, "job_type": "small", "scale_factor": 2, "SLO": 60, "total_steps": 9}
    recorded = {
        "id": "3",
        "type": "small",
        "scale_factor": 2,
        "slo_seconds_left": 60.0,
        "num_steps_remaining": 9,
    }
    expected = (JobState(name="3", job_type="small", scale=2, deadline_s=60.0, steps_left=9.0),)
    assert read_jobs(encoded([state])) == expected
    assert read_jobs(encoded({"jobs": [recorded]})) == expected
    del recorded["id"]
    assert read_jobs(encoded({"3": recorded})) == expected


def test_a_fault_keeps_its_place_beside_others() -> None:
    jobs = [7, {"id": "a"}, {"id": True}, {"id": "a"}, {"id": "b", "scale_factor": "2"}]
    assert [line.partition(":")[0] for line in texts(read_jobs(encoded(jobs)))] == [
        "[0]",
        "[2].id",
        "[3]",
        "[4].scale_factor",
    ]
    found = texts(read_problem(encoded({"cluster_spec": {"x": 1}, "jobs": jobs[1:3]})))
    assert [line.partition(":")[0] for line in found] == [
        "jobs[1].id",
        "jobs[0].throughputs",
        "jobs[1].throughputs",
    ]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"id": "a,b"}, "jobs[0].id: must be a number, or a text without commas"),
        ({"job_id": 1}, "jobs[0].job_id: means the same as id"),
        ({"scale_factor": 0}, "jobs[0].scale_factor: must be from 1 to"),
        ({"scale_factor": 1.5}, "jobs[0].scale_factor: must be a whole number, got 1.5"),
        ({"priority_weight": 0}, "jobs[0].priority_weight: must be above 0, got 0"),
        ({"slo_seconds_left": -1}, "jobs[0].slo_seconds_left: must not be below 0, got -1"),
        ({"num_steps_remaining": "9"}, "jobs[0].num_steps_remaining: must be a number"),
        ({"time_since_start": True}, "jobs[0].time_since_start: must be a number, got true"),
        ({"throughputs": {"fast": 1}}, "jobs[0].throughputs.slow: is missing"),
        ({"throughputs": {"fast": 1, "slow": 1, "v": 1}}, "throughputs.v: is not a flavor"),
        ({"throughputs": {"fast": 1e999, "slow": 1}}, "throughputs.fast: must be a finite number"),
        ({"throughputs": {"fast": 1e16, "slow": 1}}, "throughputs.fast: is too large: 1e+16"),
        ({"throughputs": {"fast": 1e-13, "slow": 1}}, "throughputs.fast: is too small: 1e-13"),
        ({"num_steps_remaining": 1e-13}, "num_steps_remaining: is too small: 1e-13"),
        ({"priority_weight": 1e-13}, "jobs[0].priority_weight: is too small: 1e-13"),
        ({"throughputs": None}, "throughputs: is missing; add the rate on each flavor"),
        ({"wieght": 1}, "jobs[0].wieght: is not a known field"),
        (
            {"scale_facto": 1},
            "jobs[0].scale_facto: is not a known field; did you mean scale_factor?",
        ),
    ],
)
def test_a_fault_of_a_job_has_its_place(change: dict[str, Any], fault: str) -> None:
    job = {"id": 0, "throughputs": {"fast": 1, "slow": 1}} | change
    found = texts(read_problem(encoded({"cluster_spec": {"fast": 1, "slow": 2}, "jobs": [job]})))
    assert len(found) == 1
    assert fault in found[0]


PROBLEM: Final = {
    "cluster_spec": {"a": 1, "b": 2},
    "jobs": [{"id": k, "throughputs": {"a": 1, "b": 2}} for k in range(2)],
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"cluster_spec": {"a": 1, "b": -2}}, "cluster_spec.b: must be from 0 to"),
        ({"cluster_spec": "1:2"}, "cluster_spec: must give the GPUs of v100:p100:k80"),
        ({"instance_costs": {"a": 1}}, "instance_costs.b: is missing"),
        ({"instance_costs": {"a": 1, "b": 0}}, "instance_costs.b: must be above 0, got 0"),
        ({"instance_costs": {"a": 1, "b": 1, "c": 1}}, "instance_costs.c: is not a known field"),
        (
            {"pair_throughputs": {"0,2": {}}},
            "pair_throughputs.\"0,2\": names '2', which is not a job",
        ),
        ({"pair_throughputs": {"0,0": {}}}, 'pair_throughputs."0,0": is not a pair'),
        ({"pair_throughputs": {"0,1": {"a": [1, 1]}}}, 'pair_throughputs."0,1".b: is missing'),
        (
            {"pair_throughputs": {"0,1": {"a": [1, 1], "b": 7}}},
            "must be the rates of the two jobs, got 7",
        ),
        ({"entities": {"A": [0]}}, "entities: leaves job 1 out"),
        ({"entities": {"A": [0, 1, 1]}}, "entities.A[2]: names job 1, which already has an entity"),
        ({"entities": {"A": [0, 1, 9]}}, "entities.A[2]: names 9, which is not a job"),
        ({"entity_weights": {"A": 1}}, "entity_weights.A: is not a known field"),
        (
            {"entities": {"A": [0, 1]}, "entity_policies": {"A": "lottery"}},
            'entity_policies.A: must be fairness or fifo, got "lottery"',
        ),
        ({"cluster": {}}, "cluster: is not a known field; did you mean cluster_spec?"),
    ],
)
def test_a_fault_of_a_problem_has_its_place(change: dict[str, Any], fault: str) -> None:
    found = texts(read_problem(encoded(PROBLEM | change)))
    assert any(fault in line for line in found), found


def test_a_pair_may_be_named_in_either_order_and_once() -> None:
    rates = {"a": [1, 2], "b": [3, 4]}
    found = read_problem(encoded(PROBLEM | {"pair_throughputs": {"1,0": rates}}))
    assert isinstance(found, Problem)
    assert found.pairs is not None
    assert found.pairs.rates.tolist() == [[[2.0, 1.0], [4.0, 3.0]]]
    both = {"pair_throughputs": {"1,0": rates, "0,1": rates}}
    assert texts(read_problem(encoded(PROBLEM | both))) == [
        'pair_throughputs."0,1": is given twice; remove one of the two'
    ]


def test_jobs_of_two_scales_do_not_share() -> None:
    tree = json.loads(
        json.dumps(PROBLEM | {"pair_throughputs": {"0,1": {"a": [1, 1], "b": [1, 1]}}})
    )
    tree["jobs"][0]["scale_factor"] = 2
    assert texts(read_problem(encoded(tree))) == [
        (
            'pair_throughputs."0,1": has jobs of different scales; remove it; only '
            "jobs of the same scale share GPUs"
        )
    ]


def test_a_problem_of_a_table_needs_its_flavors_types_and_rates() -> None:
    jobs = (JobState(name="a", job_type="small"),)
    alone = Cluster(flavors=("fast", "h100"), gpus=(1, 1))
    assert texts(problem_from_table(sound(), jobs, alone)) == [
        "cluster.h100: is not a flavor of the table; it has fast, slow"
    ]
    both = Cluster(flavors=("slow", "fast"), gpus=(1, 1))
    wrong = (
        JobState(name="a", job_type="small", scale=2),
        JobState(name="b", job_type="other"),
        JobState(name="c"),
    )
    assert texts(problem_from_table(sound(), wrong, both)) == [
        (
            "jobs[0]: job a is of type ('small', 2), which the table does not have; the table "
            "has this model with scale 1"
        ),
        (
            "jobs[1]: job b is of type ('other', 1), which the table does not have; add it to the "
            "table, or give the job throughputs"
        ),
        "jobs[2]: job c has no type and no throughputs; add one of the two",
    ]
    gappy = sound(slow={LARGE: {"null": 1.0}})
    assert texts(problem_from_table(gappy, jobs, both)) == [
        (
            f'slow."{SMALL}".null: is missing in the table; add its rate, 0 where it cannot run, '
            "or estimate it"
        )
    ]


def test_a_pair_that_is_known_on_one_flavor_has_to_be_on_all() -> None:
    jobs = tuple(JobState(name=name, job_type="small") for name in "ab")
    both = Cluster(flavors=("slow", "fast"), gpus=(1, 1))
    assert texts(problem_from_table(sound(), jobs, both)) == [
        (
            f'slow."{SMALL}"."{SMALL}": is missing in the table; add the rates of the two, [0, 0] '
            "where they cannot share"
        )
    ]
    found = problem_from_table(sound(), jobs, both, with_pairs=False)
    assert isinstance(found, Problem)
    assert found.pairs is None


def test_a_job_with_rates_of_its_own_needs_no_type() -> None:
    fast = Cluster(flavors=("fast",), gpus=(2,))
    jobs = (
        JobState(name="a", job_type="small"),
        JobState(name="b", rates={"fast": 7.0}),
        JobState(name="c", job_type="large"),
    )
    found = problem_from_table(sound(), jobs, fast)
    assert isinstance(found, Problem)
    assert found.rates.tolist() == [[4.0], [7.0], [1.0]]
    assert found.pairs is not None
    assert (found.pairs.first.tolist(), found.pairs.second.tolist()) == ([0], [2])
    assert found.pairs.rates.tolist() == [[[2.0, 0.5]]]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published tables are not beside this project")
@pytest.mark.parametrize("name", ["simulation", "physical_cluster"])
def test_the_published_tables_are_read_and_their_gaps_named(name: str) -> None:
    found = read_throughputs((SHARED / f"{name}_throughputs.json").read_bytes())
    assert isinstance(found, ThroughputTable)
    assert (len(found.types), len(found.pair_first)) == (83, 921)
    assert found.flavors == ("k80", "p100", "v100")
    assert found.gaps() == ()
    places = [gap.place for gap in found.spread_gaps()]
    assert len(places) == 6
    assert all(place.startswith("k80_unconsolidated.\"('ResNet-50") for place in places)
