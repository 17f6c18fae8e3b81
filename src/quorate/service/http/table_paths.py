"""The paths of operations; paths that differ only in the names of placeholders are one path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS

PREFIX: Final = "/api/v1"
_PART: Final = re.compile(r"\{(\w+)\}")


@cache
def names_of(path: str) -> tuple[str, ...]:
    """Return the placeholders of ``path``, in order."""
    return tuple(_PART.findall(path))


@cache
def places() -> Mapping[str, Mapping[str, Operation]]:
    """Return every path with its operations, by method.

    The placeholders of a path have the names that its first operation in the table gives them.
    """
    called: dict[str, str] = {}
    found: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS.values():
        path = called.setdefault(_PART.sub("{}", operation.path), operation.path)
        methods = found.setdefault(path, {})
        assert operation.method not in methods, f"{operation.name} shares its route"
        methods[operation.method] = operation
    return found


def renamed(path: str, operation: Operation, parts: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the placeholders of ``path``, by the names that ``operation`` uses.

    ``parts`` has the values by the names in ``path``.
    """
    ours = zip(names_of(path), names_of(operation.path), strict=True)
    return {name: parts[called] for called, name in ours}


def in_order(paths: Iterable[str]) -> list[str]:
    """Return ``paths`` ordered so that fixed segments are tried before placeholders."""
    return sorted(
        paths, key=lambda path: [(part.startswith("{"), part) for part in path.split("/")]
    )
