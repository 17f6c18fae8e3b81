"""Filters resources by labels and fields, and sorts them by a field. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LABEL: Final = re.compile(r"(?P<no>!?)(?P<key>[A-Za-z0-9./_-]+)(?:(?P<how>==|=|!=)(?P<value>.*))?")
_FIELD: Final = re.compile(r"(?P<path>[^=!<>~]+)(?P<how>==|=(?!~)|!=)(?P<value>.*)")

Tree = Mapping[str, Any]


class ChoiceError(ValueError):
    """A selector cannot be parsed; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """The label selector, field selectors and sort path that were typed."""

    labels: str | None = None
    fields: tuple[str, ...] = ()
    sort_path: str | None = None

    def check(self) -> None:
        """Raise ``ChoiceError`` if a selector cannot be parsed."""
        self._tests()

    def chosen(self, trees: Sequence[Tree]) -> list[Tree]:
        """Return the ``trees`` that match every selector, sorted if there is a sort path.

        Raises ``ChoiceError`` if a selector cannot be parsed, or if no tree has a named field.
        """
        tests = self._tests()
        for text in self.fields:
            path = _field_parts(text)["path"]
            if trees and not any(has_path(tree, path) for tree in trees):
                raise ChoiceError(f"--field {text}: no listed resource has {path}; see: -o json")
        found = [tree for tree in trees if all(test(tree) for test in tests)]
        return found if self.sort_path is None else sorted_by(found, self.sort_path)

    def _tests(self) -> list[Callable[[Tree], bool]]:
        by_labels = [] if self.labels is None else [label_choice(self.labels)]
        return [*by_labels, *map(field_choice, self.fields)]


def label_choice(text: str) -> Callable[[Tree], bool]:
    """Return a filter by labels: ``a=b``, ``a!=b``, ``a`` and ``!a``, joined by commas."""
    tests: list[Callable[[Mapping[str, str]], bool]] = []
    for part in text.split(","):
        matched = _LABEL.fullmatch(part.strip())
        if matched is None or (matched["no"] and matched["how"]):
            raise ChoiceError(f"-l {text!r}: write KEY=VALUE, KEY!=VALUE, KEY or !KEY")
        tests.append(_label_test(matched["key"], matched["how"], matched["value"], matched["no"]))
    return lambda tree: all(test(tree["metadata"].get("labels", {})) for test in tests)


def _label_test(
    key: str, how: str | None, value: str | None, no: str
) -> Callable[[Mapping[str, str]], bool]:
    if how is None:
        return lambda labels: (key in labels) != bool(no)
    return lambda labels: (labels.get(key) == value) == (how != "!=")


def field_choice(text: str) -> Callable[[Tree], bool]:
    """Return a filter by a field: ``status.phase=Running`` or ``spec.owner!=rai``."""
    matched = _field_parts(text)
    path, wanted, is_same = matched["path"], matched["value"], matched["how"] != "!="
    return lambda tree: (_text(value_at(tree, path)) == wanted) == is_same


def _field_parts(text: str) -> re.Match[str]:
    """Return a match with ``path``, ``how`` (the operator) and ``value`` of a field selector.

    Raises ``ChoiceError`` if the selector cannot be parsed.
    """
    matched = _FIELD.fullmatch(text)
    if matched is None:
        raise ChoiceError(
            f"--field {text!r}: write PATH=VALUE or PATH!=VALUE; other operators "
            "do not exist; to compare values, use -o json and another program"
        )
    return matched


def _text(value: object) -> str:
    """Return ``value`` as a user types it: true, false or null as in JSON; empty if missing."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def value_at(tree: Any, path: str) -> Any:
    """Return the value of ``tree`` at ``path``, such as ``.spec.owner``; None if it is missing."""
    for key in path.strip("{}").lstrip(".").split("."):
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(key)
    return tree


def has_path(tree: Any, path: str) -> bool:
    """Return whether ``tree`` has the field at ``path``, even if its value is null."""
    above, _, key = path.strip("{}").lstrip(".").rpartition(".")
    parent = value_at(tree, above) if above else tree
    return isinstance(parent, Mapping) and key in parent


def sorted_by(trees: Sequence[Tree], path: str) -> list[Tree]:
    """Return ``trees`` sorted by the value at ``path``.

    Numbers come first, then strings and booleans, then lists, objects and missing values. The sort
    is stable. Raises ``ChoiceError`` if no resource has a value at ``path`` that can be sorted.
    """
    found = [(_rank(value_at(tree, path)), tree) for tree in trees]
    if trees and all(rank[0] == _NOTHING for rank, _ in found):
        raise ChoiceError(f"--sort-by {path}: no listed resource has a value there; see: -o json")
    return [tree for _, tree in sorted(found, key=lambda pair: pair[0])]


_NOTHING: Final = 2


def _rank(value: object) -> tuple[int, float, str]:
    match value:
        case bool() | str():
            return (1, 0.0, _text(value))
        case int() | float():
            return (0, float(value), "")
        case _:
            return (_NOTHING, 0.0, "")
