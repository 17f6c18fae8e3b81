"""A simple reader of YAML: another library's parser and one recursive function, without bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from quorate.documents.document_problem import Path
from quorate.documents.located_tree import Position
from quorate.documents.yaml_scalar import plain_scalar

_CORE = "tag:yaml.org,2002:"
_TEXT = ("!", _CORE + "str")
_KNOWN = (*_TEXT, *(_CORE + name for name in ("map", "seq", "int", "float", "bool", "null")))


class NotPlainError(Exception):
    """The text is not YAML, or not YAML with plain values."""


@dataclass(frozen=True)
class PlainDocument:
    """One document: its tree, its start, and the positions of its keys and list entries."""

    tree: object
    start: Position
    places: dict[Path, Position]


def read_plainly(text: str) -> list[PlainDocument]:
    """Return the non-empty documents of ``text``; raise ``NotPlainError``."""
    try:
        events: Iterator[Event] = iter(list(YAML(typ="safe", pure=True).parse(text)))
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise NotPlainError from error
    found = []
    for event in events:
        if isinstance(event, DocumentStartEvent):
            if event.version is not None and tuple(event.version) != (1, 2):
                raise NotPlainError
            first = next(events)
            reading = _Reading(events)
            tree = reading.value(first, ())
            assert isinstance(next(events), DocumentEndEvent)
            if tree is not None:
                found.append(PlainDocument(tree, _position(first), reading.places))
    return found


class _Reading:
    def __init__(self, events: Iterator[Event]) -> None:
        self.places: dict[Path, Position] = {}
        self._events = events
        self._anchors: dict[str, object] = {}

    def value(self, event: Event, path: Path) -> object:
        """Return the value that begins with ``event``."""
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchors:
                raise NotPlainError
            return self._anchors[event.anchor]
        assert isinstance(event, NodeEvent), event
        found = self._written(event, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = found
        return found

    def _written(self, event: NodeEvent, path: Path) -> object:
        tag = _tag(event)
        if isinstance(event, ScalarEvent):
            is_text = tag in _TEXT if tag else not event.implicit[0]
            return str(event.value) if is_text else plain_scalar(str(event.value))
        if isinstance(event, SequenceStartEvent):
            entries: list[object] = []
            while not isinstance(entry := next(self._events), SequenceEndEvent):
                inside = (*path, len(entries))
                self.places[inside] = _position(entry)
                entries.append(self.value(entry, inside))
            return entries
        assert isinstance(event, MappingStartEvent), event
        fields: dict[str, object] = {}
        while not isinstance(key := next(self._events), MappingEndEvent):
            if not isinstance(key, ScalarEvent) or str(key.value) in fields:
                raise NotPlainError
            _tag(key)
            inside = (*path, str(key.value))
            self.places[inside] = _position(key)
            fields[str(key.value)] = self.value(next(self._events), inside)
        return fields


def _tag(event: NodeEvent) -> str | None:
    tag = getattr(event, "tag", None)
    if tag is not None and str(tag) not in _KNOWN:
        raise NotPlainError
    return None if tag is None else str(tag)


def _position(event: Event) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)
