"""One JSON object from a request: read like documents, at a cost bounded by its length."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.documents.json_object import (
    DIGITS_MAX,
    IN_ONE_GO_BYTES,
    PART_BYTES_MAX,
    VALUES_MAX,
    read_object,
    values_allowed,
)
from quorate.documents.json_text import read_json
from quorate.documents.located_tree import DEPTH_MAX, Unreadable
from quorate.testing.hostile import MIB, hostile_json

_CALLS_FREE = 1_000
"""The function calls that any text may take."""
_BYTES_PER_CALL = 50
"""The bytes of text for each further call; values have 10 bytes each."""


def _refused(body: bytes) -> Unreadable:
    found = read_object(body)
    assert isinstance(found, Unreadable), found
    return found


def _calls(work: Callable[[], object]) -> int:
    """Return the number of function calls of ``work``, including built-in functions."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        del frame, argument
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals(allow_nan=False, places=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.heavy
@given(st.dictionaries(st.text(), TREES, max_size=4))
def test_an_object_is_read_as_the_reader_of_files_reads_it(tree: dict[str, Any]) -> None:
    finite = json.loads(json.dumps(tree, default=str))
    text = json.dumps(finite)
    expected = read_json(text)
    assert not isinstance(expected, Unreadable)
    assert read_object(text.encode()) == expected[0].tree == finite


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        (b"", {}),
        (b" \n", {}),
        (b'{"a": 1.50}', {"a": Decimal("1.50")}),
        (b'{"a": 0.1000000000000000055511151231257827}', None),
        (b'{"a": 18446744073709551617}', {"a": 18446744073709551617}),
        (b'{"a": 1e999999999999999999999}', {"a": Decimal("Infinity")}),
        (b'{"a": "\\"\\\\\\"", "b": "x"}', {"a": '"\\"', "b": "x"}),
    ],
)
def test_numbers_and_escapes_are_exact(body: bytes, meant: dict[str, Any] | None) -> None:
    found = read_object(body)
    if meant is None:
        meant = {"a": Decimal("0.1000000000000000055511151231257827")}
    assert isinstance(found, dict)
    assert found == meant
    assert [type(each) for each in found.values()] == [type(each) for each in meant.values()]


@pytest.mark.parametrize(
    ("body", "line", "column", "says"),
    [
        (b'{"a": 1,\n "b": }', 2, 7, "invalid character"),
        (b'{"a": 1,\n "b": 2,}', 2, 9, "trailing comma"),
        (b'{"a"\n 1}', 2, 2, "expected ':'"),
        (b'{"a": "\\x"}', 1, 10, "escape"),
        (b'{"a": 1, "a": 2}', 1, 1, 'the key "a" twice'),
        (b'{"b": [{"a": 1, "\\u0061": 2}]}', 1, 1, 'the key "a" twice'),
        (b'{"a": ' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"}", 1, 1, "nest deeper"),
        (b'{"a": "b', 1, 9, "ends too early"),
        (b'{"a": "\\ud800"}', 1, 1, "half of a surrogate pair"),
        (b'{"a":\n "\\udc00"}', 2, 9, "half of a surrogate pair"),
        (b'{"\\ud800\\n": 1}', 1, 9, "half of a surrogate pair"),
        (b"{}{}", None, None, "one JSON object"),
        (b"[{}]", None, None, "one JSON object"),
        (b"5", None, None, "one JSON object"),
        (b'{"a": "\xff"}', None, None, "UTF-8"),
        (b"\xff\xfe{}", None, None, "UTF-8"),
        (b'{"a": 1e-99999999999999999999}', None, None, "too small"),
        (b'{"a": ' + b"9" * 5_000 + b"}", 1, 7, "a number has 5000 digits, over 1000"),
        (b'{"a":\n[' + b"9" * 1_001 + b"]}", 2, 2, "a number has 1001 digits"),
        (b'{"a": 0.' + b"9" * 1_001 + b"}", 1, 9, "a number has 1001 digits"),
    ],
)
def test_a_fault_is_told_with_its_place(
    body: bytes, line: int | None, column: int | None, says: str
) -> None:
    found = _refused(body)
    assert says in found.message
    assert (found.line, found.column) == (line, column)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 2 * DIGITS_MAX + 1) | st.integers(DIGITS_MAX - 2, DIGITS_MAX + 2),
            st.booleans(),
            st.sampled_from(["", "x", '\\"', "\\\\"]),
        ),
        max_size=6,
    ),
    st.integers(0, DIGITS_MAX),
)
def test_a_number_is_refused_exactly_where_it_has_too_many_digits(
    parts: list[tuple[int, bool, str]], blanks: int
) -> None:
    """Text values may have as many digits in a row, at any place, and after any escape."""
    entries = [
        f'"{before}{"7" * digits}"' if is_text else "7" * digits
        for digits, is_text, before in parts
    ]
    body = f'{{"a":{" " * blanks}[{",".join(entries)}]}}'
    long = [digits for digits, is_text, _ in parts if digits > DIGITS_MAX and not is_text]
    found = read_object(body.encode())
    if long:
        assert isinstance(found, Unreadable)
        assert f"a number has {long[0]} digits" in found.message
    else:
        assert found == json.loads(body)


