"""Names of Kubernetes objects: always valid, unchanged if possible, and never used twice."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from quorate.adapters.kubernetes.object_names import STEM_CHARS_MAX, object_name
from quorate.testing.spec_strategies import names

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize("name", ["a", "train", "train-7", "x" * 40])
def test_a_name_that_is_a_label_is_used_as_it_is(name: str) -> None:
    assert object_name(name) == name


@pytest.mark.parametrize("name", ["7b", "Train", "org:ai:rai", "a.b", "x" * 41, "a-0123456789"])
def test_every_other_name_is_mapped_and_says_what_it_stands_for(name: str) -> None:
    found = object_name(name)
    assert found != name
    assert re.fullmatch(r".*-[0-9a-f]{10}", found)


@given(name=names, other=names)
def test_object_names_are_labels_and_differ_where_names_do(name: str, other: str) -> None:
    found = object_name(name)
    assert LABEL.fullmatch(found)
    assert len(found) <= STEM_CHARS_MAX
    assert (object_name(other) == found) == (other == name)
    # A changed name is never equal to another valid name.
    assert object_name(found) == found if found == name else object_name(found) != found
