"""The routes by which a browser signs in and out: with a token, or at the OIDC issuer.

In both cases the browser gets a token in the cookie of ``browser_session``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from quorate.operations.caller import Caller
from quorate.service.auth.code_sign_in import CodeSignIn
from quorate.service.http.request_guard import heads_of
from quorate.service.limits.rate_limit import Rate
from quorate.service.problem_json import problem
from quorate.service.request_log import handled
from quorate.service.web.browser_session import (
    HEADER,
    TOKEN_CHARS_MAX,
    authorization_of,
    ended_cookie,
    is_from_page,
    session_cookie,
)
from quorate.views.exits import CommandError
from quorate.views.statuses import FORBIDDEN, TOO_LARGE, UNAUTHENTICATED, USAGE

Admit = Callable[[Scope, Mapping[bytes, str]], Awaitable[Caller]]
Answering = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_BYTES_MAX: Final = 16 * 1024
EXCHANGES_PER_S_MAX: Final = 10
"""How many codes per second one address may exchange; each exchange asks the issuer."""
RETURN_PAGE: Final = "/signed-in"
"""The end of the address to which the issuer sends users back."""
_CODE_CHARS_MAX: Final = 4_096
_ADDRESS_CHARS_MAX: Final = 2_048
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def session_places(
    admit: Admit, code_sign_in: CodeSignIn | None
) -> dict[str, dict[str, Answering]]:
    """Return the routes by path and method; ``code_sign_in`` is None if there is no issuer.

    Sessions begin at one address only, because a cookie without ``Path`` is valid in the folder of
    the address that set it.
    """
    session = _Session(admit, code_sign_in)
    found: dict[str, dict[str, Answering]] = {
        "/session": {"GET": session.look, "POST": session.sign_in, "DELETE": session.sign_out}
    }
    if code_sign_in is None:
        return found
    return found | {"/issuer": {"GET": _Issuer(code_sign_in).look}}


class _Session:
    """Signs browsers in and out."""

    def __init__(self, admit: Admit, code_sign_in: CodeSignIn | None) -> None:
        self._admit = admit
        self._code_sign_in = code_sign_in
        self._rate = Rate(EXCHANGES_PER_S_MAX, monotonic)

    async def look(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whether the browser is signed in, and at which issuer it could sign in.

        A browser that is not signed in gets no error, because this is normal for a new visitor.
        """
        handled(scope).operation = "session"
        headers = heads_of(scope)
        _check_from_page(headers)
        is_in = authorization_of(headers) is not None
        if is_in:
            try:
                await self._admit(scope, headers)
            except CommandError as error:
                if error.fault != UNAUTHENTICATED:
                    raise
                is_in = False
        issuer = None if self._code_sign_in is None else self._code_sign_in.issuer
        await _told({"signedIn": is_in, "issuer": issuer})(scope, receive, send)

    async def sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Store a token in a cookie; the body has the token, or a code that the issuer exchanges.

        Raises ``CommandError`` if the token or the code is not valid.
        """
        handled(scope).operation = "sign-in"
        headers = heads_of(scope)
        _check_from_page(headers)
        tree = _tree(await _body(receive))
        if "code" in tree and self._code_sign_in is not None:
            token = await self._exchanged(scope, tree, self._code_sign_in)
        else:
            token = _token_of(tree)
        await self._admit(scope, {**headers, b"authorization": f"Bearer {token}"})
        await _done(session_cookie(token, headers))(scope, receive, send)

    async def _exchanged(
        self, scope: Scope, tree: Mapping[str, Any], code_sign_in: CodeSignIn
    ) -> str:
        """Return the issuer's token for the code of a sign-in; raises ``CommandError``."""
        # The rate is limited by address, because the caller is not known yet, and each exchange
        # causes a request to the issuer.
        self._rate.take((scope.get("client") or ("",))[0])
        token = await code_sign_in.token_for(_code_of(tree), _verifier_of(tree), _address_of(tree))
        if len(token) > TOKEN_CHARS_MAX or not _is_plain(token):
            raise problem(
                UNAUTHENTICATED,
                f"{code_sign_in.issuer}: its token has {len(token)} characters, but a browser "
                f"stores at most {TOKEN_CHARS_MAX} letters, digits, and - _ . ~ + / =; have the "
                f"issuer leave out claims that are not needed here",
            )
        return token

    async def sign_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Remove the token from the browser."""
        handled(scope).operation = "sign-out"
        headers = heads_of(scope)
        _check_from_page(headers)
        await _done(ended_cookie(headers))(scope, receive, send)


class _Issuer:
    """Answers where users sign in."""

    def __init__(self, code_sign_in: CodeSignIn) -> None:
        self._code_sign_in = code_sign_in

    async def look(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer where users sign in, and as which client; raises if the issuer does not answer."""
        handled(scope).operation = "issuer"
        _check_from_page(heads_of(scope))
        endpoints = await self._code_sign_in.endpoints()
        client = self._code_sign_in.client
        told = {
            "authorizationEndpoint": endpoints.authorization,
            "clientId": client.client_id,
            "scopes": client.scopes,
        }
        await _told(told)(scope, receive, send)


