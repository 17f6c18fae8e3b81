"""Reads JSON into plain trees: one object, a list of objects, or several objects.

The standard library's scanner reads the values, but does not report their lines. Lines are found by
a second, slower pass, which runs only for a faulty document.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Final

from quorate.documents.document_problem import Path, quoted
from quorate.documents.located_tree import (
    DEPTH_MAX,
    FLATTEN,
    HALF,
    SPLIT,
    TOO_DEEP,
    TOO_MANY,
    VALUES_MAX,
    WHOLE,
    Position,
    SourceDocument,
    Unreadable,
    has_half,
    may_have_half,
)

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_INT_CHARS_MAX: Final = 40


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Ends the loop over the top level, with the reason why the text is refused."""

    def __init__(self, reason: Unreadable) -> None:
        self.reason = reason


def read_json(text: str) -> tuple[SourceDocument, ...] | Unreadable:
    """Return the documents of ``text`` in order, or why it cannot be read."""
    found: list[SourceDocument] = []
    scanner = _Scanner(text)
    try:
        for offset, tree in scanner.values():
            start = scanner.position(offset)
            places = partial(_places, text, offset, start)
            found.append(SourceDocument(tree=tree, start=start, places=places))
    except _Refused as refused:
        return replace(refused.reason, document_index=len(found))
    return tuple(found)


class _Scanner:
    """Reads the top level of a text; the standard library reads each document."""

    __slots__ = (
        "_counted_to",
        "_decoder",
        "_line",
        "_line_start",
        "_may_have_half",
        "_repeated",
        "_text",
        "_values",
    )

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._line_start = 0
        self._counted_to = 0
        self._repeated: list[str] = []
        self._values = 0
        self._may_have_half = may_have_half(text)
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_float=exact_decimal, parse_int=_exact_int
        )

    def values(self) -> Generator[tuple[int, object], None, None]:
        """Yield the offset and the value of each document, including each document in a list."""
        offset = self._skip(0)
        while offset < len(self._text):
            if self._text[offset] == "[":
                offset = yield from self._listed(offset)
            else:
                tree, end = self._decode(offset)
                yield offset, tree
                offset = end
            offset = self._skip(offset)

    def position(self, offset: int) -> Position:
        """Return line and column of ``offset``; offsets must not decrease from call to call."""
        # Counting begins at the last offset and not at the start of the line, because a text may
        # be one long line.
        breaks = self._text.count("\n", self._counted_to, offset)
        if breaks:
            self._line += breaks
            self._line_start = self._text.rfind("\n", self._counted_to, offset) + 1
        self._counted_to = offset
        return Position(self._line, offset - self._line_start + 1)

    def _listed(self, offset: int) -> Generator[tuple[int, object], None, int]:
        offset = self._skip(offset + 1)
        if self._text[offset : offset + 1] == "]":
            return offset + 1
        while True:
            tree, end = self._decode(offset)
            yield offset, tree
            offset = self._skip(end)
            if self._text[offset : offset + 1] == "]":
                return offset + 1
            if self._text[offset : offset + 1] != ",":
                raise self._refused(
                    offset, "expected ',' or ']' after a document", "close the list, or add a comma"
                )
            offset = self._skip(offset + 1)

    def _decode(self, offset: int) -> tuple[object, int]:
        try:
            tree, end = self._decoder.raw_decode(self._text, offset)
        except json.JSONDecodeError as error:
            raise self._refused(error.pos, _plain(error.msg), _remedy(error.msg)) from error
        except RecursionError as error:
            raise self._refused(offset, TOO_DEEP, FLATTEN) from error
        if self._repeated:
            key = quoted(self._repeated[0])
            raise self._refused(
                offset, f"the document that starts here has the key {key} twice", "keep one of them"
            )
        values, depth = _measure(tree)
        self._values += values
        if self._values > VALUES_MAX:
            raise self._refused(offset, TOO_MANY, SPLIT)
        if depth > DEPTH_MAX:
            raise self._refused(offset, TOO_DEEP, FLATTEN)
        if self._may_have_half and has_half(tree):
            raise self._refused(offset, HALF, WHOLE)
        return tree, end

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self._repeated.extend(key for key, times in counts.items() if times > 1)
        return found

    def _skip(self, offset: int) -> int:
        match = _SPACE.match(self._text, offset)
        assert match is not None
        return match.end()

    def _refused(self, offset: int, message: str, remedy: str) -> _Refused:
        text = self._text
        return _Refused(
            Unreadable(
                message=f"malformed JSON: {message}",
                remedy=remedy,
                line=text.count("\n", 0, offset) + 1,
                column=offset - text.rfind("\n", 0, offset),
            )
        )


