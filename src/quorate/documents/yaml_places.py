"""The positions of the values of a YAML document, by path.

The parser records the positions of keys and list entries in order, without their paths, because
most documents are valid and need no paths. For a faulty document, the paths are computed from the
document's tree, which has the keys and entries in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml._yaml
import yaml.error

from quorate.documents.document_problem import Path
from quorate.documents.located_tree import Position

Mark = yaml.error.Mark | yaml._yaml.Mark | None  # noqa: SLF001 - what the types of events say
"""The position where a YAML event begins."""


@dataclass(slots=True)
class Marks:
    """The lines of the keys and list entries of one document, in order."""

    found: list[Mark] = field(default_factory=list)
    aliased: set[int] = field(default_factory=set)
    """Indexes of the entries whose value is an alias.

    The content of an alias has no marks here: it has marks at its anchor.
    """


def position(mark: Mark) -> Position:
    """Return line and column of ``mark``, both counted from 1."""
    assert mark is not None
    return Position(mark.line + 1, mark.column + 1)


def places(tree: object, marks: Marks) -> Mapping[Path, Position]:
    """Return the position of each key and list entry of ``tree``, by path."""
    found: dict[Path, Position] = {}
    if not marks.found:
        return found
    # For each mapping and list on the current path: its path, and its remaining entries.
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
    """The remaining entries of a mapping or list, in the order of the text."""

    __slots__ = ("entries", "path")

    def __init__(self, path: Path, value: object) -> None:
        assert isinstance(value, dict | list), value
        self.path = path
        self.entries: Iterator[tuple[str | int, object]] = iter(
            value.items() if isinstance(value, dict) else enumerate(value)
        )
