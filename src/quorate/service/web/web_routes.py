"""The routes of the dashboard: its pages, its files, and the sign-in of a browser.

The addresses of pages answer a browser alone: any other client that asks for one gets, as for
every address without an operation, that nothing is there.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from quorate.operations.caller import Caller
from quorate.service.http.request_guard import heads_of
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
from quorate.service.web.built_files import MEDIA, Sent, built_files
from quorate.views.exits import CommandError
from quorate.views.statuses import FORBIDDEN, TOO_LARGE, UNAUTHENTICATED, USAGE

Answering = Callable[[Scope, Receive, Send], Awaitable[None]]
Admit = Callable[[Scope, Mapping[bytes, str]], Awaitable[Caller]]

PAGES: Final = (
    "/",
    "/queue",
    "/runs",
    "/runs/{name}",
    "/fleet",
    "/timeline",
    "/owners",
    "/owners/{name}",
    "/budgets",
    "/budgets/{name}",
    "/rounds",
    "/conflicts",
    "/conflicts/{name}",
    "/ledger",
)
"""The addresses of pages; the page itself finds out which one it is at."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: what this service sends, and nothing else."""
BODY_BYTES_MAX: Final = 16 * 1024
_GUARDED: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_HTML: Final = "text/html"
_KEPT: Final = "public, max-age=31536000, immutable"
"""How long a browser keeps a file: its address changes when it does."""
_ASKED_AGAIN: Final = "no-cache"
"""The page is asked for each time, and answered with 304 where it has not changed."""


def web_places(admit: Admit) -> dict[str, dict[str, Answering]]:
    """Return the routes by path and method; ``admit`` authenticates a caller, or raises."""
    session = _Session(admit)
    return {
        **{path: {"GET": _page} for path in PAGES},
        "/files/{version}/{name}": {"GET": _file},
        "/session": {
            "GET": session.look,
            "POST": session.sign_in,
            "DELETE": session.sign_out,
        },
    }


async def _page(scope: Scope, receive: Receive, send: Send) -> None:
    """Send the page to a browser; raises that nothing is there for any other client."""
    path = handled(scope).path
    handled(scope).operation = "page"
    headers = heads_of(scope)
    if _HTML not in headers.get(b"accept", ""):
        raise problem("not-found", f"there is nothing at {path} but a page; see /openapi.json")
    depth = len([part for part in path.split("/") if part])
    more = {"content-type": f"{_HTML}; charset=utf-8", "cache-control": _ASKED_AGAIN} | _GUARDED
    await _send(built_files().page(depth), more, headers)(scope, receive, send)


async def _file(scope: Scope, receive: Receive, send: Send) -> None:
    """Send a file of the page; raises where it is of another version."""
    handled(scope).operation = "page-file"
    built = built_files()
    name, version = scope["path_params"]["name"], scope["path_params"]["version"]
    found = built.files.get(name)
    if found is None or version != built.version:
        raise problem("not-found", f"there is nothing at {handled(scope).path}; load the page anew")
    more = {"content-type": MEDIA[name].decode(), "cache-control": _KEPT} | _GUARDED
    await _send(found, more, heads_of(scope))(scope, receive, send)


def _send(found: Sent, more: Mapping[str, str], headers: Mapping[bytes, str]) -> Response:
    """Return ``found`` as a response, compressed for those who take it so."""
    etag = f'"{found.etag}"'
    heads = {**more, "etag": etag, "vary": "accept, accept-encoding"}
    if etag in [each.strip() for each in headers.get(b"if-none-match", "").split(",")]:
        return Response(None, 304, heads)
    coded = [each.split(";")[0].strip() for each in headers.get(b"accept-encoding", "").split(",")]
    if "gzip" in coded:
        return Response(found.packed, headers=heads | {"content-encoding": "gzip"})
    return Response(found.plain, headers=heads)


class _Session:
    """Signs browsers in and out."""

    def __init__(self, admit: Admit) -> None:
        self._admit = admit

    async def look(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say whether the browser is signed in: no error, because a new visitor is none."""
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
        body = json.dumps({"signedIn": is_in})
        await Response(body, media_type="application/json")(scope, receive, send)

    async def sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keep the token of the body in a cookie; raises where it is not valid."""
        handled(scope).operation = "sign-in"
        headers = heads_of(scope)
        _check_from_page(headers)
        token = _token_of(await _body(receive))
        await self._admit(scope, {**headers, b"authorization": f"Bearer {token}"})
        await _done(session_cookie(token, headers))(scope, receive, send)

    async def sign_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forget the token of the browser."""
        handled(scope).operation = "sign-out"
        headers = heads_of(scope)
        _check_from_page(headers)
        await _done(ended_cookie(headers))(scope, receive, send)


def _check_from_page(headers: Mapping[bytes, str]) -> None:
    if not is_from_page(headers):
        name = HEADER.decode()
        raise problem(
            FORBIDDEN, f"{name}: is missing, or the request is of another site; sign in at /"
        )


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


def _token_of(body: bytes) -> str:
    """Return the token of a sign-in; raises ``CommandError`` where there is none."""
    try:
        tree = json.loads(body)
    except ValueError:
        tree = None
    token = tree.get("token") if isinstance(tree, dict) else None
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
    """Return whether ``token`` may stand in a header and in a cookie as it is."""
    return token.isascii() and all(each.isalnum() or each in "-_.~+/=" for each in token)
