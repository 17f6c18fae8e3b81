"""Reads worlds: JSON values that are checked field by field. Each error has the field's path.

The readers of ``documents`` check the fields, with two differences: a field that is null counts as
missing, and the first fault is raised as ``CalcInputError``.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from quorate.core.preemption.lottery import link_of
from quorate.documents.document_problem import CalcInputError, path_text
from quorate.documents.field_reader import At, Fields, fields_of
from quorate.documents.located_tree import DEPTH_MAX, TOO_DEEP
from quorate.documents.values import line, whole
from quorate.model.amounts import GPUS_MAX

WORLD: Final = "world"
"""The path of a fault that concerns the world as a whole."""

any_whole = whole(low=-GPUS_MAX, high=GPUS_MAX)
"""Reads a whole number, even below 0; the calculation itself reports numbers that are too small."""

_TOP: Final = frozenset(
    {
        "bind",
        "budgets",
        "cover",
        "documents",
        "executor",
        "flavor",
        "forecast",
        "leases",
        "nodes",
        "now",
        "owners",
        "pack",
        "placement",
        "pool",
        "quiet",
        "resolve",
        "runs",
        "secret",
        "steps",
        "usage",
    }
)


def open_world(world: object, required: Iterable[str]) -> tuple[Fields, At]:
    """Return the fields and the place of ``world``; raise if a ``required`` field is missing."""
    at = At((), [])
    fields = fields_of(without_nulls(world), at, _TOP)
    settle(at)
    assert fields is not None, world
    for name in required:
        if name not in fields:
            at.child(name).fault("is required", f"add {name} to the world")
    settle(at)
    return fields, at


def settle(at: At) -> None:
    """Raise the first fault reported at ``at``, if any."""
    if at.faults:
        fault = at.faults[0]
        raise CalcInputError(path_text(fault.path) or WORLD, f"{fault.message}; {fault.remedy}")


def without_nulls(tree: object, depth: int = 0) -> object:
    """Return ``tree`` without the fields that are null."""
    if depth > DEPTH_MAX:
        raise CalcInputError(WORLD, TOO_DEEP)
    if isinstance(tree, dict):
        return {
            key: without_nulls(value, depth + 1) for key, value in tree.items() if value is not None
        }
    if isinstance(tree, list):
        return [without_nulls(value, depth + 1) for value in tree]
    return tree


def link_or_hash(value: object, at: At) -> bytes | None:
    """Return the bytes of 64 hex digits; for any other text, return its SHA-256 hash."""
    text = line(value, at)
    if text is None:
        return None
    return link_of(text) or sha256(text.encode()).digest()
