"""Field names of the systems that Quorate descends from, read as fields of Quorate.

A synonym is another name of a field. Documents that Quorate writes use the field's own name. If a
document has a field under both names, the two values must be equal. If a document has only the
synonym, faults of the value are reported at the synonym.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from quorate.documents.document_problem import Path, path_text, shown
from quorate.documents.field_reader import At

T = TypeVar("T")
Words = Mapping[Path, Path]
"""The path of a synonym -> the path of the field with the same meaning.

Both paths begin at the same mapping.
"""


def in_own_words(value: object, at: At, words: Words, read: Callable[[object], T]) -> T:
    """Replace the synonyms ``words`` in the mapping ``value``, and return the result of ``read``.

    A fault that ``read`` reports at a field is moved to the synonym that was written.
    """
    used = {ours: theirs for theirs, ours in words.items() if _has(value, theirs)}
    if not used:
        return read(value)
    tree = _copied(value)
    first = len(at.faults)
    for ours, theirs in used.items():
        _move(tree, at, theirs, ours)
    found = read(tree)
    base = at.path
    for number in range(first, len(at.faults)):
        fault = at.faults[number]
        below = fault.path[len(base) :] if fault.path[: len(base)] == base else ()
        for ours, theirs in used.items():
            if below[: len(ours)] == ours and not _has(value, ours):
                path = (*base, *theirs, *below[len(ours) :])
                at.faults[number] = replace(fault, path=path)
    return found


def _move(tree: object, at: At, theirs: Path, ours: Path) -> None:
    """Move the value at ``theirs`` to ``ours``; report a fault if ``ours`` has another value."""
    value = _taken(tree, theirs)
    above = tree
    for key in ours[:-1]:
        if not isinstance(above, dict):
            return  # The reader of the mapping reports this.
        above = above.setdefault(key, {})
    if not isinstance(above, dict):
        return
    own = above.setdefault(ours[-1], value)
    if own != value:
        place = at
        for key in theirs:
            place = place.child(key)
        place.fault(
            f"means the same as {path_text(ours)}, but differs: {shown(value)}, not {shown(own)}",
            "keep one of the two",
        )


def _has(value: object, path: Path) -> bool:
    for key in path:
        if isinstance(value, list) and isinstance(key, int):
            value = dict(enumerate(value))
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _copied(value: object) -> object:
    """Return a copy of ``value`` and of the containers directly inside it.

    The copy shares all deeper values with ``value``, because these have no synonyms.
    """
    assert isinstance(value, dict), value
    kinds = (dict, list)
    return {key: each.copy() if isinstance(each, kinds) else each for key, each in value.items()}


def _taken(tree: object, path: Path) -> object:
    """Remove and return the value at ``path``, and remove containers that become empty."""
    assert isinstance(tree, dict), tree
    key, *rest = path
    if not rest:
        return tree.pop(key)
    inner = tree[key]
    (last,) = rest
    found = inner.pop(0 if isinstance(inner, list) else last)
    if not inner:
        del tree[key]
    return found
