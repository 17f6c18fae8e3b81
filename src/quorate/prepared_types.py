"""Types that several threads may read at once.

msgspec gathers the fields of a struct when the struct is first read. If two threads first read a
struct at the same time, the process crashes (seen with msgspec 0.22). So a type that several
threads read needs one of two things: a ``Decoder`` that is made while the type's module is
imported, or a call of ``prepared``.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_LOCK: Final = threading.Lock()
_PREPARED: Final[set[Any]] = set()


def prepared(shape: type[T]) -> type[T]:
    """Have msgspec gather the fields of ``shape`` now, and return ``shape``."""
    if shape not in _PREPARED:
        with _LOCK:
            msgspec.json.Decoder(shape)
            _PREPARED.add(shape)
    return shape
