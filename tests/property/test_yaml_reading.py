"""YAML is read as by another parser, with the same places, at a cost bounded by its length."""

from __future__ import annotations

import json
import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.documents import to_yaml
from quorate.documents.located_tree import SourceDocument, Unreadable
from quorate.documents.yaml_text import read_yaml, values_allowed
from quorate.testing.hostile import hostile_yaml
from tests.oracles.effort import examples, few_of
from tests.oracles.plain_yaml import NotPlainError, PlainDocument, read_plainly

_CALLS_PER_VALUE = 24
"""The most function calls for each value that a text may hold."""

_INDENT_MAX = 4

_WORDS = st.one_of(
    st.sampled_from(["a", "b", "key", "1", "0x1F", "0o17", "1.5", "-1", ".inf", "~", "null"]),
    st.sampled_from(
        ["true", '"x"', "'y'", '"a b"', '"\\n"', '""', "é", "😀", "x y", "a:b", "x:1/y"]
    ),
    st.sampled_from([": ", ", ", ",", "[", "]", "{", "}", "- ", "? ", "key: ", "b: ", "<<: "]),
    st.sampled_from(["\n", "\n  ", "\n    ", "\n- ", "- a\n", " ", "# c", "#", "---\n", "\r\n"]),
    st.sampled_from(["&a ", "*a ", "!!str ", "! ", '!!int "3"', "|\n", ">-\n", "|2\n", "@", "%"]),
    st.sampled_from(["- - ", "{a: 1}", "[1, 2]", "\\", '"', "'", "!x ", "&b ", "*b "]),
)
_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8).filter(
    lambda text: not set(text) & set("\u2028\u2029\ufeff\ufffe\uffff")
)
_SCALARS = st.none() | st.booleans() | st.integers(-9_999, 9_999) | _TEXTS
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


_KEYS = ("name", "two words", "é", "no", "1.5", '"quoted"', "'single'")
_PLAIN = ("no", "1:30", "0o17", "2026-01-01", "x y # c", "", "a\n{0}b", "'it''s'", "''")
_QUOTED = ('"\\u00e9\\t\\x41"', '"two\n{0}lines"', '"{{"', "&same [one, {{two: 3}}]")
_BLOCK_LINES = ("one", "two words", "# three", "")
_ENTRIES = ("a", "- b", "x: 1", "[1, {y: 2}]", "'q'")


def _written(indent: int = 0) -> st.SearchStrategy[str]:
    """Return mappings in block style, with values in various styles."""
    before = " " * indent

    def lines(values: dict[str, str]) -> str:
        return "".join(f"{before}{key}: {value}\n" for key, value in values.items())

    return st.dictionaries(
        st.sampled_from(_KEYS), _value(indent), min_size=1, max_size=len(_KEYS)
    ).map(lines)


def _value(indent: int) -> st.SearchStrategy[str]:
    """Return values of a mapping with this indentation."""
    inside = " " * (indent + 2)
    block = st.tuples(
        st.sampled_from(["|", ">", "|-", ">-", "|+", "|2"]),
        st.lists(st.sampled_from(_BLOCK_LINES)),
    ).map(lambda drawn: "".join(f"{line}\n{inside}" for line in [drawn[0], "first", *drawn[1]]))
    entries = st.lists(st.sampled_from(_ENTRIES)).map(
        lambda drawn: "".join(f"\n{inside}- {entry}" for entry in drawn)
    )
    return st.one_of(
        _TREES.map(lambda tree: json.dumps(tree, ensure_ascii=False)),
        st.sampled_from([*_PLAIN, *_QUOTED]).map(lambda text: text.format(inside)),
        st.just(f"\n{inside}a: &here {{b: [1]}}\n{inside}c: [*here, *here]"),
        block,
        entries,
        *([_written(indent + 2).map("\n".__add__)] if indent < _INDENT_MAX else []),
    )


def _same(found: tuple[SourceDocument, ...], expected: list[PlainDocument]) -> None:
    # Compared as text, because 1, True and Decimal(1) are equal but not the same.
    assert [repr(each.tree) for each in found] == [repr(each.tree) for each in expected]
    assert [each.start for each in found] == [each.start for each in expected]
    assert [dict(each.places()) for each in found] == [each.places for each in expected]


@pytest.mark.heavy
@given(text=_written())
def test_a_mapping_is_read_as_another_parser_reads_it(text: str) -> None:
    found = read_yaml(text)
    assert not isinstance(found, Unreadable), (found, text)
    _same(found, read_plainly(text))


@pytest.mark.heavy
@examples(times=3)
@given(text=st.lists(_WORDS, max_size=12).map("".join))
def test_whatever_both_parsers_read_they_read_alike(text: str) -> None:
    # A block that is a whole document and is not indented is not a mapping.
    text = f"k: {text}"
    found = read_yaml(text)
    if isinstance(found, Unreadable):
        return
    try:
        expected = read_plainly(text)
    except NotPlainError:
        return
    if "str &" not in text and "! &" not in text:
        _same(found, expected)


@given(tree=_TREES.filter(lambda tree: tree is not None))
def test_what_is_written_here_is_read_alike_by_both(tree: object) -> None:
    found = read_yaml(to_yaml(tree))
    assert not isinstance(found, Unreadable), found
    _same(found, read_plainly(to_yaml(tree)))
    assert [each.tree for each in found] == [tree]


def _calls(text: str) -> int:
    """Return the number of function calls for reading ``text``, including built-in functions."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        del frame, argument
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        found = read_yaml(text)
        for each in () if isinstance(found, Unreadable) else found:
            each.places()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.heavy
@pytest.mark.parametrize("shape", few_of(hostile_yaml(1_024), 5))
def test_a_hostile_text_takes_no_more_work_than_its_length_allows(shape: str) -> None:
    length = 128 * 1_024
    assert _calls(hostile_yaml(length)[shape]) <= _CALLS_PER_VALUE * values_allowed(length)
