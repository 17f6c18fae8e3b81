"""The requests of operations. On the wire their names are in camel case."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET, Meta, Struct
from msgspec.structs import replace

PAGE_MAX: Final = 1_000
"""How many things one answer lists at most, where a service is asked."""
MORE: Final = (
    f"note: there are more than these {PAGE_MAX}; narrow the question, or have all: -o json"
)
"""What is said where an answer is cut at the most that a service lists."""
DOCUMENTS_MAX: Final = 10_000
"""How many documents one request may carry."""
NOTE_CHARS_MAX: Final = 1_000

_LIMIT: Final = "limit"
Asked_ = TypeVar("Asked_", bound=Struct)
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Note = Annotated[str, Meta(max_length=NOTE_CHARS_MAX)]
Tree = dict[str, Any]


class Asked(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Any request. Unknown fields are refused, so that none is silently ignored."""


def within_a_page(asked: Asked_) -> Asked_:
    """Return ``asked`` with the limit of a page where it has none; a service lists no more at once.

    However it was left out: not sent, or sent as null.
    """
    if getattr(asked, _LIMIT, UNSET) is None:
        return replace(asked, **{_LIMIT: PAGE_MAX})
    return asked


class Nothing(Asked, kw_only=True, frozen=True):
    """A question without parameters."""


class Write(Asked, kw_only=True, frozen=True):
    """Any request that changes something; a ``dry_run`` shows what it would do."""

    dry_run: bool = False


class KeyedWrite(Write, kw_only=True, frozen=True):
    """Repeating it with the same key returns the first answer, for a day."""

    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
