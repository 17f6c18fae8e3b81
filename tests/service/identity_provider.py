"""An identity provider on loopback: discovery, a page to sign in, and codes with PKCE.

It checks what a real provider checks: the client and its secret, the redirect address, the S256
challenge and its verifier, and that a code is used once.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from tests.service.test_auth import Issuer

CLIENT: Final = "quorate-dashboard"
_FORM: Final = "application/x-www-form-urlencoded"


@dataclass
class IdentityProvider:
    """The settings of the provider; tests change them. ``returns`` are the registered addresses."""

    url: str
    issuer: Issuer = field(default_factory=Issuer)
    returns: set[str] = field(default_factory=set)
    secret: str = ""
    methods: tuple[str, ...] = ("client_secret_basic", "client_secret_post")
    description: dict[str, Any] = field(default_factory=dict)
    """Further or changed fields of its discovery document."""
    claims: dict[str, Any] = field(default_factory=dict)
    granted: dict[str, dict[str, str]] = field(default_factory=dict)
    """The request behind each code that was not used yet."""
    asked: list[str] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        """Return its discovery document."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": list(self.methods),
        } | self.description

    def grant(self, asked: dict[str, str], user: str) -> str:
        """Return the redirect address for a user who signed in, or did not."""
        assert asked["client_id"] == CLIENT
        assert asked["response_type"] == "code"
        assert "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256"
        assert asked["redirect_uri"] in self.returns, asked["redirect_uri"]
        if not user:
            told = {"error": "access_denied", "error_description": "the person said no"}
        else:
            told = {"code": f"code-{len(self.asked)}-{user}"}
            self.granted[told["code"]] = asked | {"user": user}
        return f"{asked['redirect_uri']}?{urlencode(told | {'state': asked['state']})}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return the answer to a client that sends a code."""
        if not self._is_client(form, authorization):
            return 401, {"error": "invalid_client"}
        asked = self.granted.pop(form.get("code", ""), None)
        digest = sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form.get("redirect_uri")
        ):
            return 400, {"error": "invalid_grant", "error_description": "the code is not valid"}
        claims = {"iss": self.url, "sub": asked["user"]} | self.claims
        return 200, {
            "token_type": "Bearer",
            "id_token": self.issuer.token("ec", **({"aud": CLIENT} | claims)),
            "access_token": self.issuer.token("ec", **({"aud": "quorate"} | claims)),
        }

    def _is_client(self, form: dict[str, str], authorization: str) -> bool:
        if not self.secret:
            return form.get("client_id") == CLIENT and "client_secret" not in form
        shown = (form.get("client_id", ""), form.get("client_secret", ""))
        if authorization.startswith("Basic "):
            pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            name, _, secret = pair.partition(":")
            shown = (unquote_plus(name), unquote_plus(secret))
            if "client_secret_basic" not in self.methods:
                return False
        return shown == (CLIENT, self.secret)


def _handler(provider: IdentityProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One connection."""

        def do_GET(self) -> None:
            """Answer the description, the keys, or the page to sign in."""
            parts = urlsplit(self.path)
            provider.asked.append(parts.path)
            if parts.path == "/.well-known/openid-configuration":
                self._answer(200, json.dumps(provider.described()))
            elif parts.path == "/jwks":
                self._answer(200, json.dumps(provider.issuer.jwks()))
            elif parts.path == "/authorize":
                hidden = "".join(
                    f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
                    for name, value in _single(parts.query).items()
                )
                page = (
                    "<!doctype html><html lang=en><title>Identity</title>"
                    '<link rel="icon" href="data:,">'
                    f'<form method="post">{hidden}<label>Name <input name="user"></label>'
                    "<button>Continue</button></form>"
                )
                self._answer(200, page, "text/html")
            else:
                self._answer(404, "{}")

        def do_POST(self) -> None:
            """Sign a user in, or exchange a code."""
            provider.asked.append(self.path)
            size = int(self.headers["Content-Length"])
            form = _single(self.rfile.read(size).decode())
            if self.path == "/token":
                assert self.headers["Content-Type"] == _FORM
                status, tree = provider.exchange(form, self.headers.get("Authorization", ""))
                self._answer(status, json.dumps(tree))
                return
            where = provider.grant(form, form.pop("user", ""))
            self._answer(303, "", more={"Location": where})

        def _answer(
            self,
            status: int,
            body: str,
            media: str = "application/json",
            more: dict[str, str] | None = None,
        ) -> None:
            self.send_response(status)
            for name, value in (more or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler


def _single(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """Yield a provider that answers until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as http:
        provider = IdentityProvider(f"http://127.0.0.1:{http.server_port}")
        http.RequestHandlerClass = _handler(provider)
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            http.shutdown()
            thread.join()


def sign_in_flags(provider: IdentityProvider, **more: str) -> dict[str, str]:
    """Return the settings of a service whose users sign in there."""
    return {
        "oidc.issuer": provider.url,
        "oidc.audience": CLIENT,
        "oidc.keys": f"{provider.url}/jwks",
        "oidc.client_id": CLIENT,
    } | {f"oidc.{name}": value for name, value in more.items()}
