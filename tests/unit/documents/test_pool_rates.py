"""The throughputs of a Pool document: the published format in, whole numbers out, faults named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorate.documents import Documents, Invalid, parse_documents, to_json
from quorate.documents.pool_rates import RATES_MAX
from quorate.documents.render import render
from quorate.model.specs import FlavorRates, Pool, TypeRates

A, B = "('a', 1)", "('b', 1)"
TABLE: dict[str, Any] = {
    "v100": {A: {"null": 20.5, B: [13.0, 4.2]}, B: {"null": 6.5, A: [4.2, 13.0]}},
    "k80": {A: {"null": 0}},
}


def _parsed(table: object, **more: object) -> Documents | Invalid:
    spec = {"discipline": "rounds", "policy": "fifo", "throughputs": table, **more}
    tree = {
        "apiVersion": "quorate.dev/v1",
        "kind": "Pool",
        "metadata": {"name": "p"},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
    return parse_documents(json.dumps(tree), source="pool.json")


def _faults(table: object, **more: object) -> list[tuple[str, str]]:
    found = _parsed(table, **more)
    assert isinstance(found, Invalid), found
    assert all(each.remedy for each in found.problems)
    return [(each.path, each.message) for each in found.problems]


def test_a_table_is_read_in_whole_millionths_with_each_pair_once() -> None:
    found = _parsed(TABLE)
    assert isinstance(found, Documents), found
    (document,) = found.items
    pool = document.spec
    assert isinstance(pool, Pool)
    assert pool.throughputs == (
        FlavorRates(flavor="k80", types=(TypeRates(job_type="a", gpus=1, alone=0),)),
        FlavorRates(
            flavor="v100",
            types=(
                TypeRates(
                    job_type="a", gpus=1, alone=20_500_000, beside=(("b", 13_000_000, 4_200_000),)
                ),
                TypeRates(job_type="b", gpus=1, alone=6_500_000),
            ),
        ),
    )
    spec = render(pool)["spec"]
    assert isinstance(spec, dict)
    assert json.loads(json.dumps(spec["throughputs"], default=float)) == TABLE


def test_yaml_may_say_null_without_quotes() -> None:
    text = """
    apiVersion: quorate.dev/v1
    kind: Pool
    metadata: {name: p}
    spec:
      discipline: rounds
      policy: fifo
      throughputs:
        v100:
          "('a', 2)": {null: 0.000001, "('a', 2)": [1, 1], "('c', 2)": [0, 0]}
          "('c', 2)": {"null": 3, "('a', 2)": [0, 0]}
    """
    found = parse_documents(text, source="pool.yaml")
    assert isinstance(found, Documents), found
    (document,) = found.items
    assert isinstance(document.spec, Pool)
    assert document.spec.throughputs[0].types == (
        TypeRates(job_type="a", gpus=2, alone=1, beside=(("a", 1_000_000, 1_000_000),)),
        TypeRates(job_type="c", gpus=2, alone=3_000_000),
    )


@pytest.mark.parametrize(
    ("table", "path", "message"),
    [
        ({}, "", "has no flavors"),
        ({"f": {}}, ".f", "has no types of jobs"),
        ({"f": 3}, ".f", "must be a mapping, got 3"),
        ({"f": {"a": {"null": 1}}}, ".f.a", "is not a type of job"),
        ({"f": {A: 1}}, f'.f["{A}"]', "must be a mapping, got 1"),
        ({"f": {A: {}}}, f'.f["{A}"].null', "is required"),
        ({"f": {A: {"null": -1}}}, f'.f["{A}"].null', "must be 0, or from 0.000001 to"),
        ({"f": {A: {"null": 1e-7}}}, f'.f["{A}"].null', "must be 0, or from 0.000001 to 1000000"),
        ({"f": {A: {"null": 1e7}}}, f'.f["{A}"].null', "must be 0, or from 0.000001 to 1000000"),
        ({"f": {A: {"null": None}}}, f'.f["{A}"].null', "has no value"),
        ({"f": {A: {"null": 1, A: [1]}}}, f'.f["{A}"]["{A}"]', "must be the rates of the two jobs"),
        (
            {"f": {A: {"null": 1, A: [1, -2]}}},
            f'.f["{A}"]["{A}"][1]',
            "must be 0, or from 0.000001 to",
        ),
        (
            {"f": {A: {"null": 1, A: [1, 2]}}},
            f'.f["{A}"]["{A}"]',
            f"differs from the rates that {A} lists for {A}",
        ),
        (
            {"f": {A: {"null": 1, B: [1, 2]}, B: {"null": 1, A: [1, 2]}}},
            f'.f["{A}"]["{B}"]',
            f"differs from the rates that {B} lists for {A}",
        ),
        (
            {"f": {A: {"null": 1, "('a', 2)": [1, 2]}}},
            f'.f["{A}"]["(\'a\', 2)"]',
            "has another number of GPUs",
        ),
        (
            {"f": {A: {"null": 1}, '("a", 1)': {"null": 1}}},
            '.f["(\\"a\\", 1)"]',
            "repeats the type",
        ),
    ],
)
def test_every_fault_has_its_place(table: object, path: str, message: str) -> None:
    faults = _faults(table)
    assert any(
        at == f"spec.throughputs{path}" and said.startswith(message) for at, said in faults
    ), faults


@pytest.mark.slow
def test_a_table_has_a_greatest_size() -> None:
    types = {f"('t{number}', 1)": {"null": 1} for number in range(RATES_MAX // 4 + 1)}
    faults = _faults(dict.fromkeys("abcd", types))
    assert faults == [("spec.throughputs", f"has {RATES_MAX + 4} rates, over {RATES_MAX}")]


def test_only_pools_of_rounds_have_one() -> None:
    faults = _faults(TABLE, discipline="bind", policy=None)
    assert faults == [("spec.throughputs", "is for pools of discipline rounds")]


@pytest.mark.parametrize("first", [A, B])
def test_a_pair_that_stands_under_one_of_its_types_is_that_of_both(first: str) -> None:
    second = B if first == A else A
    pair = TABLE["v100"][first][second]
    alone = {key: {"null": TABLE["v100"][key]["null"]} for key in (A, B)}
    one_sided = {"v100": alone | {first: alone[first] | {second: pair}}, "k80": TABLE["k80"]}
    assert _parsed(one_sided) == _parsed(TABLE)


def test_a_type_that_stands_only_beside_another_does_not_run_alone() -> None:
    found = _parsed({"k80": {A: {"null": 4.795, B: [2.454, 0.983]}}})
    assert isinstance(found, Documents), found
    (document,) = found.items
    spec = render(document.spec)["spec"]
    assert json.loads(to_json(spec))["throughputs"] == {
        "k80": {A: {"null": 4.795, B: [2.454, 0.983]}, B: {"null": 0, A: [0.983, 2.454]}}
    }


def test_costs_are_read_in_whole_millionths_and_written_again() -> None:
    found = _parsed(None, costs={"v100": 2.48, "k80": 0.01})
    assert isinstance(found, Documents), found
    (document,) = found.items
    assert isinstance(document.spec, Pool)
    assert document.spec.costs_micros == (("k80", 10_000), ("v100", 2_480_000))
    tree = json.loads(to_json(render(document.spec)["spec"]))
    assert tree["costs"] == {"k80": 0.01, "v100": 2.48}


@pytest.mark.parametrize(
    ("costs", "path", "message"),
    [
        ({}, "", "must give the cost of at least one flavor"),
        ({"v100": 0}, ".v100", "must be at least 0.01, got 0"),
        ({"v100": -1}, ".v100", "must not be negative, got -1"),
        ({"v100": 10_001}, ".v100", "must be at most 10000, got 10001"),
        ({"v100": "much"}, ".v100", "must be a number"),
        ([1], "", "must be a mapping"),
    ],
)
def test_faults_of_costs_name_the_flavor(costs: object, path: str, message: str) -> None:
    ((at, said),) = _faults(None, costs=costs)
    assert at == f"spec.costs{path}"
    assert said.startswith(message)
