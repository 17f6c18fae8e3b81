from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from quorate.views.assign import assigned
from quorate.views.exits import CommandError, Exit

TREE: dict[str, Any] = {
    "kind": "Budget",
    "metadata": {"name": "b"},
    "spec": {
        "owner": "rai",
        "envelopes": [{"name": "west", "concurrency": 8}, {"name": "1", "concurrency": 9}],
        "names": ["x", "y"],
    },
}


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("spec.owner=core", ("spec", "owner"), "core"),
        ("spec.owner=7", ("spec", "owner"), "7"),
        ('spec.owner="7"', ("spec", "owner"), "7"),
        ("spec.envelopes[west].concurrency=96", ("spec", "envelopes", 0, "concurrency"), 96),
        ("spec.envelopes[0].concurrency=96", ("spec", "envelopes", 0, "concurrency"), 96),
        ("spec.envelopes[1].concurrency=96", ("spec", "envelopes", 1, "concurrency"), 96),
        ("spec.envelopes[west].maxGPUHours=0.1", ("spec", "envelopes", 0, "maxGPUHours"),
         Decimal("0.1")),
        ("spec.envelopes[west].selector[fabric.domain]=A",
         ("spec", "envelopes", 0, "selector", "fabric.domain"), "A"),
        ('spec.selector["fabric.domain"]=A', ("spec", "selector", "fabric.domain"), "A"),
        ("spec.lending.allow=true", ("spec", "lending", "allow"), True),
        ('spec.lending.to=["a"]', ("spec", "lending", "to"), ["a"]),
        ("spec.start=2026-01-01T00:00:00Z", ("spec", "start"), "2026-01-01T00:00:00Z"),
        ("spec.a=b=c", ("spec", "a"), "b=c"),
        ("spec.a=", ("spec", "a"), ""),
        ("spec.names[y]=z", ("spec", "names", 1), "z"),
    ],
)  # fmt: skip
def test_a_field_gets_its_value(assignment: str, path: tuple[Any, ...], value: object) -> None:
    found: Any = assigned(TREE, [assignment])
    for key in path:
        found = found[key]
    assert found == value
    assert type(found) is type(value)


def test_null_takes_a_field_or_an_element_away() -> None:
    found = assigned(TREE, ["spec.owner=null", "spec.envelopes[west]=null", "spec.gone=null"])
    assert found["spec"] == {"envelopes": [{"name": "1", "concurrency": 9}], "names": ["x", "y"]}


def test_the_tree_given_is_left_as_it_was() -> None:
    assigned(TREE, ["spec.envelopes[west].concurrency=1"])
    assert TREE["spec"]["envelopes"][0]["concurrency"] == 8


@pytest.mark.parametrize(
    ("assignment", "code", "said"),
    [
        ("spec.owner", Exit.USAGE, "is not PATH=VALUE"),
        ("=3", Exit.USAGE, "is not PATH=VALUE"),
        (".spec=3", Exit.USAGE, "is not PATH=VALUE"),
        ("spec..a=3", Exit.USAGE, "is not PATH=VALUE"),
        ("spec.a[=3", Exit.USAGE, "is not PATH=VALUE"),
        ("kind=Node", Exit.INVALID, "cannot change kind"),
        ("metadata={}", Exit.INVALID, "cannot change metadata"),
        ("spec.envelopes[east].concurrency=1", Exit.INVALID, "there are: west, 1"),
        ("spec.envelopes[9].concurrency=1", Exit.INVALID, "there is no element '9'"),
        ("spec.owner.deep=1", Exit.INVALID, "inside a single value"),
        ("spec.caps[all].maxConcurrency=1", Exit.INVALID, "there is no list caps"),
    ],
)
def test_a_path_that_leads_nowhere_is_told(assignment: str, code: Exit, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        assigned(TREE, [assignment])
    assert caught.value.code is code
    assert said in str(caught.value)
