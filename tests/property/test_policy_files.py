"""Files of clusters, rates, jobs, problems and shares are the same after reading back."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.model.amounts import GPUS_MAX
from quorate.policy.allocation import Allocation
from quorate.policy.files.allocation_file import allocation_tree
from quorate.policy.files.cluster_file import (
    PUBLISHED_ORDER,
    Cluster,
    read_cluster,
    read_clusters,
)
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.jobs_file import JobState, read_jobs
from quorate.policy.files.json_bytes import encoded
from quorate.policy.files.problem_file import read_problem
from quorate.policy.files.table_problem import problem_from_table
from quorate.policy.files.throughputs_file import (
    ThroughputTable,
    read_throughputs,
    write_throughputs,
)
from quorate.policy.policies.gandiva import gandiva
from quorate.policy.problem import Problem
from tests.oracles.effort import examples
from tests.oracles.policy_files import (
    cluster_text,
    job_tree,
    published_text,
    read_allocation,
    write_clusters,
    write_problem,
)
from tests.oracles.rate_tables import job_states, problems, tables

EXAMPLES = Path(__file__).parents[2] / "examples"
WORDS = st.text("abcxyz0189-_ ", min_size=1, max_size=6).map(str.strip).filter(bool)
COUNTS = st.integers(0, GPUS_MAX)
CLUSTERS = st.dictionaries(WORDS, COUNTS, min_size=1, max_size=5).map(
    lambda found: Cluster(flavors=tuple(found), gpus=tuple(found.values()))
) | st.tuples(COUNTS, COUNTS, COUNTS).map(lambda gpus: Cluster(flavors=PUBLISHED_ORDER, gpus=gpus))


def same(one: object, other: object) -> bool:
    """Return whether two values, which may contain arrays, are equal; NaN equals NaN."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other, equal_nan=True)
    if dataclasses.is_dataclass(one):
        fields = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in fields
        )
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return one == other


@given(CLUSTERS)
def test_a_cluster_is_read_as_it_was_written(cluster: Cluster) -> None:
    assert read_cluster(cluster_text(cluster)) == cluster
    if (text := published_text(cluster)) is not None:
        assert read_cluster(text) == cluster


@pytest.mark.heavy
@given(st.dictionaries(st.text(), st.lists(CLUSTERS, max_size=3).map(tuple), max_size=3))
def test_a_file_of_clusters_is_read_as_it_was_written(
    clusters: dict[str, tuple[Cluster, ...]],
) -> None:
    assert read_clusters(write_clusters(clusters)) == clusters


def rates_by_name(table: ThroughputTable) -> dict[Any, Any]:
    """Return every rate of ``table`` by its names."""
    found: dict[Any, Any] = {}
    for kind in ("together", "spread"):
        rates = getattr(table, kind)
        for column, flavor in enumerate(table.flavors):
            for row, each in enumerate(table.types):
                found[kind, flavor, each] = rates.alone[row, column]
            for number, (one, other) in enumerate(
                zip(table.pair_first, table.pair_second, strict=True)
            ):
                names = table.types[one], table.types[other]
                both = tuple(rates.paired[number, column])
                found[kind, flavor, *sorted(names)] = both if names[0] <= names[1] else both[::-1]
    return {key: rate for key, rate in found.items() if not np.isnan(rate).any()}


@examples(0.5)
@given(tables())
def test_a_table_is_read_as_it_was_written(table: ThroughputTable) -> None:
    found = read_throughputs(write_throughputs(table))
    assert isinstance(found, ThroughputTable), found
    assert found.flavors == table.flavors
    assert rates_by_name(found) == rates_by_name(table)
    assert json.loads(write_throughputs(found)) == json.loads(write_throughputs(table))


@examples(0.5)
@given(tables(), st.data())
def test_every_fault_of_a_table_is_named_at_once(
    table: ThroughputTable, data: st.DataObject
) -> None:
    tree = json.loads(write_throughputs(table))
    cells = [(flavor, key) for flavor, types in tree.items() for key in types]
    broken = data.draw(
        st.lists(st.sampled_from(cells), max_size=4, unique=True) if cells else st.just([])
    )
    for flavor, key in broken:
        tree[flavor][key]["null"] = data.draw(
            st.sampled_from([-1.0, math.nan, math.inf, "2", None])
        )
    found = read_throughputs(json.dumps(tree).encode())
    if not broken:
        assert isinstance(found, ThroughputTable), found
        return
    assert isinstance(found, Faulty)
    places = [fault.place for fault in found.faults]
    assert len(places) == len(broken)
    assert len(set(places)) == len(broken)
    assert all(place.endswith("null") for place in places)
    assert all(fault.remedy for fault in found.faults)


@pytest.mark.heavy
@examples(0.5)
@given(tables(), st.data())
def test_a_pair_that_disagrees_with_its_mirror_is_named(
    table: ThroughputTable, data: st.DataObject
) -> None:
    tree = json.loads(write_throughputs(table))
    places = [
        (flavor, one, other)
        for flavor, types in tree.items()
        for one, entries in types.items()
        for other in entries
        if other != "null"
    ]
    assume(places)
    flavor, one, other = data.draw(st.sampled_from(places))
    tree[flavor][one][other][0] += 1.0
    found = read_throughputs(json.dumps(tree).encode())
    assert isinstance(found, Faulty)
    assert len(found.faults) == 1
    assert "in the other order" in found.faults[0].message


