"""One request in the log: the caller, the operation, and the result. Never a secret."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

KEY: Final = "quorate.handled"
"""The key under which the ASGI scope of a request has its ``Handled`` record."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ID_BYTES: Final = 8
_IDS_AT_ONCE: Final = 256


@dataclass(slots=True, kw_only=True)
class Handled:
    """The data about a request so far.

    ``said`` has the headers about the age of the state that was used. These headers are set only
    for a refused request.
    """

    request_id: str
    method: str
    path: str
    caller: str = ""
    operation: str = ""
    status: int = 0
    began_s: float = 0.0
    took_s: float = 0.0
    said: Sequence[tuple[str, str]] = ()


def request_id_of(sent: str) -> str:
    """Return the id that the client sent if the id is valid, else a new id."""
    return sent if _ID.fullmatch(sent) else _new_id()


def _new_id() -> str:
    """Return a random id. Ids are made in batches: each read of random bytes is a system call."""
    try:
        return _DRAWN.pop()
    except IndexError:
        digits, drawn = 2 * _ID_BYTES, token_hex(_ID_BYTES * _IDS_AT_ONCE)
        _DRAWN.extend(drawn[at : at + digits] for at in range(0, len(drawn), digits))
        return token_hex(_ID_BYTES)


_DRAWN: Final = deque[str]()
"""Random request ids that are not used yet; every thread takes its ids from here."""


def handled(scope: Any) -> Handled:
    """Return the data about the request of ``scope``."""
    found = scope[KEY]
    assert isinstance(found, Handled), found
    return found
