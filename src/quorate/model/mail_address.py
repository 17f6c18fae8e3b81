"""Mail addresses: the form that documents and settings accept.

An address is plain and in ASCII, as ``ada@lab.example``: without a display name, quotes, comment or
space. So an address can be put into a header and into an SMTP command unchanged.
"""

from __future__ import annotations

import re
from typing import Final

ADDRESS_CHARS_MAX: Final = 254
_LOCAL_CHARS_MAX: Final = 64
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
DOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
ADDRESS: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{DOMAIN.pattern}")


def is_address(text: str) -> bool:
    """Return whether ``text`` is a plain mail address."""
    local = text.partition("@")[0]
    is_short = len(text) <= ADDRESS_CHARS_MAX and len(local) <= _LOCAL_CHARS_MAX
    return is_short and ADDRESS.fullmatch(text) is not None


def domain_of(address: str) -> str:
    """Return the domain of an address in lower case, because case does not matter in domains."""
    return address.rpartition("@")[2].lower()
