"""Arguments as users give them, made into what an operation takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

T = TypeVar("T")


def many(name: str, given: Iterable[T] | UnsetType) -> Any:
    """Return the elements as a tuple; a text is refused: its letters are never what is meant."""
    if given is UNSET or given is None:
        return given
    if isinstance(given, str | bytes):
        raise TypeError(f"{name}: give a list of texts, not one text: [{given!r}]")
    assert isinstance(given, Iterable), given
    return tuple(given)


def merged(changes: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are given, by name or in ``changes``; twice or unknown is refused."""
    found = {name: value for name, value in named.items() if value is not UNSET}
    for name, value in (changes or {}).items():
        if name not in named:
            known = ", ".join(named)
            raise TypeError(f"{name}: there is no such field; there are: {known}")
        if name in found:
            raise TypeError(f"{name}: is given twice, by name and in changes")
        found[name] = many(name, value) if isinstance(value, list) else value
    return found
