"""One request in the log: the caller, the operation, and how it ended. Never a secret."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

KEY: Final = "quorate.handled"
"""Where in the scope of a request it is kept."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ID_BYTES: Final = 8


@dataclass(slots=True, kw_only=True)
class Handled:
    """What is known of a request so far; ``said`` is what a refusal says of its age."""

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
    """Return the id that the client gave its request where it is one, else a new one."""
    return sent if _ID.fullmatch(sent) else token_hex(_ID_BYTES)


def handled(scope: Any) -> Handled:
    """Return what is known of the request of ``scope``."""
    found = scope[KEY]
    assert isinstance(found, Handled), found
    return found
