"""Reads YAML 1.2 into plain trees, from the events of libyaml's parser.

This module does not use a loader of PyYAML, for three reasons: a loader constructs the objects that
tags name, it reads ``no`` and ``1:30`` by the rules of YAML 1.1, and it drops line numbers. Here
scalars follow the core schema of YAML 1.2 (section 10.3): ``no`` and ``1:30`` are strings, and
``0o17`` is 15. The value of an alias is shared, not copied; but for the limit on the number of
values, each alias counts like a copy.

The longer a text is, the more values it may have. The nesting depth of values and the number of
declared tags have fixed limits. Paths are computed only for a faulty document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Final

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from quorate.documents.document_problem import quoted
from quorate.documents.located_tree import (
    DEPTH_MAX,
    FLATTEN,
    SPLIT,
    TOO_DEEP,
    TOO_MANY,
    VALUES_MAX,
    Position,
    SourceDocument,
    Unreadable,
)
from quorate.documents.yaml_places import Mark, Marks, places, position
from quorate.documents.yaml_scalar import plain_scalar

VALUES_FREE: Final = 5_000
"""The number of values that a text of any length may hold."""
CHARS_PER_VALUE: Final = 9
"""The number of characters that allow a text one more value, in addition to ``VALUES_FREE``.

Documents have 12 characters or more for each value.
"""
TAGS_DECLARED_MAX: Final = 100
"""The maximal number of declared tags.

