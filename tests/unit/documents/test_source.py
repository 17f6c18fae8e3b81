"""From text to plain trees: YAML 1.2, JSON, and all kinds of unreadable text."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest

from quorate.documents import Invalid, parse_documents
from quorate.documents.document_problem import Path
from quorate.documents.located_tree import (
    DEPTH_MAX,
    VALUES_MAX,
    Position,
    SourceDocument,
    Unreadable,
)
from quorate.documents.text_source import TEXT_CHARS_MAX, read_source
from quorate.documents.yaml_scalar import plain_scalar


def _read(text: str | bytes) -> tuple[SourceDocument, ...]:
    found = read_source(text)
    assert not isinstance(found, Unreadable), found
    return found


def _refused(text: str | bytes) -> Unreadable:
    found = read_source(text)
    assert isinstance(found, Unreadable), found
    return found


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2026-01-01", "2026-01-01"),
        ("0b1", "0b1"),
        ("-", "-"),
        ("+.", "+."),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("0o17", 15),
        ("0x1F", 31),
        ("007", 7),
        ("-5", -5),
        ("1.50", Decimal("1.50")),
        ("1e3", Decimal(1000)),
        (".5", Decimal("0.5")),
        ("-.inf", Decimal("-Infinity")),
        ("1e999999999999999999999", Decimal("Infinity")),
    ],
)
def test_a_plain_scalar_means_what_yaml_1_2_says(written: str, meant: object) -> None:
    found = plain_scalar(written)
    assert found == meant
    assert type(found) is type(meant)


def test_a_number_of_thousands_of_digits_is_kept_as_a_decimal() -> None:
    digits = "9" * 5_000
    assert plain_scalar(digits) == Decimal(digits)
    assert _read(f'{{"a": {digits}}}')[0].tree == {"a": Decimal(digits)}


def test_not_a_number_is_read_as_such() -> None:
    found = plain_scalar(".nan")
    assert isinstance(found, Decimal)
    assert found.is_nan()


def test_yaml_knows_the_place_of_every_key_and_entry() -> None:
    (document,) = _read("# c\na:\n  b: [x,\n    y]\n  c.d: 1\n")
    assert document.tree == {"a": {"b": ["x", "y"], "c.d": 1}}
    assert document.start == Position(2, 1)
    expected: dict[Path, Position] = {
        ("a",): Position(2, 1),
        ("a", "b"): Position(3, 3),
        ("a", "b", 0): Position(3, 7),
        ("a", "b", 1): Position(4, 5),
        ("a", "c.d"): Position(5, 3),
    }
    assert document.places() == expected


def test_json_knows_the_place_of_every_key_and_entry() -> None:
    text = '[{"z": 0},\n  {"a": {"b": ["x",\n {"q\\"": 1}], "e": [], "c.d": 1}}]'
    _, document = _read(text)
    assert document.tree == {"a": {"b": ["x", {'q"': 1}], "e": [], "c.d": 1}}
    assert document.start == Position(2, 3)
    expected: dict[Path, Position] = {
        ("a",): Position(2, 4),
        ("a", "b"): Position(2, 10),
        ("a", "b", 0): Position(2, 16),
        ("a", "b", 1): Position(3, 2),
        ("a", "b", 1, 'q"'): Position(3, 3),
        ("a", "e"): Position(3, 15),
        ("a", "c.d"): Position(3, 24),
    }
    assert document.places() == expected


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}\n{"a": 2}', '[{"a": 1}, {"a": 2}]', '\ufeff {"a": 1} {"a": 2} ', "a: 1\n---\na: 2"],
)
def test_several_documents_are_read_in_order(text: str) -> None:
    assert [document.tree for document in _read(text.encode())] == [{"a": 1}, {"a": 2}]


def test_an_empty_list_holds_no_documents() -> None:
    assert _refused("[]").message == "the text has no documents"


def test_stray_separators_are_no_documents() -> None:
    assert [document.tree for document in _read("---\n---\na: 1\n---\n# end\n")] == [{"a": 1}]


def test_an_alias_stands_for_its_anchor() -> None:
    (document,) = _read("a: &x {b: 1}\nc: *x\n")
    assert document.tree == {"a": {"b": 1}, "c": {"b": 1}}


def test_plain_tags_are_read() -> None:
    assert _read("a: !!str 3\nb: ! 4\nc: !!map {}\n")[0].tree == {"a": "3", "b": "4", "c": {}}


UNREADABLE: list[tuple[str | bytes, int | None, int | None, str, str]] = [
    ("", None, None, "the text has no documents", "write at least one"),
    ("# nothing\n---\n", None, None, "the text has no documents", "write at least one"),
    ("a:\n\t- b\n", 2, 1, "a tab may not indent", "indent with spaces"),
    ("a: b: c\n", 1, 5, "mapping values are not allowed", "in quotes"),
    ("a: [1, 2\n", 2, 1, "flow sequence", "close the bracket"),
    ("a: 'x\n", 2, 1, "quoted scalar", "close the quotes"),
    ("a: @x\n", 1, 4, "cannot start any token", "in quotes"),
    ("a: 1\nb: 2\na: 3\n", 3, 1, 'the key "a" appears twice', "keep one"),
    ("a: *x\n", 1, 4, 'alias "*x" does not name an earlier anchor', "define the anchor first"),
    ("a: &a [*a]\n", 1, 8, 'alias "*a" does not name an earlier anchor', "define the anchor first"),
    ("a: !!python/object:os.system x\n", 1, 4, "is not supported", "remove it"),
    ("a: !x {}\n", 1, 4, 'the tag "!x" is not supported', "remove it"),
    ("%YAML 1.1\n---\na: 1\n", 1, 1, "only YAML 1.2 is supported", "remove the %YAML line"),
    ("? [a]\n: b\n", 1, 3, "a key must be plain text", "one word"),
    ('a: "\\U00110000"\n', 1, 7, "Unicode character escape", "check escapes"),
    ('a: "\\ud83d\\ude00"\n', 1, 7, "Unicode character escape", "or both surrogates"),
    ('a: "\\q"\n', 1, 5, "unknown escape", "double the backslash"),
    ("a: x\u2028y\n", 1, 5, "U+2028 must be escaped", '"\\u2028" in double quotes'),
    ("%TAG !a! b\n" * 101, None, None, "declares 101 tags, over 100", "remove the %TAG lines"),
    ("%TAG !a! b\r" * 101, None, None, "declares 101 tags, over 100", "remove the %TAG lines"),
    (f"a: {'[' * 100}", 1, 4 + DEPTH_MAX - 1, f"deeper than {DEPTH_MAX} levels", "no document"),
    ("a\x00b", 1, 2, "character U+0000 may not be in a document (NUL)", "remove it"),
    ("a: 1\nb: \ud800\n", 2, 4, "character U+D800", "remove it"),
    (b"ab\n\xe9", 2, 1, "byte 0xe9 is not UTF-8", "save the file as UTF-8"),
    ("a: é".encode("utf-16"), 1, None, "the text is UTF-16, not UTF-8", "save it as UTF-8"),
    ('{"a": 1,\n "b": }', 2, 7, "malformed JSON: expecting value", "read as JSON"),
    ('{"a": 1,}', 1, 9, "expecting property name", "no comma after the last one"),
    ('{"a": "x', 1, 7, "unterminated string", "close the string"),
    ('{"a": "\t"}', 1, 8, "invalid control character", "write a tab as \\t"),
    ('{"a": "\\x"}', 1, 8, "invalid \\escape", "double the backslash"),
    ('{"a" 1}', 1, 6, "expecting ':' delimiter", "add the missing punctuation"),
    ('[{"a": 1}\n {"b": 2}]', 2, 2, "expected ',' or ']'", "add a comma"),
    ('[{"a": 1}', 1, 10, "expected ',' or ']'", "add a comma"),
    ("{a: 1}", 1, 2, "expecting property name", "double quotes"),
    ('{}\n{"a": 1, "a": 2}', 2, 1, 'has the key "a" twice', "keep one of them"),
    ('{"a":' * 100 + "1" + "}" * 100, 1, 1, f"deeper than {DEPTH_MAX} levels", "no document"),
    ('{"a":' * 50_000, 1, 1, f"deeper than {DEPTH_MAX} levels", "no document"),
]


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "remedy"),
    UNREADABLE,
    ids=[repr(case[0])[:30] for case in UNREADABLE],
)
def test_an_unreadable_text_is_told_where_and_what_to_do(
    text: str | bytes, line: int | None, column: int | None, message: str, remedy: str
) -> None:
    found = _refused(text)
    assert (found.line, found.column) == (line, column)
    assert message in found.message
    assert remedy in found.remedy


def test_an_unreadable_text_reads_as_one_line() -> None:
    parsed = parse_documents("a: 1\n---\na:\n\tb: 1\n", source="x.yaml")
    assert isinstance(parsed, Invalid)
    (problem,) = parsed.problems
    assert problem.text() == (
        "x.yaml:4:1: malformed YAML: a tab may not indent or begin a value; indent with spaces"
    )
    assert problem.document_index == 1


def test_aliases_are_counted_as_if_written_out() -> None:
    """Ten levels of ten aliases each would be ten thousand million values."""
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 11))
    found = _refused(f"a0: &a0 [x]\n{levels}\n")
    assert f"over {VALUES_MAX} values" in found.message
    assert found.line == 7


def test_a_text_beyond_the_limit_is_refused_unread() -> None:
    found = _refused("a" * (TEXT_CHARS_MAX + 1))
    assert f"over {TEXT_CHARS_MAX}" in found.message
    assert found.remedy == "split it into several files"


@pytest.mark.slow
def test_a_json_text_of_too_many_values_is_refused() -> None:
    found = _refused(f'{{"a": [{"1," * VALUES_MAX}1]}}')
    assert f"over {VALUES_MAX} values" in found.message


@pytest.mark.heavy
def test_json_is_read_without_loading_a_yaml_library() -> None:
    program = (
        "import sys; from quorate.documents import parse_documents; "
        "parse_documents('{}', source='x'); "
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('yaml', '_yaml')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "[]"
