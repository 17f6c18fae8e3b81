"""YAML 1.2 to plain trees, built from the parser's events.

Events and not a loader, because a loader constructs what tags ask for, reads ``no`` and ``1:30``
by older rules, and forgets lines. Scalars follow the core schema of YAML 1.2 (section 10.3):
``no`` and ``1:30`` are text, ``0o17`` is 15. Aliases are shared, not copied, and what they would
amount to written out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from quorate.documents.document_problem import Path, quoted
from quorate.documents.json_text import exact_decimal
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

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH: Final = {"true": True, "True": True, "TRUE": True} | {
    "false": False,
    "False": False,
    "FALSE": False,
}
_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})
_INT_CHARS_MAX: Final = 40
_CORE_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = frozenset({"!", _CORE_TAG + "str"})
_PLAIN_TAGS: Final = frozenset(
    _CORE_TAG + name for name in ("map", "seq", "str", "int", "float", "bool", "null")
)


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Carries the reason why out of the walk over the events."""

    def __init__(self, message: str, remedy: str, at: Position | None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.at = at


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    value: dict[str, object] | list[object]
    path: Path
    anchor: str | None
    values_before: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _Anchored:
    """What an alias refers to, and how many values that is written out."""

    value: object
    values: int


def read_yaml(text: str) -> tuple[SourceDocument, ...] | Unreadable:
    """Return the documents of ``text``, empty ones left out, or what makes it unreadable."""
    found: list[SourceDocument] = []
    values_left, look = VALUES_MAX, may_have_half(text)
    builder: _Builder | None = None
    try:
        for event in _events(text):
            if isinstance(event, DocumentStartEvent):
                _check_version(event)
                builder = _Builder(values_left)
            elif builder is not None and builder.take(event):
                if builder.root is not None:
                    found.append(_whole(builder.document(), look=look))
                values_left -= builder.values
                builder = None
    except _Refused as refused:
        return Unreadable(
            message=f"malformed YAML: {refused.message}",
            remedy=refused.remedy,
            line=None if refused.at is None else refused.at.line,
            column=None if refused.at is None else refused.at.column,
            document_index=len(found),
        )
    return tuple(found)


def _whole(document: SourceDocument, *, look: bool) -> SourceDocument:
    """Return ``document``; refuses one with half of a character in it, if it may have one."""
    if look and has_half(document.tree):
        raise _Refused(HALF, WHOLE, document.start)
    return document


def _events(text: str) -> Iterator[Event]:
    """Yield the parser's events, its errors turned into ours."""
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = None if mark is None else Position(mark.line + 1, mark.column + 1)
        what = " ".join(part for part in (error.context, error.problem) if part)
        raise _Refused(*_explained(what), at) from error
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # The parser lets these escape for some malformed escapes and directives.
        what = " ".join(str(error).split()) or type(error).__name__
        raise _Refused(what, _MEND, None) from error


_MEND: Final = "check escapes and directives, or write the document as JSON"


def _explained(what: str) -> tuple[str, str]:
    what = " ".join(what.split())
    if "'\\t'" in what or "\\t" in what:
        return "a tab may not indent or begin a value", "indent with spaces"
    if "mapping values are not allowed" in what:
        return what, "put text that holds ': ' in quotes, and check the indentation"
    if "cannot start any token" in what:
        return what, "put text that begins with a special character in quotes"
    if "quoted scalar" in what:
        return what, "close the quotes"
    if "flow" in what:
        return what, "close the bracket or brace, and separate entries with commas"
    return what, "check the indentation and punctuation here"


def _check_version(event: DocumentStartEvent) -> None:
    if event.version is not None and tuple(event.version) != (1, 2):
        raise _Refused("only YAML 1.2 is read", "remove the %YAML line", _position(event))


class _Builder:
    """Builds one document's tree from its events, without recursion."""

    __slots__ = ("_anchors", "_open", "_places", "_start", "_values_max", "root", "values")

    def __init__(self, values_max: int) -> None:
        self.root: object = None
        self.values = 0
        self._values_max = values_max
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._places: dict[Path, Position] = {}
        self._start = Position(1, 1)

    def take(self, event: Event) -> bool:
        """Add ``event`` and return whether the document is complete with it."""
        if isinstance(event, CollectionEndEvent):
            self._close(self._open.pop())
            return not self._open
        if isinstance(event, NodeEvent):
            self._node(event)
        return isinstance(event, ScalarEvent | AliasEvent) and not self._open

    def document(self) -> SourceDocument:
        """Return the document that was built."""
        places = self._places
        return SourceDocument(tree=self.root, start=self._start, places=lambda: places)

    def _node(self, event: NodeEvent) -> None:
        parent = self._open[-1] if self._open else None
        position = _position(event)
        if parent is None:
            self._start = position
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            parent.key = self._key(event, parent, position)
            return
        path = self._path(parent, position)
        self._count(1, position)
        values_before = self.values
        if isinstance(event, AliasEvent):
            value = self._alias(event, position)
        elif isinstance(event, CollectionStartEvent):
            value = self._collection(event, path, position)
        else:
            assert isinstance(event, ScalarEvent), event
            value = _scalar(event, position)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(value, self.values - values_before)
        self._place(value, parent)

    def _key(self, event: NodeEvent, parent: _Open, position: Position) -> str:
        if not isinstance(event, ScalarEvent):
            raise _Refused("a key must be plain text", "write the key as one word", position)
        _check_tag(event, position)
        key = str(event.value)
        assert isinstance(parent.value, dict)
        if key in parent.value:
            raise _Refused(f"the key {quoted(key)} is here twice", "keep one of the two", position)
        self._places[(*parent.path, key)] = position
        return key

    def _path(self, parent: _Open | None, position: Position) -> Path:
        if parent is None:
            return ()
        if isinstance(parent.value, list):
            path = (*parent.path, len(parent.value))
            self._places[path] = position
            return path
        assert parent.key is not None
        return (*parent.path, parent.key)

    def _alias(self, event: AliasEvent, position: Position) -> object:
        target = self._anchors.get(event.anchor)
        if target is None:
            raise _Refused(
                f"alias {quoted('*' + event.anchor)} names no anchor that is complete before it",
                "define the anchor first, in the same document",
                position,
            )
        self._count(target.values, position)
        return target.value

    def _collection(self, event: CollectionStartEvent, path: Path, position: Position) -> object:
        _check_tag(event, position)
        if len(self._open) >= DEPTH_MAX:
            raise _Refused(TOO_DEEP, FLATTEN, position)
        value: dict[str, object] | list[object] = {} if isinstance(event, MappingStartEvent) else []
        self._open.append(_Open(value, path, event.anchor, self.values))
        return value

    def _place(self, value: object, parent: _Open | None) -> None:
        if parent is None:
            self.root = value
        elif isinstance(parent.value, list):
            parent.value.append(value)
        else:
            assert parent.key is not None
            parent.value[parent.key] = value
            parent.key = None

    def _close(self, closed: _Open) -> None:
        # An anchor counts from here on only, so that nothing can hold itself.
        if closed.anchor is not None:
            values = self.values - closed.values_before
            self._anchors[closed.anchor] = _Anchored(closed.value, values)

    def _count(self, values: int, position: Position) -> None:
        self.values += values
        if self.values > self._values_max:
            raise _Refused(TOO_MANY, SPLIT, position)


def _position(event: Event) -> Position:
    mark = event.start_mark
    return Position(mark.line + 1, mark.column + 1)


def _check_tag(event: NodeEvent, position: Position) -> None:
    tag = _tag(event)
    if tag is not None and tag not in _PLAIN_TAGS and tag != "!":
        raise _Refused(
            f"the tag {quoted(tag)} is not read here", "remove it; documents are plain", position
        )


def _tag(event: NodeEvent) -> str | None:
    tag = getattr(event, "tag", None)
    return None if tag is None else str(tag)


def _scalar(event: ScalarEvent, position: Position) -> object:
    _check_tag(event, position)
    written = str(event.value)
    tag = _tag(event)
    if tag in _TEXT_TAGS or (tag is None and not event.implicit[0]):
        return written
    return plain_scalar(written)


def plain_scalar(written: str) -> bool | int | Decimal | str | None:  # noqa: PLR0911
    """Return what the unquoted scalar ``written`` means in the core schema of YAML 1.2."""
    if written in _NULL:
        return None
    if written in _TRUTH:
        return _TRUTH[written]
    if not (written[0] in "+-." or "0" <= written[0] <= "9"):
        return written
    if _INT.fullmatch(written):
        return int(written) if len(written) <= _INT_CHARS_MAX else Decimal(written)
    if _OCTAL.fullmatch(written) and len(written) <= _INT_CHARS_MAX:
        return int(written, 0)
    if _HEX.fullmatch(written) and len(written) <= _INT_CHARS_MAX:
        return int(written, 0)
    if _FLOAT.fullmatch(written):
        return exact_decimal(written)
    if _INFINITE.fullmatch(written):
        return Decimal("-Infinity" if written[0] == "-" else "Infinity")
    return Decimal("NaN") if written in _NAN else written
