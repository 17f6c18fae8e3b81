"""docs/reference/policy-properties.md says what the tests and counterexamples say."""

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
    rows = table_rows(PAGE, "What one may expect of a policy")
    assert len(rows) == 15
    for name, *cells in rows:
        (policy,) = code_words(name)
        assert policy in POLICIES
        assert cells == [_cell(policy, asked) for asked in Property], policy


def test_every_policy_that_is_tried_is_in_the_table() -> None:
    listed = {code_words(row[0])[0] for row in table_rows(PAGE, "What one may expect of a policy")}
    assert {policy for policy, _ in (*HOLDS, *counterexamples())} == listed