It is limited, because the parser compares each declared tag with all others.
"""

_CORE_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = frozenset({"!", _CORE_TAG + "str"})
_PLAIN_TAGS: Final = _TEXT_TAGS | {
    _CORE_TAG + name for name in ("map", "seq", "int", "float", "bool", "null")
}
_TAG_DECLARED: Final = re.compile(r"(?:^|[\r\n])%TAG")
# libyaml reads some of these as the end of a line, as YAML 1.1 did, and refuses the others.
_ESCAPED_ONLY: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
_MEND: Final = "check the indentation and punctuation here"
_REMEDIES: Final = {
    "mapping values are not allowed": "put text that contains ': ' in quotes, and check the "
    "indentation",
    "cannot start any token": "put text that begins with a special character in quotes",
    "Unicode character escape": "check escapes: write the character itself, or both surrogates",
    "escape": "check escapes: double the backslash, or use one of YAML's",
    "quoted scalar": "close the quotes",
    "flow": "close the bracket or brace, and separate entries with commas",
}
"""Part of a parser message -> remedy; the first part that occurs in the message applies."""


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Ends the loop over the events, with the reason why the text is refused."""

    def __init__(self, message: str, remedy: str, at: Position | None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.at = at


@dataclass(slots=True)
class _Count:
    """The number of values so far, with aliases expanded, and its limit."""

    values: int
    values_max: int


@dataclass(slots=True)
class _Open:
    """A mapping or list that is not complete yet; a mapping has the ``key`` of its next value."""

    value: dict[str, object] | list[object]
    anchor: str | None
    values_before: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _Anchored:
    """The value of an anchor, and the number of values in it with aliases expanded."""

    value: object
    values: int


def read_yaml(text: str) -> tuple[SourceDocument, ...] | Unreadable:
    """Return the documents of ``text`` that are not empty, or why ``text`` cannot be read."""
    found: list[SourceDocument] = []
    try:
        _check_text(text)
        count = _Count(0, values_allowed(len(text)))
        next_event = CParser(text).get_event
        while not isinstance(event := next_event(), StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                _check_version(event)
                builder = _Builder(count)
                while not builder.take(next_event()):
                    pass
                if builder.root is not None:
                    found.append(builder.document())
    except _Refused as refused:
        return _unreadable(refused, len(found))
    except MarkedYAMLError as error:
        return _unreadable(_malformed(error, text), len(found))
    return tuple(found)


def values_allowed(length: int) -> int:
    """Return the maximal number of values in a text of ``length`` characters, without aliases."""
    return min(VALUES_MAX, VALUES_FREE + length // CHARS_PER_VALUE)


def _unreadable(refused: _Refused, document_index: int) -> Unreadable:
    return Unreadable(
        message=f"malformed YAML: {refused.message}",
        remedy=refused.remedy,
        line=None if refused.at is None else refused.at.line,
        column=None if refused.at is None else refused.at.column,
        document_index=document_index,
    )


def _check_text(text: str) -> None:
    """Refuse a text that libyaml would read differently from YAML 1.2, or very slowly."""
    special = _ESCAPED_ONLY.search(text)
    if special is not None:
        code = ord(special[0])
        raise _Refused(
            f"character U+{code:04X} must be escaped",
            f'write "\\u{code:04x}" in double quotes instead',
            _offset_position(text, special.start()),
        )
    declared = _TAG_DECLARED.findall(text)
    if len(declared) > TAGS_DECLARED_MAX:
        raise _Refused(
            f"the text declares {len(declared)} tags, over {TAGS_DECLARED_MAX}",
            "remove the %TAG lines; documents use no tags",
            None,
        )


def _offset_position(text: str, offset: int) -> Position:
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def _malformed(error: MarkedYAMLError, text: str) -> _Refused:
    mark = error.problem_mark or error.context_mark
    what = " ".join(part for part in (error.context, error.problem) if part)
    if mark is None:
        return _Refused(what, _MEND, None)
    if text[mark.index : mark.index + 1] == "\t":
        return _Refused(
            "a tab may not indent or begin a value", "indent with spaces", position(mark)
        )
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in what), _MEND)
    return _Refused(what, remedy, position(mark))


def _check_version(event: DocumentStartEvent) -> None:
    if event.version is not None and tuple(event.version) != (1, 2):
        raise _Refused(
            ("only YAML 1.2 is supported"), "remove the %YAML line", position(event.start_mark)
        )


class _Builder:
    """Builds the tree of one document from its events, without recursion."""

    __slots__ = ("_anchors", "_count", "_marks", "_open", "_start", "root")

    def __init__(self, count: _Count) -> None:
        self.root: object = None
        self._count = count
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._marks = Marks()
        self._start: Mark = None

    def take(self, event: object) -> bool:
        """Add ``event`` and return whether the document is now complete."""
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, MappingStartEvent):
            self._begin({}, event)
            return False
        elif isinstance(event, SequenceStartEvent):
            self._begin([], event)
            return False
        elif isinstance(event, AliasEvent):
            self._alias(event)
        else:
            assert isinstance(event, MappingEndEvent | SequenceEndEvent), event
            self._end(self._open.pop())
        return not self._open

    def document(self) -> SourceDocument:
        """Return the document that was built."""
        return SourceDocument(
            tree=self.root,
            start=position(self._start),
            places=partial(places, self.root, self._marks),
        )

    def _scalar(self, event: ScalarEvent) -> None:
        written, tag = event.value, event.tag
        if tag is not None:
            _check_tag(tag, event.start_mark)
        inside = self._open[-1] if self._open else None
        if inside is not None and inside.key is None and isinstance(inside.value, dict):
            if written in inside.value:
                raise _Refused(
                    f"the key {quoted(written)} appears twice",
                    "keep one of the two",
                    position(event.start_mark),
                )
            self._marks.found.append(event.start_mark)
            inside.key = written
            return
        is_text = tag in _TEXT_TAGS if tag is not None else not event.implicit[0]
        value = written if is_text else plain_scalar(written)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 0)
        self._place(value, inside, event.start_mark)

    def _begin(
        self,
        value: dict[str, object] | list[object],
        event: MappingStartEvent | SequenceStartEvent,
    ) -> None:
        if event.tag is not None:
            _check_tag(event.tag, event.start_mark)
        if len(self._open) >= DEPTH_MAX:
            raise _Refused(TOO_DEEP, FLATTEN, position(event.start_mark))
        self._place(value, self._open[-1] if self._open else None, event.start_mark)
        self._open.append(_Open(value, event.anchor, self._count.values))

    def _end(self, ended: _Open) -> None:
        # Only later aliases can refer to this anchor, so that no value can contain itself.
        if ended.anchor is not None:
            values = self._count.values - ended.values_before
            self._anchors[ended.anchor] = _Anchored(ended.value, values)

    def _alias(self, event: AliasEvent) -> None:
        assert event.anchor is not None
        target = self._anchors.get(event.anchor)
        if target is None:
            raise _Refused(
                f"alias {quoted('*' + event.anchor)} does not name an earlier anchor",
                "define the anchor first, in the same document",
                position(event.start_mark),
            )
        self._place(target.value, self._open[-1] if self._open else None, event.start_mark)
        self._marks.aliased.add(len(self._marks.found) - 1)
        count = self._count
        count.values += target.values
        count.values_max = min(VALUES_MAX, count.values_max + target.values)
        if count.values > count.values_max:
            raise self._too_many(event.start_mark)

    def _place(self, value: object, inside: _Open | None, mark: Mark) -> None:
        """Add ``value`` to the open mapping or list, or make it the document."""
        if inside is None:
            self._start, self.root = mark, value
        elif isinstance(inside.value, list):
            self._marks.found.append(mark)
            inside.value.append(value)
        else:
            if inside.key is None:
                raise _Refused(
                    "a key must be plain text", "write the key as one word", position(mark)
                )
            inside.value[inside.key] = value
            inside.key = None
        count = self._count
        count.values += 1
        if count.values > count.values_max:
            raise self._too_many(mark)

    def _too_many(self, mark: Mark) -> _Refused:
        allowed = self._count.values_max
        if allowed == VALUES_MAX:
            return _Refused(TOO_MANY, SPLIT, position(mark))
        return _Refused(
            f"the text has over {allowed} values, the limit for its length",
            "remove empty documents and empty parts",
            position(mark),
        )


def _check_tag(tag: str, mark: Mark) -> None:
    if tag not in _PLAIN_TAGS:
        raise _Refused(
            f"the tag {quoted(tag)} is not supported",
            "remove it; documents use no tags",
            position(mark),
        )
