"""The session of a browser: its access token in a cookie that no script can read.

The cookie counts only on a request that also has the header ``X-Quorate-Session``. A page of
another site can make a browser send the cookie, but not this header, for which the page would need
a CORS permission. The service gives no such permission. The service stores nothing, so a session
has the permissions of its token, and ends when the token is revoked (docs/adr/0048).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

COOKIE: Final = "quorate_session"
HEADER: Final = b"x-quorate-session"
TOKEN_CHARS_MAX: Final = 3_500
"""The longest token that fits into a cookie; browsers store 4 kB with its attributes."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
_FETCH_SITE: Final = b"sec-fetch-site"
_OWN_SITE: Final = ("", "same-origin")


def is_from_page(headers: Mapping[bytes, str]) -> bool:
    """Return whether the dashboard itself made a request."""
    return HEADER in headers and headers.get(_FETCH_SITE, "") in _OWN_SITE


def authorization_of(headers: Mapping[bytes, str]) -> str | None:
    """Return the request's ``Authorization`` header, or one made from its session; else None."""
    sent = headers.get(b"authorization")
    if sent is not None or not is_from_page(headers):
        return sent
    token = _token_in(headers.get(b"cookie", ""))
    return f"Bearer {token}" if token else None


def _token_in(cookies: str) -> str:
    """Return the token of the session; empty if there is no token, or more than one.

    A page of another address of this host can add a second cookie of the same name, and the browser
    decides which of the two cookies is sent first. The library's parser is not used, because its
    time for a quoted value grows with the square of the length.
    """
    pairs = (each.strip().partition("=") for each in cookies.split(";"))
    found = [value for name, _, value in pairs if name == COOKIE]
    return found[0] if len(found) == 1 and _TOKEN.fullmatch(found[0]) else ""


def session_cookie(token: str, headers: Mapping[bytes, str]) -> bytes:
    """Return the cookie that begins a session.

    The cookie has no ``Path``, so a browser sends it only to addresses in the folder of the address
    that set it. Behind a proxy with a prefix, only addresses with this prefix get the cookie. The
    cookie has no ``Max-Age``, so it ends with the browser.
    """
    return f"{COOKIE}={token}{_attributes(headers)}".encode()


def ended_cookie(headers: Mapping[bytes, str]) -> bytes:
    """Return the cookie that ends a session."""
    return f"{COOKIE}=; Max-Age=0{_attributes(headers)}".encode()


def _attributes(headers: Mapping[bytes, str]) -> str:
    # The browser states the origin of its page. So TLS is known even if a proxy ends it before this
    # service.
    is_secure = headers.get(b"origin", "").startswith("https://")
    return "; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
