"""Base types of requests. In JSON, the names of their fields are in camel case."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET, Meta, Struct
from msgspec.structs import replace

PAGE_MAX: Final = 1_000
"""The most resources that one answer of a service lists."""
MORE: Final = f"note: there are more than these {PAGE_MAX}; narrow the request, or get all: -o json"
"""The note on an answer that a service cuts off after ``PAGE_MAX`` resources."""
DOCUMENTS_MAX: Final = 10_000
"""The most documents in one request."""
NOTE_CHARS_MAX: Final = 1_000

_LIMIT: Final = "limit"
Asked_ = TypeVar("Asked_", bound=Struct)
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Note = Annotated[str, Meta(max_length=NOTE_CHARS_MAX)]
Tree = dict[str, Any]


class Asked(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Any request. Unknown fields are refused, so that no field is silently ignored."""


def within_a_page(asked: Asked_) -> Asked_:
    """Return ``asked``; if it has no limit, or a limit of null, set its limit to ``PAGE_MAX``."""
    if getattr(asked, _LIMIT, UNSET) is None:
        return replace(asked, **{_LIMIT: PAGE_MAX})
    return asked


class Nothing(Asked, kw_only=True, frozen=True):
    """A request without parameters."""


class Write(Asked, kw_only=True, frozen=True):
    """Any request that changes something. A ``dry_run`` shows the changes and records nothing."""

    dry_run: bool = False


class KeyedWrite(Write, kw_only=True, frozen=True):
    """A write that may have a key. A repetition within a day then gets the first answer again."""

    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
