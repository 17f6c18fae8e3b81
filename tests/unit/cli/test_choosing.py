"""Resources chosen by labels and fields, and ordered by a value."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.choosing import (
    ChoiceError,
    Choosing,
    field_choice,
    label_choice,
    sorted_by,
    value_at,
)


def tree(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"gpus": len(name), "on": True}}


NODE = tree("a1", region="eu", rack="7")


@pytest.mark.parametrize(
    ("text", "is_chosen"),
    [
        ("region=eu", True),
        ("region==eu", True),
        ("region=us", False),
        ("region!=us", True),
        ("zone!=us", True),
        ("rack", True),
        ("zone", False),
        ("!zone", True),
        ("!rack", False),
        ("region=eu,rack=7", True),
        ("region=eu, rack=8", False),
    ],
)
def test_labels_choose_as_they_do_in_kubectl(text: str, is_chosen: bool) -> None:  # noqa: FBT001
    assert label_choice(text)(NODE) is is_chosen


@pytest.mark.parametrize(
    ("text", "is_chosen"),
    [
        ("spec.gpus=2", True),
        (".spec.gpus!=2", False),
        ("spec.on=true", True),
        ("spec.nothing=", True),
        ("metadata.name=a2", False),
        ("metadata.name.more=a", False),
    ],
)
def test_fields_choose_by_their_text(text: str, is_chosen: bool) -> None:  # noqa: FBT001
    assert field_choice(text)(NODE) is is_chosen


@pytest.mark.parametrize(
    "choosing", [Choosing(labels="a=b=,=c"), Choosing(labels="!a=b"), Choosing(fields=("status",))]
)
def test_what_cannot_be_read_is_an_error(choosing: Choosing) -> None:
    with pytest.raises(ChoiceError, match="write "):
        choosing.check()


@pytest.mark.parametrize(
    "text", ["a>=4", "a > 4", "a<=4", "a<4", "a=~x", "a!~x", "a~x", "a in (b)"]
)
def test_operators_that_there_are_not_are_refused(text: str) -> None:
    with pytest.raises(ChoiceError, match="other operators do not exist"):
        Choosing(fields=(text,)).check()


@pytest.mark.parametrize("text", ["spec.gpu=2", "spec.gpu!=2", "spec.gpu=", "spec.gpus.more=2"])
def test_a_field_that_none_has_chooses_nothing_and_is_an_error(text: str) -> None:
    with pytest.raises(ChoiceError, match=r"no listed resource has spec\.gpu"):
        Choosing(fields=(text,)).chosen([NODE])
    assert Choosing(fields=(text,)).chosen([]) == []


def test_a_field_that_one_has_or_that_is_null_may_choose_none() -> None:
    assert Choosing(fields=("spec.gpus=9",)).chosen([NODE]) == []
    null = {"metadata": {"name": "n"}, "spec": {"gpus": None}}
    assert Choosing(fields=("spec.gpus=9",)).chosen([null]) == []
    assert Choosing(fields=("extra=1",)).chosen([NODE, {**NODE, "extra": 1}]) == [
        {**NODE, "extra": 1}
    ]


def test_a_path_that_leads_nowhere_cannot_order() -> None:
    with pytest.raises(ChoiceError, match="no listed resource has a value there"):
        sorted_by([NODE], ".status.phase")
    assert sorted_by([], ".status.phase") == []


values = st.one_of(st.none(), st.integers(-9, 9), st.floats(-9, 9), st.text("ab", max_size=2))


@given(st.lists(values, min_size=1).filter(lambda found: any(v is not None for v in found)))
def test_numbers_come_before_texts_before_nothing_and_equal_ones_stay(found: list[object]) -> None:
    trees = [{"metadata": {"name": str(n)}, "v": value} for n, value in enumerate(found)]
    ordered = sorted_by(trees, "{.v}")
    assert sorted(each["metadata"]["name"] for each in ordered) == sorted(
        map(str, range(len(trees)))
    )
    kinds = [2 if each["v"] is None else int(isinstance(each["v"], str)) for each in ordered]
    assert kinds == sorted(kinds)
    for first, second in itertools.pairwise(ordered):
        if kinds[ordered.index(first)] == kinds[ordered.index(second)] != 2:
            assert first["v"] <= second["v"]
            if first["v"] == second["v"]:
                assert int(first["metadata"]["name"]) < int(second["metadata"]["name"])


def test_a_value_is_found_by_its_path() -> None:
    assert value_at(NODE, ".spec.gpus") == value_at(NODE, "{.spec.gpus}") == 2
    assert value_at(NODE, "spec.gpus.more") is None
