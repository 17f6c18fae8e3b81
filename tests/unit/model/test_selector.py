"""Selectors compared with places."""

from __future__ import annotations

import pytest

from quorate.model.selector import (
    Selector,
    contradicts,
    matches,
    names_label,
    selector_of,
)

_HERE = {"region": "west", "cluster": "c1"}


@pytest.mark.parametrize(
    ("selector", "match", "contradiction"),
    [
        ((), True, False),
        ((("region", "west"),), True, False),
        ((("region", "east"),), False, True),
        ((("region", "*"),), True, False),
        ((("cluster", "c1"), ("region", "west")), True, False),
        ((("cluster", "c2"), ("region", "west")), False, True),
        # A missing label never matches, and does not contradict a place that may have it.
        ((("rack", "r1"),), False, False),
        ((("rack", "*"),), False, False),
    ],
)
def test_a_place_matches_when_every_label_does(
    selector: Selector,
    match: bool,  # noqa: FBT001 - a column of the table
    contradiction: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert matches(selector, _HERE) is match
    assert contradicts(selector, _HERE) is contradiction


def test_a_selector_is_sorted_and_knows_its_labels() -> None:
    selector = selector_of({"region": "west", "cluster": "c1"})
    assert selector == (("cluster", "c1"), ("region", "west"))
    assert names_label(selector, "region")
    assert not names_label(selector, "rack")
