"""Documents of Jobtree's cases, if they are available: valid, or refused with their messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from quorate.documents import Documents, Invalid, parse_tree

_CASES: Final = (
    Path(__file__).resolve().parents[4] / "shared/conformance/jobtree/head-validate.json"
)

DEVIATIONS: Final = {
    "validate/run/role-width-mismatch": (
        "docs/design/choices.md: no roles and pod templates, a run has one command"
    ),
}
"""Cases with another message here, each with the decision behind it."""


def _cases() -> list[Any]:
    if not _CASES.is_file():
        pytest.skip("the conformance cases are not beside this checkout")
    found = msgspec.json.decode(_CASES.read_bytes())
    return list(found if isinstance(found, list) else found["cases"])


def test_every_case_is_judged_as_expected() -> None:
    missed: list[str] = []
    for case in _cases():
        parsed = parse_tree(case["input"]["kind"], case["input"]["manifest"], lenient=True)
        expected = case["expect"]
        if isinstance(parsed, Documents) is not expected["ok"]:
            missed.append(case["id"])
        elif isinstance(parsed, Invalid):
            said = "; ".join(problem.sentence() for problem in parsed.problems)
            if expected.get("messageContains", "") not in said:
                missed.append(case["id"])
    assert missed == sorted(DEVIATIONS)
