r"""Fills templates with values of documents, as ``kubectl -o jsonpath=`` does. Pure.

The templates are a common subset of those of ``kubectl``.

``{.items[*].metadata.name}`` prints values separated by spaces; ``{range .items[*]}...{end}``
repeats its content for each value; ``{"\n"}`` is text. A path consists of ``.field``,
``['field']``, ``[0]``, ``[-1]`` and ``[*]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

EVERY: Final = "*"
_STEP: Final = re.compile(
    r"""\.(?P<field>[A-Za-z_][\w-]*)|\[(?P<index>-?\d{1,9})\]|(?P<every>\[\*\]|\.\*)"""
    r"""|\[(?P<quote>['"])(?P<key>.+?)(?P=quote)\]"""
)
_REMEDY: Final = "write it like {.items[*].metadata.name}"


class TemplateError(ValueError):
    """A template cannot be parsed; the error's text says where, and what to write."""


@dataclass(frozen=True, slots=True)
class Path:
    """The steps from a document to values; a step is a field's name, a position, or ``EVERY``."""

    steps: tuple[str | int, ...]

    def values(self, tree: object) -> list[Any]:
        """Return the values at this path below ``tree``; empty if there is no such field."""
        found = [tree]
        for step in self.steps:
            found = [each for value in found for each in _below(value, step)]
        return found


@dataclass(frozen=True, slots=True)
class Repeat:
    """``{range PATH}``: its parts are repeated for each value at ``path``."""

    path: Path
    parts: tuple[Part, ...]


Part = str | Path | Repeat


def _below(value: object, step: str | int) -> Sequence[object]:
    if step == EVERY:
        if isinstance(value, dict):
            return list(value.values())
        return value if isinstance(value, list | tuple) else ()
    if isinstance(step, int):
        is_there = isinstance(value, list | tuple) and -len(value) <= step < len(value)
        return (value[step],) if is_there else ()  # type: ignore[index]
    return (value[step],) if isinstance(value, dict) and step in value else ()


def read_template(text: str) -> tuple[Part, ...]:
    """Return the parts of a template, or of a path without braces; raises ``TemplateError``."""
    if "{" not in text and text.strip():
        return (read_path(text.strip()),)
    open_parts: list[tuple[Path | None, list[Part]]] = [(None, [])]
    at = 0
    while at < len(text):
        begin = text.find("{", at)
        if begin < 0:
            open_parts[-1][1].append(text[at:])
            break
        if begin > at:
            open_parts[-1][1].append(text[at:begin])
        end = _closing(text, begin)
        _enter(open_parts, text[begin + 1 : end].strip())
        at = end + 1
    if len(open_parts) > 1:
        raise TemplateError("{range ...} has no {end}")
    if not open_parts[0][1]:
        raise TemplateError(f"the template is empty; {_REMEDY}")
    return tuple(open_parts[0][1])


def _closing(text: str, begin: int) -> int:
    """Return the offset of the brace that closes the brace at ``begin``, ignoring quoted braces.

    Raises ``TemplateError`` if there is no such brace.
    """
    quote = ""
    for at in range(begin + 1, len(text)):
        letter = text[at]
        if quote:
            quote = "" if letter == quote and text[at - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "}":
            return at
    raise TemplateError(f"{text[begin:]!r}: the brace is not closed; {_REMEDY}")


def _enter(open_parts: list[tuple[Path | None, list[Part]]], inside: str) -> None:
    """Read ``inside``, the text between two braces.

    The text opens a ``range``, closes the innermost open ``range``, or is a part of the innermost.
    """
    word, _, rest = inside.partition(" ")
    if word == "range":
        open_parts.append((read_path(rest.strip()), []))
    elif word == "end":
        path, parts = open_parts.pop()
        if path is None:
            raise TemplateError("{end} has no {range ...}")
        open_parts[-1][1].append(Repeat(path, tuple(parts)))
    elif inside[:1] == '"':
        try:
            open_parts[-1][1].append(str(json.loads(inside)))
        except ValueError:
            raise TemplateError(f"{{{inside}}}: the text is not quoted as in JSON") from None
    else:
        open_parts[-1][1].append(read_path(inside))


def read_path(text: str) -> Path:
    """Return the path in ``text``; raises ``TemplateError``."""
    plain = text.removeprefix("$").removeprefix("@")
    if plain and plain[0] not in ".[":
        plain = f".{plain}"
    steps: list[str | int] = []
    at = 0
    while at < len(plain):
        if plain[at:] == ".":
            break
        found = _STEP.match(plain, at)
        if found is None:
            raise TemplateError(f"{text!r}: cannot read {plain[at:]!r}; {_REMEDY}")
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(EVERY if found["every"] else found["field"] or found["key"])
        at = found.end()
    return Path(tuple(steps))


def fill_in(parts: Sequence[Part], tree: object) -> str:
    """Return the text of a template for ``tree``; values of one path are separated by spaces."""
    written: list[str] = []
    for part in parts:
        match part:
            case str():
                written.append(part)
            case Path():
                written.append(" ".join(map(_text, part.values(tree))))
            case Repeat():
                written += [fill_in(part.parts, value) for value in part.path.values(tree)]
    return "".join(written)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