def test_as_deep_as_allowed_is_read() -> None:
    body = b'{"a": ' + b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1) + b"}"
    assert isinstance(read_object(body), dict)


def _long(entry: str, bytes_min: int = IN_ONE_GO_BYTES + 1) -> bytes:
    entries = ",".join([entry] * (bytes_min // (len(entry) + 1) + 1))
    return f'{{"documents": [{entries}], "more": {{"b": [1, "x"]}}}}'.encode()


@pytest.mark.heavy
def test_a_long_text_is_read_in_parts_and_comes_to_the_same() -> None:
    entry = (
        '{"name": "node-7", "labels": {"region": "r\\"s, in the north", "zones": [1, 2.5, null]}}'
    )
    body = _long(entry)
    found = read_object(body)
    assert found == json.loads(body, parse_float=Decimal)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('{"name": "n", "labels": {"region": "r", "region": "s"}}', "same key twice"),
        ('{"name": "n", "labels": "\\ud800\\u0041"}', "surrogate"),
        ('{"name": "n", "labels": ' + "[" * DEPTH_MAX + "]" * DEPTH_MAX + "}", "nest deeper"),
    ],
)
def test_a_fault_deep_in_a_long_text_is_found(entry: str, says: str) -> None:
    good = '{"name": "n", "labels": {"region": "r", "zones": "x"}}'
    body = _long(good).replace(good.encode() + b"]", entry.encode() + b"]", 1)
    found = _refused(body)
    assert says in found.message
    if says != "same key twice":
        assert found.column is not None
        assert abs(found.column - body.find(entry.encode())) < len(entry)


def test_a_field_of_a_long_text_has_a_longest_length() -> None:
    body = b'{"a": "%s"}' % (b"x" * PART_BYTES_MAX)
    assert "a has" in _refused(body).message


@pytest.mark.heavy
def test_a_key_at_the_top_of_a_long_text_must_not_be_there_twice() -> None:
    body = _long('{"name": "a rather long name of a node"}')[:-1] + b', "more": 1}'
    assert "same key twice" in _refused(body).message


def test_values_are_bounded_by_the_length_of_the_text_and_in_any_case() -> None:
    assert values_allowed(0) < values_allowed(MIB) < values_allowed(100 * MIB) == VALUES_MAX
    dense = b'{"a":[' + b"1," * values_allowed(MIB) + b"1]}"
    assert "values" in _refused(dense).message
    in_text = b'{"a":"' + b"1," * values_allowed(MIB) + b'"}'
    assert isinstance(read_object(in_text), dict)


@pytest.mark.heavy
@pytest.mark.parametrize("shape", list(hostile_json(1_024)))
def test_a_hostile_text_takes_no_call_for_each_of_its_values(shape: str) -> None:
    """The decoder handles each value itself, without a Python call."""
    for length in (MIB // 4, MIB):
        body = hostile_json(length)[shape]
        calls_max = _CALLS_FREE + length // _BYTES_PER_CALL
        assert _calls(partial(read_object, body)) <= calls_max, length
