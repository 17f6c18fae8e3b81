"""The cases of Jobtree through ``quorate.calc.run``: all pass, or are listed.

Cases are beside the repository, in ``../shared``, and are not part of it; without them this module
is skipped, and ``tests/unit/calc`` tests the essentials. ``deviations.py`` lists the cases that
Quorate answers differently, with the reason and the answer, which is checked, too.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from quorate import calc
from tests.conformance.deviations import DEVIATIONS, FOUND, NOT_OURS

CASES: Final = Path(__file__).parents[3] / "shared" / "conformance" / "jobtree"
FILES: Final = (
    "head-topology.json",
    "head-pack.json",
    "head-bind.json",
    "head-validate.json",
    "v0-cover.json",
    "head-forecast.json",
    "head-resolve.json",
    "head-scenario.json",
    "v0-scenario.json",
)
COUNTS: Final = {
    "topology": 2,
    "pack": 7,
    "bind": 6,
    "validate": 26,
    "cover": 7,
    "forecast": 7,
    "resolve": 4,
    "scenario": 24,
}
"""The number of cases of each kind, so that no case disappears unnoticed."""

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the peer's cases are not beside this repository (../shared)"
)


def name_of(case: dict[str, Any]) -> str:
    """Return the name of a case here; two revisions have scenarios with the same name."""
    old = case["kind"] == "scenario" and case["revision"] == "16fc4f1"
    return f"{case['id']}@{case['revision']}" if old else str(case["id"])


def ours(case: dict[str, Any]) -> Any:
    """Return the expected answer without the fields of ``NOT_OURS``."""
    if case["kind"] not in ("forecast", "scenario"):
        return case["expect"]
    return _without(case["expect"])


def _without(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without(value) for key, value in tree.items() if key not in NOT_OURS}
    return [_without(value) for value in tree] if isinstance(tree, list) else tree


def cases() -> list[dict[str, Any]]:
    """Return every case that has to match."""
    if not CASES.is_dir():
        return []
    found: list[dict[str, Any]] = []
    for name in FILES:
        found += json.loads((CASES / name).read_text("utf-8"))
    return found


def answer_to(case: dict[str, Any]) -> Any:
    """Return the answer as the caller of ``quorate calc`` gets it: encoded as JSON and decoded."""
    return json.loads(json.dumps(calc.run(case["kind"], case["input"])))


def satisfies(answer: Any, expected: Any) -> bool:
    """Return whether ``answer`` has all that is ``expected``: listed fields, whole lists."""
    if isinstance(expected, dict):
        if not isinstance(answer, dict):
            return False
        contained = expected.get("messageContains")
        if contained is not None and contained not in str(answer.get("message", "")):
            return False
        return all(
            key in answer and satisfies(answer[key], value)
            for key, value in expected.items()
            if key != "messageContains"
        )
    if isinstance(expected, list):
        return (
            isinstance(answer, list)
            and len(answer) == len(expected)
            and all(satisfies(got, wanted) for got, wanted in zip(answer, expected, strict=True))
        )
    return type(answer) is type(expected) and bool(answer == expected)


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_case_is_answered_as_expected_or_as_the_table_says(case: dict[str, Any]) -> None:
    answer = answer_to(case)
    deviation = DEVIATIONS.get(name_of(case))
    if deviation is None:
        assert satisfies(answer, ours(case)), answer
        found = FOUND.get(name_of(case))
        # If a field is left out of the comparison, the list has Quorate's answer.
        assert (found is None) == satisfies(answer, case["expect"])
        assert found is None or satisfies(answer, found), answer
    else:
        assert not satisfies(answer, ours(case)), "no longer a deviation: take it off the list"
        assert satisfies(answer, deviation.answer), answer


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_answer_has_every_field_of_the_peers_whole_answer(case: dict[str, Any]) -> None:
    if name_of(case) in DEVIATIONS:
        assert DEVIATIONS[name_of(case)].reason
        return
    if case["kind"] in ("forecast", "scenario"):
        # Its other fields are about pods and formulas; the requested ones are compared above.
        return
    assert satisfies(_shape(answer_to(case)), _shape(case["actual"])), case["id"]


def _shape(tree: Any) -> Any:
    """Return ``tree`` with its fields but without their values."""
    if isinstance(tree, dict):
        return {key: _shape(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_shape(value) for value in tree]
    return None


def test_no_case_and_no_deviation_vanishes() -> None:
    found = cases()
    assert Counter(case["kind"] for case in found) == COUNTS
    names = {name_of(case) for case in found}
    assert len(names) == sum(COUNTS.values())
    assert DEVIATIONS.keys() | FOUND.keys() <= names
    assert (len(DEVIATIONS), len(FOUND)) == (25, 8)
