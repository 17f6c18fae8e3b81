"""The session of a browser: its access token in a cookie that no script can read.

The cookie counts only on a request that also has the header ``X-Quorate-Session``. A page of
another site can have a browser send the cookie, but not this header: that takes a permission which
the service never gives. The service keeps nothing, so a session is worth what its token is worth,
and ends when the token is revoked (docs/adr/0048).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

COOKIE: Final = "quorate_session"
HEADER: Final = b"x-quorate-session"
TOKEN_CHARS_MAX: Final = 3_500
"""How long a token may be that is kept in a cookie; browsers keep 4 kB with its attributes."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
_FETCH_SITE: Final = b"sec-fetch-site"
_OWN_SITE: Final = ("", "same-origin")


def is_from_page(headers: Mapping[bytes, str]) -> bool:
    """Return whether a request was made by the dashboard itself."""
    return HEADER in headers and headers.get(_FETCH_SITE, "") in _OWN_SITE


def authorization_of(headers: Mapping[bytes, str]) -> str | None:
    """Return who asks, as an ``Authorization`` header: the one that was sent, else the session."""
    sent = headers.get(b"authorization")
    if sent is not None or not is_from_page(headers):
        return sent
    token = _token_in(headers.get(b"cookie", ""))
    return f"Bearer {token}" if token else None


def _token_in(cookies: str) -> str:
    """Return the token of the session; empty where there is none, or more than one.

    A page of another address of this host can add a second cookie of the same name, and which of
    them is sent first is the browser's affair. The library's parser is not used: what it takes for
    a quoted value grows with the square of its length.
    """
    pairs = (each.strip().partition("=") for each in cookies.split(";"))
    found = [value for name, _, value in pairs if name == COOKIE]
    return found[0] if len(found) == 1 and _TOKEN.fullmatch(found[0]) else ""


def session_cookie(token: str, headers: Mapping[bytes, str]) -> bytes:
    """Return the cookie that begins a session.

    Without ``Path`` a browser sends it to the folder of the address that set it: under a prefix,
    to that prefix alone. Without ``Max-Age`` it ends with the browser.
    """
    return f"{COOKIE}={token}{_attributes(headers)}".encode()


def ended_cookie(headers: Mapping[bytes, str]) -> bytes:
    """Return the cookie that ends a session."""
    return f"{COOKIE}=; Max-Age=0{_attributes(headers)}".encode()


def _attributes(headers: Mapping[bytes, str]) -> str:
    # A browser says where its page is from: also behind a proxy that ends TLS.
    is_secure = headers.get(b"origin", "").startswith("https://")
    return "; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
