"""Compares an expected JSON value with an actual one, and lists the mismatches.

If the expected value is an object, only its fields are compared. A list is compared as a whole. The
expected value may be an operator: ``atLeast`` and ``atMost`` are limits of a number, ``oneOf``
lists permitted values, and ``absent: true`` says that a field must be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At

AT_LEAST: Final = "atLeast"
AT_MOST: Final = "atMost"
ONE_OF: Final = "oneOf"
ABSENT: Final = "absent"
OPERATORS: Final = frozenset({AT_LEAST, AT_MOST, ONE_OF, ABSENT})
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The expected and the actual value at ``path``; ``found`` is None if the field is missing."""

    path: str
    expected: object
    found: object


def read_expected(value: object, at: At) -> dict[str, object] | None:
    """Return the expected value; report a fault if it is no mapping, or has an invalid operator."""
    if not isinstance(value, dict):
        at.fault(f"must be a mapping, got {shown(value)}", "write the expected fields")
        return None
    _check(value, at)
    return value


def _check(value: object, at: At) -> None:
    if isinstance(value, dict):
        found = value.keys() & OPERATORS
        if found and value.keys() - OPERATORS:
            at.child(min(found)).fault(
                "is an operator, and cannot be combined with fields", f"keep only {min(found)}"
            )
        elif found:
            _check_operators(value, at)
            return
        for key, inner in value.items():
            _check(inner, at.child(key) if isinstance(key, str) else at)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _check(inner, at.child(number))


def _check_operators(value: dict[str, object], at: At) -> None:
    for name, inner in value.items():
        if name == ONE_OF:
            right = isinstance(inner, list) and bool(inner)
        else:
            right = type(inner) is (bool if name == ABSENT else int)
        if not right:
            what = {ONE_OF: "a list of values", ABSENT: "true or false"}.get(name, "a whole number")
            at.child(name).fault(f"must be {what}, got {shown(inner)}", "correct it")


def mismatches(expected: object, found: object, path: str) -> Iterator[Mismatch]:
    """Yield a mismatch for each place where ``found`` differs from ``expected``."""
    if isinstance(expected, dict) and expected and expected.keys() <= OPERATORS:
        if not _holds(expected, found):
            yield Mismatch(path, expected, None if found is _NOTHING else found)
    elif isinstance(expected, dict) and isinstance(found, dict):
        for key, inner in expected.items():
            yield from mismatches(inner, found.get(key, _NOTHING), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield Mismatch(path, expected, found)
            return
        for number, (inner, there) in enumerate(zip(expected, found, strict=True)):
            yield from mismatches(inner, there, f"{path}[{number}]")
    elif type(expected) is not type(found) or expected != found:
        yield Mismatch(path, expected, None if found is _NOTHING else found)


def _holds(expected: dict[str, object], found: object) -> bool:
    """Return whether ``found`` satisfies every operator in ``expected``.

    ``read_expected`` has checked the operators.
    """
    if ABSENT in expected and (found is _NOTHING) is not expected[ABSENT]:
        return False
    if found is _NOTHING:
        return expected.keys() == {ABSENT}
    choices = expected.get(ONE_OF)
    if isinstance(choices, list) and all(any(mismatches(c, found, "")) for c in choices):
        return False
    for bound, sign in ((AT_LEAST, 1), (AT_MOST, -1)):
        limit = expected.get(bound)
        if isinstance(limit, int) and (not isinstance(found, int) or sign * (found - limit) < 0):
            return False
    return True
