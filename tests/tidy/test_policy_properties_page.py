"""docs/reference/policy-properties.md agrees with the tests and counterexamples."""

from __future__ import annotations

from quorate.policy.table import POLICIES
from tests.oracles.fairness import Property
from tests.oracles.fairness_table import HOLDS, counterexamples
from tests.tidy.tree import ROOT, code_words, table_rows

PAGE = (ROOT / "docs/reference/policy-properties.md").read_text(encoding="utf-8")


def _cell(policy: str, asked: Property) -> str:
    if (policy, asked) in HOLDS:
        return "holds"
    return "fails" if (policy, asked) in counterexamples() else "open"


def test_every_cell_is_what_its_test_or_its_counterexample_says() -> None:
    for name, *cells in table_rows(PAGE, "Properties of policies"):
        (policy,) = code_words(name)
        assert cells == [_cell(policy, asked) for asked in Property], policy


def test_every_policy_is_in_the_table_once() -> None:
    listed = [code_words(row[0])[0] for row in table_rows(PAGE, "Properties of policies")]
    assert sorted(listed) == sorted(POLICIES)


def test_no_cell_is_open() -> None:
    """A cell may be undecided only if the page describes what was tried."""
    rows = table_rows(PAGE, "Properties of policies")
    assert {cell for _, *cells in rows for cell in cells} == {"holds", "fails"}
