"""Readable texts of commands and specs: fields that have their defaults are left out."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass

import msgspec


def brief(value: object) -> str:
    """Return ``value`` as a text like its ``repr``, without fields that have their defaults."""
    if isinstance(value, msgspec.Struct):
        named = [
            (each.name, getattr(value, each.name), each.default)
            for each in msgspec.structs.fields(value)
        ]
        return _text(type(value).__name__, named)
    if is_dataclass(value) and not isinstance(value, type):
        return _text(
            type(value).__name__,
            [(each.name, getattr(value, each.name), each.default) for each in fields(value)],
        )
    if isinstance(value, tuple):
        return f"({', '.join(map(brief, value))}{',' if len(value) == 1 else ''})"
    return str(value) if isinstance(value, str) and type(value) is not str else repr(value)


def _text(name: str, named: list[tuple[str, object, object]]) -> str:
    told = [
        f"{field}={brief(value)}"
        for field, value, default in named
        if default in (msgspec.NODEFAULT, MISSING) or value != default
    ]
    return f"{name}({', '.join(told)})"
