"""The cases of the peer engine, through ``quorate.calc.run``: all pass, or are listed below.

Cases lie beside the repository, in ``../shared``, and are not part of it; without them this module
is skipped, and ``tests/unit/calc`` holds what matters in cases of our own. A deviation says why
Quorate answers otherwise and what it answers, and that is asserted too.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from quorate import calc

CASES: Final = Path(__file__).parents[3] / "shared" / "conformance" / "jobtree"
FILES: Final = {
    "topology": "head-topology.json",
    "pack": "head-pack.json",
    "bind": "head-bind.json",
    "validate": "head-validate.json",
    "cover": "v0-cover.json",
}
COUNTS: Final = {"topology": 2, "pack": 7, "bind": 6, "validate": 26, "cover": 7}
"""How many cases of each kind there are, so that none can vanish unseen."""

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the peer's cases are not beside this repository (../shared)"
)


@dataclass(frozen=True, slots=True)
class Deviation:
    """Why a case is answered otherwise (design section 14), and the answer (a subset)."""

    reason: str
    answer: dict[str, Any]


DEVIATIONS: Final = {
    "pack/spares-fallback-domain": Deviation(
        "spares in another domain: never",
        {
            "error": "InsufficientCapacity",
            "refusal": {
                "code": "insufficient-capacity",
                "wanted": 36,
                "short": 2,
                "shortages": [{"where": "us-west/gpu-a/A", "wanted": 36, "available": 34}],
            },
        },
    ),
    "cover/phase-order": Deviation(
        "an envelope never pays for nodes outside its selector (own-east); cousins never pay",
        {
            "error": "InsufficientCapacity",
            "refusal": {
                "code": "insufficient-funds",
                "wanted": 6,
                "short": 2,
                "shortages": [
                    {"where": "us-west", "wanted": 6, "available": 4},
                    {"where": "b-own/own", "available": 1},
                    {"where": "b-sib/sib", "available": 1},
                    {"where": "b-par/par", "available": 1},
                    {"where": "b-spon/spon", "available": 1},
                ],
            },
        },
    ),
    "cover/aggregate-two-envelopes-over": Deviation(
        "a cap bounds what one decision takes too",
        {
            "error": "InsufficientCapacity",
            "refusal": {"code": "insufficient-funds", "wanted": 20, "short": 8},
        },
    ),
    "validate/run/role-width-mismatch": Deviation(
        "roles and pod templates of Jobtree's newest revision: not here, a run has one command",
        {
            "ok": False,
            "problems": [
                {
                    "path": "spec.roles",
                    "message": "unknown field 'roles'",
                    "remedy": "a run has one command: write command, env and workingDir",
                }
            ],
        },
    ),
}


def cases() -> list[dict[str, Any]]:
    """Return every case that is to be matched."""
    if not CASES.is_dir():
        return []
    found: list[dict[str, Any]] = []
    for name in FILES.values():
        found += json.loads((CASES / name).read_text("utf-8"))
    return found


def answer_to(case: dict[str, Any]) -> Any:
    """Return the answer as a caller of ``quorate calc`` sees it: after a trip through JSON."""
    return json.loads(json.dumps(calc.run(case["kind"], case["input"])))


def satisfies(answer: Any, expected: Any) -> bool:
    """Return whether ``answer`` has all that is ``expected``: fields listed, lists in full."""
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


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["id"]))
def test_case_is_answered_as_expected_or_as_the_table_says(case: dict[str, Any]) -> None:
    answer = answer_to(case)
    deviation = DEVIATIONS.get(case["id"])
    if deviation is None:
        assert satisfies(answer, case["expect"]), answer
    else:
        assert not satisfies(answer, case["expect"]), "no longer a deviation: take it off the list"
        assert satisfies(answer, deviation.answer), answer


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["id"]))
def test_answer_has_every_field_of_the_peers_whole_answer(case: dict[str, Any]) -> None:
    if case["id"] in DEVIATIONS:
        assert DEVIATIONS[case["id"]].reason
        return
    assert satisfies(_shape(answer_to(case)), _shape(case["actual"])), case["id"]


def _shape(tree: Any) -> Any:
    """Return ``tree`` with its fields kept and its values left out."""
    if isinstance(tree, dict):
        return {key: _shape(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_shape(value) for value in tree]
    return None


def test_no_case_and_no_deviation_vanishes() -> None:
    found = cases()
    assert Counter(case["kind"] for case in found) == COUNTS
    assert len({case["id"] for case in found}) == sum(COUNTS.values())
    assert set(DEVIATIONS) <= {case["id"] for case in found}
    assert len(DEVIATIONS) == 4