def _check_from_page(headers: Mapping[bytes, str]) -> None:
    if not is_from_page(headers):
        name = HEADER.decode()
        raise problem(
            FORBIDDEN, f"{name}: is missing, or the request is from another site; sign in at /"
        )


def _told(tree: Mapping[str, Any]) -> Response:
    return Response(json.dumps(tree), media_type="application/json")


def _done(cookie: bytes) -> Response:
    response = Response(None, 204)
    response.raw_headers.append((b"set-cookie", cookie))
    return response


async def _body(receive: Receive) -> bytes:
    gathered = bytearray()
    while True:
        message = await receive()
        gathered += message.get("body", b"")
        if len(gathered) > BODY_BYTES_MAX:
            raise problem(TOO_LARGE, f"body: is larger than {BODY_BYTES_MAX} bytes; send the token")
        if not message.get("more_body", False):
            return bytes(gathered)


def _tree(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a body; an empty object for any other body."""
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _token_of(tree: Mapping[str, Any]) -> str:
    """Return the token of a sign-in; raises ``CommandError`` if there is no token."""
    token = tree.get("token")
    if not isinstance(token, str) or not token:
        raise problem(USAGE, 'body: must be {"token": TOKEN}; send an access token')
    if len(token) > TOKEN_CHARS_MAX or not _is_plain(token):
        raise problem(
            USAGE,
            f"token: must be at most {TOKEN_CHARS_MAX} letters, digits, and - _ . ~ + / =; "
            "copy it whole, and nothing else",
        )
    return token


def _is_plain(token: str) -> bool:
    """Return whether ``token`` can be sent unchanged in a header and in a cookie."""
    return token.isascii() and all(each.isalnum() or each in "-_.~+/=" for each in token)


def _code_of(tree: Mapping[str, Any]) -> str:
    code = tree.get("code")
    if isinstance(code, str) and code and len(code) <= _CODE_CHARS_MAX and code.isprintable():
        return code
    raise problem(USAGE, f"code: must have 1 to {_CODE_CHARS_MAX} characters; sign in again")


def _verifier_of(tree: Mapping[str, Any]) -> str:
    verifier = tree.get("verifier")
    if isinstance(verifier, str) and _VERIFIER.fullmatch(verifier):
        return verifier
    raise problem(
        USAGE, "verifier: must have 43 to 128 letters, digits, and - . _ ~; sign in again"
    )


def _address_of(tree: Mapping[str, Any]) -> str:
    """Return the address of the page, to which the issuer sent the browser back."""
    address = tree.get("redirectUri")
    if isinstance(address, str) and len(address) <= _ADDRESS_CHARS_MAX:
        try:
            parts = urlsplit(address)
        except ValueError:
            parts = urlsplit("")
        is_page = parts.path.endswith(RETURN_PAGE) and not parts.query and not parts.fragment
        if parts.scheme in ("http", "https") and parts.hostname and is_page:
            return address
    raise problem(
        USAGE, f"redirectUri: must be an address that ends in {RETURN_PAGE}; sign in again"
    )
