"""Explains why a request does not fit its operation, for REST and gRPC."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_TOO_MANY: Final = re.compile(r"Expected `array` of length <= (\d+)")


def misfit(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the faulty field and the reason; no field means that the request itself is faulty."""
    what, _, place = str(error).partition(" - at `")
    field = place.removesuffix("`").removeprefix("$").removeprefix(".")
    many = _TOO_MANY.match(what)
    if many is not None:
        return field, f"has more than {many[1]} entries; send the others in a further request"
    return field, what