@given(st.lists(job_states(), max_size=5, unique_by=lambda job: job.name))
def test_jobs_are_read_as_they_were_written(jobs: list[JobState]) -> None:
    found = read_jobs(encoded([job_tree(job) for job in jobs]))
    assert isinstance(found, tuple), found
    assert len(found) == len(jobs)
    assert all(same(one, other) for one, other in zip(found, jobs, strict=True))


@examples(0.5)
@given(problems())
def test_a_problem_is_read_as_it_was_written(problem: Problem) -> None:
    found = read_problem(write_problem(problem))
    assert isinstance(found, Problem), found
    assert same(found, problem)


@pytest.mark.heavy
@examples(0.5)
@given(problems())
def test_an_allocation_is_read_as_it_was_written(problem: Problem) -> None:
    allocation = gandiva(problem)
    assume(isinstance(allocation, Allocation))
    assert isinstance(allocation, Allocation)
    found = read_allocation(allocation_tree(problem, allocation), problem)
    for name in ("first", "second", "shares"):
        assert same(getattr(found, name), getattr(allocation, name))


@examples(0.5)
@given(tables(), st.data())
def test_a_problem_made_of_a_table_has_the_rates_of_its_types(
    table: ThroughputTable, data: st.DataObject
) -> None:
    known = [
        row for row in range(len(table.types)) if not np.isnan(table.together.alone[row]).any()
    ]
    assume(known)
    rows = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=5))
    jobs = [
        JobState(name=str(k), job_type=table.types[row].model, scale=table.types[row].scale)
        for k, row in enumerate(rows)
    ]
    columns = data.draw(st.permutations(range(len(table.flavors))))
    flavors = tuple(table.flavors[column] for column in columns)
    cluster = Cluster(flavors=flavors, gpus=tuple(range(1, len(flavors) + 1)))
    found = problem_from_table(table, jobs, cluster)
    if isinstance(found, Faulty):
        # Two of the types share on one flavor, and their rates on another flavor are missing.
        assert all("is missing in the table" in fault.message for fault in found.faults)
        return
    assert np.array_equal(found.rates, table.together.alone[rows][:, columns])
    expected = {
        (one, other): _pair_of_types(table, rows[one], rows[other], columns)
        for one in range(len(rows))
        for other in range(one + 1, len(rows))
    }
    shared = {pair: rates for pair, rates in expected.items() if rates is not None}
    pairs = found.pairs
    if pairs is None:
        assert not shared
        return
    listed = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert listed == sorted(shared)
    for number, pair in enumerate(listed):
        assert np.array_equal(pairs.rates[number], shared[pair])


def _pair_of_types(
    table: ThroughputTable, one: int, other: int, columns: list[int]
) -> np.ndarray | None:
    """Return the rates of two types together, found by trying all pairs."""
    for number, pair in enumerate(zip(table.pair_first, table.pair_second, strict=True)):
        if pair in ((one, other), (other, one)):
            rates = table.together.paired[number][columns]
            rates = rates if pair == (one, other) else rates[:, ::-1]
            return rates if (rates > 0).all(axis=1).any() else None
    return None


@pytest.mark.parametrize("read", [read_clusters, read_throughputs, read_jobs, read_problem])
@given(
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
        lambda below: (
            st.lists(below, max_size=3)
            | st.dictionaries(
                st.sampled_from(["jobs", "cluster_spec", "entities", "null", "('a', 1)", "0,1"]),
                below,
                max_size=3,
            )
        ),
        max_leaves=12,
    ).map(lambda tree: json.dumps(tree).encode())
)
def test_whatever_a_file_holds_it_is_read_or_every_fault_is_named(read: Any, text: bytes) -> None:
    found = read(text)
    if isinstance(found, Faulty):
        assert found.faults
        assert all(fault.message and fault.remedy for fault in found.faults)
        assert all("\n" not in fault.text() for fault in found.faults)


SPOILING: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 2, 0.5, math.nan, math.inf, 10**400, "", "a,b", "0", [], [0], [0, 1, 2], {}]
)


def _spoiled(tree: Any, data: st.DataObject) -> Any:
    """Return ``tree`` with one value, at any depth, removed or replaced."""
    if isinstance(tree, dict) and tree:
        key = data.draw(st.sampled_from(sorted(tree)))
        if data.draw(st.integers(0, 3)) == 0:
            return {name: value for name, value in tree.items() if name != key}
        return tree | {key: _spoiled(tree[key], data)}
    if isinstance(tree, list) and tree and data.draw(st.integers(0, 3)):
        place = data.draw(st.integers(0, len(tree) - 1))
        return [*tree[:place], _spoiled(tree[place], data), *tree[place + 1 :]]
    return data.draw(SPOILING)


@pytest.mark.parametrize(
    ("read", "name"),
    [(read_problem, "problem.json"), (read_jobs, "jobs.json"), (read_throughputs, "rates.json")],
)
@examples(0.5)
@given(data=st.data())
def test_a_spoiled_file_is_read_or_every_fault_is_named(
    read: Any, name: str, data: st.DataObject
) -> None:
    tree = json.loads((EXAMPLES / name).read_text("utf-8"))
    if name == "problem.json":
        tree |= {"entities": {"A": [0, 1], "B": [2, 3]}, "entity_weights": {"A": 2}}
    for _ in range(data.draw(st.integers(1, 3))):
        tree = _spoiled(tree, data)
    found = read(json.dumps(tree).encode())
    if isinstance(found, Faulty):
        assert found.faults
        assert all(fault.message and fault.remedy for fault in found.faults)
    elif isinstance(found, Problem):
        assert same(read_problem(write_problem(found)), found)