def _measure(tree: object) -> tuple[int, int]:
    """Return the number of values in ``tree``, and its nesting depth, without recursion."""
    values, deepest = 1, 0
    waiting = [(tree, 1)]
    while waiting:
        value, depth = waiting.pop()
        inside = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
        values += len(inside)
        if isinstance(value, dict | list):
            deepest = max(deepest, depth)
        waiting.extend((each, depth + 1) for each in inside if isinstance(each, dict | list))
    return values, deepest


def _exact_int(written: str) -> int | Decimal:
    # Python cannot read integers of thousands of digits. A long integer becomes a Decimal, so that
    # the reader of its field refuses it, with its path.
    return int(written) if len(written) <= _INT_CHARS_MAX else Decimal(written)


def exact_decimal(written: str) -> Decimal:
    """Return the number in the text ``written``, exactly; infinity if its exponent is too large."""
    try:
        return Decimal(written)
    except InvalidOperation:
        return Decimal("Infinity")


def _plain(message: str) -> str:
    return message[:1].lower() + message[1:]


def _remedy(message: str) -> str:
    if "property name" in message:
        return "put keys in double quotes, and no comma after the last one"
    if "delimiter" in message:
        return "add the missing punctuation before this place"
    if "nterminated string" in message:
        return "close the string with a double quote"
    if "control character" in message:
        return "write a tab as \\t and a line break as \\n"
    if "escape" in message:
        return "double the backslash, or use a JSON escape"
    return "text that begins with { or [ is read as JSON; correct the JSON, or write YAML"


def _places(text: str, offset: int, start: Position) -> Mapping[Path, Position]:
    """Return the position of each value of the document at ``offset``, by path.

    The position of a field is the position of its key. The document must be valid JSON.
    """
    walk = _Walk()
    line = start.line
    line_start = offset - start.column + 1
    counted_to = offset
    for token in _TOKEN.finditer(text, offset):
        breaks = text.count("\n", counted_to, token.start())
        if breaks:
            line += breaks
            line_start = text.rfind("\n", counted_to, token.start()) + 1
        counted_to = token.start()
        if walk.take(token[0], Position(line, token.start() - line_start + 1)):
            break
    return walk.found


class _Walk:
    """Reads the tokens of one document and records the position of each key and list entry."""

    __slots__ = ("_keys", "_paths", "found")

    def __init__(self) -> None:
        self.found: dict[Path, Position] = {}
        # For each open mapping or list: its path, and the key or index of the next value.
        self._paths: list[Path] = []
        self._keys: list[str | int | None] = []

    def take(self, written: str, position: Position) -> bool:
        """Read the token ``written``, and return whether the document ends with it."""
        if written in "}]":
            self._paths.pop()
            self._keys.pop()
        elif written == ",":
            key = self._keys[-1]
            self._keys[-1] = key + 1 if isinstance(key, int) else None
        elif self._keys and self._keys[-1] is None:
            key = str(json.loads(written))
            self._keys[-1] = key
            self.found[(*self._paths[-1], key)] = position
        elif written != ":":
            self._value(written, position)
        return not self._paths

    def _value(self, written: str, position: Position) -> None:
        path: Path = ()
        if self._paths:
            key = self._keys[-1]
            assert key is not None, written
            path = (*self._paths[-1], key)
            self.found.setdefault(path, position)
        if written in "{[":
            self._paths.append(path)
            self._keys.append(None if written == "{" else 0)
