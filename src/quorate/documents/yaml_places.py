"""Where the values of a YAML document were written, by their paths.

Reading notes the place of each key and list entry in their order. Most documents are sound, and
no caller asks for paths; those of a faulty one follow from its tree, which has the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml._yaml
import yaml.error

from quorate.documents.document_problem import Path
from quorate.documents.located_tree import Position

Mark = yaml.error.Mark | yaml._yaml.Mark | None  # noqa: SLF001 - what the types of events say
"""Where an event begins; of a parsed text, every event has one."""


@dataclass(slots=True)
class Marks:
    """The lines of the keys and the list entries of one document, in their order."""

    found: list[Mark] = field(default_factory=list)
    aliased: set[int] = field(default_factory=set)
    """Which of them have an alias as their value, whose inside was written elsewhere."""


def position(mark: Mark) -> Position:
    """Return line and column of ``mark``, both counted from 1."""
    assert mark is not None
    return Position(mark.line + 1, mark.column + 1)


def places(tree: object, marks: Marks) -> Mapping[Path, Position]:
    """Return where each key and list entry of ``tree`` was written, by its path."""
    found: dict[Path, Position] = {}
    if not marks.found:
        return found
    # Of each mapping and list that the walk is in: its path, and its entries that are left.
    walks = [_Walk((), tree)]
    for number, mark in enumerate(marks.found):
        while (entry := next(walks[-1].entries, None)) is None:
            walks.pop()
        path = (*walks[-1].path, entry[0])
        found[path] = position(mark)
        if number not in marks.aliased and isinstance(entry[1], dict | list):
            walks.append(_Walk(path, entry[1]))
    return found


class _Walk:
    """The entries of a mapping or list that are left, in the order in which they were written."""

    __slots__ = ("entries", "path")

    def __init__(self, path: Path, value: object) -> None:
        assert isinstance(value, dict | list), value
        self.path = path
        self.entries: Iterator[tuple[str | int, object]] = iter(
            value.items() if isinstance(value, dict) else enumerate(value)
        )
