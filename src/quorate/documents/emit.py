"""Writes trees as JSON, or as YAML that means the same in YAML 1.1 and 1.2; decimals are exact."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

import msgspec

# A scalar needs no quotes if YAML 1.1 and YAML 1.2 read it as text. Such scalars are words, which
# may have a colon inside, and numbers with a unit.
_PLAIN: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9._/:-]*[A-Za-z0-9])?|[0-9]{1,15}(?:ms|[dhms])")
_MISREAD: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ESCAPED: Final = re.compile("[\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


def to_json(tree: object) -> str:
    """Return ``tree`` as indented JSON with exact decimals and a newline at the end."""
    return msgspec.json.format(_JSON.encode(tree), indent=2).decode() + "\n"


def to_yaml(*trees: object) -> str:
    """Return ``trees`` as YAML documents separated by ``---``, in block style."""
    return "---\n".join("".join(f"{line}\n" for line in _lines(tree)) for tree in trees)


def _lines(tree: object) -> Iterator[str]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _entry(f"{_scalar(str(key))}:", value)
    elif isinstance(tree, list | tuple) and tree:
        for value in tree:
            yield from _item(value)
    else:
        yield _scalar(tree)


def _entry(label: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield label
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{label} {_scalar(value)}"


def _item(value: object) -> Iterator[str]:
    for number, line in enumerate(_lines(value)):
        yield f"- {line}" if number == 0 else f"  {line}"


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    assert isinstance(value, list | tuple), value
    return "[]"


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _MISREAD:
        return value
    # YAML has the escapes of JSON, and also escapes characters that JSON leaves as they are.
    return _ESCAPED.sub(_escape, json.dumps(value, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
