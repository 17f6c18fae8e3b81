"""Faults in files of rates, jobs or shares: the place, the fault, and the remedy.

A reader continues after a fault, so that it can report all faults of a file at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from typing import Any, Final

import numpy as np

SHOWN_CHARS_MAX: Final = 60
"""The most characters of a file's text that a fault repeats."""
NAMES_SHOWN_MAX: Final = 8
"""The most known names that a fault lists."""
NUMBER_MIN: Final = 1e-12
NUMBER_MAX: Final = 1e15
"""The smallest and the largest accepted number. They are chosen so that the quotient of two
accepted numbers is finite."""

UNREADABLE: Final = object()
"""The result of reading a text that is not JSON; the fault was recorded already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: ``place`` is the path to the value, empty for the whole text."""

    place: str
    message: str
    remedy: str

    def text(self) -> str:
        """Return the fault on one line."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.message}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulty:
    """All faults of a text that cannot be read."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class At:
    """A place in a file, and the list of faults that all places of the file share."""

    place: str = ""
    faults: list[Fault] = field(default_factory=list)

    def below(self, key: str | int) -> At:
        """Return the place of the value at ``key``."""
        if isinstance(key, int):
            return At(f"{self.place}[{key}]", self.faults)
        shown = key if key.isidentifier() else f'"{cut(key)}"'
        return At(f"{self.place}.{shown}" if self.place else shown, self.faults)

    def fault(self, message: str, remedy: str) -> None:
        """Add a fault of this place."""
        self.faults.append(Fault(place=self.place, message=message, remedy=remedy))


def cut(text: str) -> str:
    """Return ``text`` on one line, cut to the length that a fault may repeat."""
    line = text if text.isprintable() else ascii(text)[1:-1]
    return line if len(line) <= SHOWN_CHARS_MAX else f"{line[:SHOWN_CHARS_MAX]}..."


def shown(value: object) -> str:
    """Return ``value`` as text for a fault, cut to the permitted length."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return cut(json.dumps(value, ensure_ascii=False))


def entries_of(value: object, at: At) -> dict[str, Any] | None:
    """Return ``value`` if it is an object; else None, with a fault."""
    if isinstance(value, dict):
        return value
    if value is not UNREADABLE:
        at.fault(f"must be an object, got {shown(value)}", "write {...}")
    return None


def items_of(value: object, at: At) -> list[Any] | None:
    """Return ``value`` if it is a list; else None, with a fault."""
    if isinstance(value, list):
        return value
    if value is not UNREADABLE:
        at.fault(f"must be a list, got {shown(value)}", "write [...]")
    return None


def known_fields(fields: Mapping[str, Any], known: frozenset[str], at: At) -> None:
    """Add a fault for each of ``fields`` that is not in ``known``."""
    for name in fields:
        if name not in known:
            near = get_close_matches(name, sorted(known), n=1)
            remedy = f"did you mean {near[0]}?" if near else f"remove it; known: {_few(known)}"
            at.below(name).fault("is not a known field", remedy)


def _few(names: frozenset[str]) -> str:
    listed = sorted(names)
    more = ", ..." if len(listed) > NAMES_SHOWN_MAX else ""
    return ", ".join(listed[:NAMES_SHOWN_MAX]) + more


def text_of(value: object, at: At) -> str | None:
    """Return ``value`` if it is a text that is not empty; else None, with a fault."""
    if isinstance(value, str) and value:
        return value
    at.fault(f"must be a text, got {shown(value)}", 'write it in quotes, such as "a100"')
    return None


def number_of(value: object, at: At, *, least: float = 0.0) -> float | None:
    """Return ``value`` if it is finite and at least ``least``; else None, with a fault."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        at.fault(f"must be a number, got {shown(value)}", "write a number without quotes")
        return None
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        at.fault(f"must be a finite number, got {shown(value)}", "write a finite number")
        return None
    if abs(found) > NUMBER_MAX:
        at.fault(f"is too large: {shown(value)}", f"write at most {NUMBER_MAX:g}")
        return None
    if found < least:
        at.fault(f"must not be below {least:g}, got {shown(value)}", "correct the number")
        return None
    return found


def quantity_of(value: object, at: At) -> float:
    """Return ``value`` if it is 0, or large enough to divide by; else 0, with a fault."""
    found = number_of(value, at) or 0.0
    if 0 < found < NUMBER_MIN:
        at.fault(f"is too small: {shown(value)}", f"write 0, or at least {NUMBER_MIN:g}")
        return 0.0
    return found


def above_0(value: object, at: At) -> float:
    """Return ``value`` if it is above 0 and large enough to divide by; else 1, with a fault."""
    faults = len(at.faults)
    found = quantity_of(value, at)
    if found == 0 and len(at.faults) == faults:
        at.fault("must be above 0, got 0", "correct the number, or leave the field out")
    return found or 1.0


def whole_of(value: object, at: At, *, least: int = 0, most: int) -> int | None:
    """Return ``value`` if it is a whole number in these limits; else None, with a fault."""
    if isinstance(value, bool) or not isinstance(value, int):
        at.fault(f"must be a whole number, got {shown(value)}", "write digits only")
    elif not least <= value <= most:
        at.fault(f"must be from {least} to {most}, got {shown(value)}", "correct the number")
    else:
        return value
    return None


def are_two_rates(value: Any) -> bool:
    """Return whether ``value`` is two floats of at least 0: a fast check that most pairs pass.

    A value that does not pass may still be valid, and needs a full check.
    """
    return (
        value.__class__ is list
        and len(value) == 2  # noqa: PLR2004 - the two of a pair
        and value[0].__class__ is value[1].__class__ is float
        and (value[0] == 0 or NUMBER_MIN <= value[0] <= NUMBER_MAX)
        and (value[1] == 0 or NUMBER_MIN <= value[1] <= NUMBER_MAX)
    )


def are_all_two_rates(values: Sequence[Any]) -> bool:
    """Return whether ``are_two_rates`` is true for all ``values``; fast for many values."""
    if {*map(type, values)} - {list} or {*map(len, values)} - {2}:
        return False
    numbers = list(chain.from_iterable(values))
    if {*map(type, numbers)} - {float}:
        return False
    rates = np.array(numbers)
    is_rate = (rates == 0) | ((rates >= NUMBER_MIN) & (rates <= NUMBER_MAX))
    return bool(is_rate.all())
