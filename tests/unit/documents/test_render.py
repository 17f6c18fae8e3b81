"""Documents as Quorate writes them: readable, exact, and never misread."""

from __future__ import annotations

from decimal import Decimal

import pytest

from quorate.documents import render, to_json, to_yaml
from quorate.documents.text_source import read_source
from quorate.documents.written import hours, hours_text
from quorate.model import specs as sp
from tests.unit.documents.told import BUDGET, headed, spec


def test_a_budget_is_written_as_people_write_it() -> None:
    text = BUDGET + (
        "      maxGPUHours: 0.1\n"
        "      lending: {allow: true, to: ['org:*']}\n"
        "  aggregateCaps:\n"
        "    - {name: all, flavor: H100, envelopes: [west], maxConcurrency: 5}\n"
    )
    assert to_yaml(render(spec(text))) == (
        """\
apiVersion: quorate.dev/v1
kind: Budget
metadata:
  name: rai
spec:
  owner: rai
  envelopes:
    - name: west
      flavor: H100
      selector:
        region: us-west
      start: "2026-01-01T00:00:00Z"
      end: "2026-01-02T00:00:00Z"
      concurrency: 10
      maxGPUHours: 0.1
      lending:
        allow: true
        to:
          - "org:*"
  aggregateCaps:
    - name: all
      flavor: H100
      envelopes:
        - west
      maxConcurrency: 5
"""
    )


def test_defaults_are_left_out() -> None:
    run = sp.Run(
        name="a", owner="org:ai", flavors=("H100",), gpus=8, expected_duration_ms=5_400_000
    )
    assert render(run)["spec"] == {
        "owner": "org:ai",
        "resources": {"gpuType": "H100", "totalGPUs": 8},
        "runtime": {"expectedDuration": "90m"},
    }


def test_an_owner_of_defaults_has_an_empty_spec() -> None:
    assert to_yaml(render(sp.Owner(name="a"))) == headed("Owner", "spec: {}\n")


def test_documents_are_separated() -> None:
    assert to_yaml({"a": 1}, {"b": []}) == "a: 1\n---\nb: []\n"


def test_a_decimal_is_written_exactly() -> None:
    exact = Decimal("2114080210943.9999975")
    assert to_json({"a": exact}) == '{\n  "a": 2114080210943.9999975\n}\n'
    assert to_yaml({"a": exact}) == "a: 2114080210943.9999975\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("H100-80GB", "H100-80GB"),
        ("org:ai:rai", "org:ai:rai"),
        ("quorate.dev/v1", "quorate.dev/v1"),
        ("90m", "90m"),
        ("no", '"no"'),
        ("Yes", '"Yes"'),
        ("NULL", '"NULL"'),
        ("1:30", '"1:30"'),
        ("007", '"007"'),
        ("1e3", '"1e3"'),
        ("0x1F", '"0x1F"'),
        ("", '""'),
        ("~", '"~"'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("a:", '"a:"'),
        ("- a", '"- a"'),
        ("*a", '"*a"'),
        (" a", '" a"'),
        ("a\nb\t", '"a\\nb\\t"'),
        ("a\x85\u2028\xa0b\x7f", '"a\\u0085\\u2028\\u00a0b\\u007f"'),
        ("é 😀", '"é 😀"'),
        ("2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"'),
    ],
)
def test_text_is_quoted_exactly_where_it_might_be_misread(value: str, written: str) -> None:
    assert to_yaml({"k": value}) == f"k: {written}\n"
    found = read_source(to_yaml({"k": value, value: "v"}))
    assert isinstance(found, tuple)
    assert found[0].tree == {"k": value, value: "v"}


def test_lists_of_lists_and_empty_values_are_written() -> None:
    tree = {"a": [[1, [2]], [], {}, {"b": None, "c": [True, 1.5]}], "d": ()}
    found = read_source(to_yaml(tree))
    assert isinstance(found, tuple)
    assert found[0].tree == {
        "a": [[1, [2]], [], {}, {"b": None, "c": [True, Decimal("1.5")]}],
        "d": [],
    }


def test_hours_are_exact_where_a_decimal_can_be() -> None:
    assert hours(3_600_000) == 1
    assert hours(9) == Decimal("0.0000025")
    assert hours_text(9) == "0.0000025"
    assert hours_text(1).startswith("0.000000277")
