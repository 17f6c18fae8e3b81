"""Layered tables: a removed entry is missing in this layer only."""

from __future__ import annotations

import pytest

from quorate.model.state.tables import Table


def test_what_a_layer_deleted_cannot_be_read_owned_or_deleted_again() -> None:
    base: Table[str, dict[str, int]] = Table({"a": {"x": 1}})
    layer = base.layer()
    del layer["a"]
    assert "a" not in layer
    with pytest.raises(KeyError):
        layer["a"]
    with pytest.raises(KeyError):
        layer.own("a")
    with pytest.raises(KeyError):
        del layer["a"]
    assert base == {"a": {"x": 1}}


def test_a_layer_owns_a_copy_once_and_keeps_it() -> None:
    base: Table[str, dict[str, int]] = Table({"a": {"x": 1}})
    layer = base.layer()
    layer.own("a")["x"] = 2
    layer.own("a")["y"] = 3
    assert layer["a"] == {"x": 2, "y": 3}
    assert base["a"] == {"x": 1}


def test_what_is_put_back_after_a_deletion_counts_once() -> None:
    base: Table[str, int] = Table({"a": 1, "b": 2})
    layer = base.layer()
    del layer["a"]
    layer["a"] = 3
    layer["c"] = 4
    assert dict(layer) == {"a": 3, "b": 2, "c": 4}
    assert len(layer) == 3


def test_a_layer_over_one_that_changed_nothing_reads_the_table_below() -> None:
    base: Table[str, int] = Table({"a": 1, "b": 2})
    over = base.layer().layer()
    assert list(over) == ["a", "b"]
    assert list(over.items()) == [("a", 1), ("b", 2)]
    assert list(over.values()) == [1, 2]
    over["c"] = 3
    assert list(over.items()) == [("a", 1), ("b", 2), ("c", 3)]
    assert base == {"a": 1, "b": 2}


def test_a_layer_over_one_that_lost_or_gained_something_reads_that_one() -> None:
    base: Table[str, int] = Table({"a": 1, "b": 2})
    middle = base.layer()
    del middle["a"]
    middle["c"] = 3
    over = middle.layer()
    assert dict(over.items()) == {"b": 2, "c": 3}
    assert list(over.values()) == [2, 3]
    assert "a" not in over


def test_the_items_of_a_layer_are_its_keys_with_the_records_that_it_returns() -> None:
    base = Table({"a": [1], "b": [2], "c": [3]})
    middle = base.layer()
    middle["d"] = [4]
    del middle["a"]
    middle.own("b").append(20)
    over = middle.layer()
    del over["c"]
    over["a"] = [100]
    over.own("d").append(40)
    assert list(over.items()) == [(key, over[key]) for key in over]
    assert dict(over.items()) == {"b": [2, 20], "d": [4, 40], "a": [100]}
    assert len(over.items()) == 3
    assert ("a", [100]) in over.items()
    assert ("c", [3]) not in over.items()
