"""The routes of the dashboard: its pages and its files; for signing in see ``session_routes``.

Only a browser gets pages: any other client gets 404 for these addresses, as for every address
without an operation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from quorate.service.auth.code_sign_in import CodeSignIn
from quorate.service.http.request_guard import heads_of
from quorate.service.problem_json import problem
from quorate.service.request_log import handled
from quorate.service.web.built_files import MEDIA, Sent, built_files
from quorate.service.web.session_routes import Admit, session_places

Answering = Callable[[Scope, Receive, Send], Awaitable[None]]

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
    "/reports",
    "/reports/{name}",
    "/signed-in",
)
"""The addresses of pages; the script in the page chooses what to show by the page's address."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the page, which lets the page load only files of this service."""
_GUARDED: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_HTML: Final = "text/html"
_KEPT: Final = "public, max-age=31536000, immutable"
"""Browsers cache a file for ever, because its address changes when its content changes."""
_ASKED_AGAIN: Final = "no-cache"
"""Browsers request the page each time, and get 304 if the page has not changed."""


def web_places(admit: Admit, code_sign_in: CodeSignIn | None) -> dict[str, dict[str, Answering]]:
    """Return the routes by path and method; ``admit`` authenticates a caller, or raises."""
    return {
        **{path: {"GET": _page} for path in PAGES},
        "/files/{version}/{name}": {"GET": _file},
        **session_places(admit, code_sign_in),
    }


async def _page(scope: Scope, receive: Receive, send: Send) -> None:
    """Send the page to a browser; raises 404 for any other client."""
    path = handled(scope).path
    handled(scope).operation = "page"
    headers = heads_of(scope)
    if _HTML not in headers.get(b"accept", ""):
        raise problem("not-found", f"{path} serves only a page; see /openapi.json")
    depth = len([part for part in path.split("/") if part])
    more = {"content-type": f"{_HTML}; charset=utf-8", "cache-control": _ASKED_AGAIN} | _GUARDED
    await _send(built_files().page(depth), more, headers)(scope, receive, send)


async def _file(scope: Scope, receive: Receive, send: Send) -> None:
    """Send a file of the page; raises if it belongs to another version."""
    handled(scope).operation = "page-file"
    built = built_files()
    name, version = scope["path_params"]["name"], scope["path_params"]["version"]
    found = built.files.get(name)
    if found is None or version != built.version:
        raise problem(
            "not-found", f"there is nothing at {handled(scope).path}; load the page again"
        )
    more = {"content-type": MEDIA[name].decode(), "cache-control": _KEPT} | _GUARDED
    await _send(found, more, heads_of(scope))(scope, receive, send)


def _send(found: Sent, more: Mapping[str, str], headers: Mapping[bytes, str]) -> Response:
    """Return ``found`` as a response, compressed if the client accepts that."""
    etag = f'"{found.etag}"'
    heads = {**more, "etag": etag, "vary": "accept, accept-encoding"}
    if etag in [each.strip() for each in headers.get(b"if-none-match", "").split(",")]:
        return Response(None, 304, heads)
    coded = [each.split(";")[0].strip() for each in headers.get(b"accept-encoding", "").split(",")]
    if "gzip" in coded:
        return Response(found.packed, headers=heads | {"content-encoding": "gzip"})
    return Response(found.plain, headers=heads)
