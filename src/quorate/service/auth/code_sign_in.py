"""Signing in at the OIDC issuer: finds the issuer's endpoints, and exchanges codes for tokens.

The dashboard sends the user to the issuer with a challenge, and gets a code. The service exchanges
the code together with the verifier of the challenge (PKCE, RFC 7636), because the dashboard's page
may call no host but the service (docs/adr/0055). The service does not store the code, the verifier
or the token.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlsplit

import msgspec

from quorate.adapters.key_file import read_private
from quorate.ports.clock_port import Clock
from quorate.ports.errors import KeyFileError
from quorate.service.auth.issuer_http import IssuerRefusedError, issuer_answer
from quorate.service.auth.trusted_issuer import Oidc, OidcClient
from quorate.service.config_values import Address
from quorate.service.problem_json import problem
from quorate.views.statuses import TOO_MANY_REQUESTS, UNAUTHENTICATED, UNAVAILABLE

_LOG = logging.getLogger(__name__)

WELL_KNOWN: Final = "/.well-known/openid-configuration"
KNOWN_MS_MAX: Final = 3_600_000
"""How long the issuer's endpoints are used before they are read again."""
RETRY_MS_MIN: Final = 5_000
"""If the issuer did not answer, the service asks again after this time at the earliest."""
EXCHANGES_MAX: Final = 8
"""How many codes are exchanged at a time; each exchange needs a thread until the issuer answers."""
_SAID_CHARS_MAX: Final = 200
_BASIC: Final = "client_secret_basic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The issuer's addresses for signing in and for exchanging codes."""

    authorization: str
    token: str
    takes_basic: bool
    """Whether the client sends its secret in a header; otherwise the form contains the secret."""


class CodeSignIn:
    """Signs users in at the issuer, as its client; used in one event loop only."""

    def __init__(self, oidc: Oidc, client: OidcClient, clock: Clock) -> None:
        self.issuer: Final = oidc.issuer
        self.client: Final = client
        self._secret = _secret_of(client)
        # The service accepts tokens for one audience. The audience of an ID token is the client; if
        # that is the accepted audience, the ID token is used, and otherwise the access token.
        self._kind = "id_token" if oidc.audience == client.client_id else "access_token"
        self._clock = clock
        self._asking = asyncio.Lock()
        self._asked_ms: int | None = None
        self._found: Endpoints | None = None
        self._trouble = ""
        self._under_way = 0

    async def endpoints(self) -> Endpoints:
        """Return the issuer's endpoints; raises ``CommandError`` if the issuer states none."""
        async with self._asking:
            if self._is_due():
                # The time is stored before the request. Otherwise, while the issuer is down, each
                # visitor would cause a request to it.
                self._asked_ms = self._clock.now_ms()
                await self._discover()
        if self._found is None:
            raise problem(
                UNAVAILABLE,
                f"{self.issuer}: does not state its sign-in address ({self._trouble}); use an "
                f"access token, or try again",
            )
        return self._found

    def _is_due(self) -> bool:
        most_ms = RETRY_MS_MIN if self._trouble else KNOWN_MS_MAX
        age_ms = None if self._asked_ms is None else self._clock.now_ms() - self._asked_ms
        return age_ms is None or not 0 <= age_ms <= most_ms

    async def _discover(self) -> None:
        """Ask the issuer for its endpoints; keep the known endpoints if there is no answer."""
        address = self.issuer.rstrip("/") + WELL_KNOWN
        try:
            answer = await asyncio.to_thread(issuer_answer, address)
            self._found = endpoints_of(answer, self.issuer)
        except (IssuerRefusedError, OSError, ValueError) as error:
            self._trouble = _line(str(error) or type(error).__name__)
            _LOG.warning("the OIDC issuer does not state its sign-in address: %s", self._trouble)
        else:
            self._trouble = ""

    async def token_for(self, code: str, verifier: str, redirect_uri: str) -> str:
        """Return the token for ``code``; raises ``CommandError`` if the issuer refuses the code."""
        if self._under_way >= EXCHANGES_MAX:
            raise problem(
                TOO_MANY_REQUESTS,
                f"{EXCHANGES_MAX} users are signing in already; try again in a second",
            )
        self._under_way += 1
        try:
            endpoints = await self.endpoints()
            form, headers = self._form(endpoints, code, verifier, redirect_uri)
            answer = await asyncio.to_thread(issuer_answer, endpoints.token, form, headers)
        except IssuerRefusedError as error:
            raise problem(
                UNAUTHENTICATED,
                f"{self.issuer}: did not sign you in: {_reason_of(error)}; sign in again",
            ) from None
        except (OSError, ValueError) as error:
            raise problem(
                UNAVAILABLE,
                f"{self.issuer}: cannot be reached ({_line(str(error))}); sign in again",
            ) from None
        finally:
            self._under_way -= 1
        return self._token_in(answer)

    def _form(
        self, endpoints: Endpoints, code: str, verifier: str, redirect_uri: str
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form that exchanges a code, and the headers of its request."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": redirect_uri,
            "client_id": self.client.client_id,
        }
        if not self._secret:
            return form, {}
        if not endpoints.takes_basic:
            return form | {"client_secret": self._secret}, {}
        pair = f"{quote_plus(self.client.client_id)}:{quote_plus(self._secret)}"
        return form, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}

    def _token_in(self, answer: bytes) -> str:
        tree = _object_of(answer)
        token = None if tree is None else tree.get(self._kind)
        if not isinstance(token, str) or not token:
            raise problem(
                UNAVAILABLE,
                f"{self.issuer}: sent no {self._kind}. For the operator of the service: to accept "
                f"ID tokens, set oidc.audience to oidc.client_id; oidc.scopes must contain "
                f"`openid`",
            )
        return token


def endpoints_of(answer: bytes, issuer: str) -> Endpoints:
    """Return the endpoints of an issuer's description; raises ``ValueError`` if unusable."""
    tree = _object_of(answer)
    if tree is None:
        raise ValueError("the issuer's metadata is not a JSON object")
    if tree.get("issuer") != issuer:
        said = _line(repr(tree.get("issuer")))
        raise ValueError(f"the issuer's metadata names another issuer, {said}; correct oidc.issuer")
    methods = tree.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise ValueError("the issuer does not support challenges with the method S256")
    shown = tree.get("token_endpoint_auth_methods_supported")
    return Endpoints(
        authorization=_address_in(tree, "authorization_endpoint"),
        token=_address_in(tree, "token_endpoint"),
        takes_basic=not isinstance(shown, list) or _BASIC in shown,
    )


def _address_in(tree: Mapping[str, Any], name: str) -> str:
    """Return an address from the issuer's metadata; it must use TLS or be on this machine."""
    said = tree.get(name)
    try:
        parts = urlsplit(said if isinstance(said, str) else "")
    except ValueError:
        parts = urlsplit("")
    is_near = Address(host=parts.hostname or "", port=0).is_loopback
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_near)
    if not isinstance(said, str) or not parts.hostname or parts.fragment or not is_safe:
        raise ValueError(
            f"the issuer's {name} must be an address with https, got {_line(repr(said))}"
        )
    return said


def _object_of(answer: bytes) -> dict[str, Any] | None:
    """Return the JSON object in an answer; None if the answer is not a JSON object."""
    try:
        tree = msgspec.json.decode(answer)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return tree if isinstance(tree, dict) else None


def _reason_of(error: IssuerRefusedError) -> str:
    """Return why the issuer refused, in the issuer's own words if it says why (RFC 6749, 5.2)."""
    tree = _object_of(error.body) or {}
    said = [tree.get(name) for name in ("error", "error_description")]
    return _line(": ".join(each for each in said if isinstance(each, str)) or str(error))


def _secret_of(client: OidcClient) -> str:
    """Return the secret of a client, empty for a public client; raises ``KeyFileError``."""
    if not client.secret_file:
        return ""
    path, what = Path(client.secret_file), "secret of the OIDC client"
    secret = read_private(path, what, "without it users cannot sign in at the issuer").strip()
    if not secret or not secret.isascii() or not secret.decode("ascii").isprintable():
        raise KeyFileError(f"the {what} {path} must be one line of ASCII; write it again")
    return secret.decode("ascii")


def _line(text: str) -> str:
    """Return ``text`` on one short line, without terminal control characters."""
    plain = "".join(each for each in " ".join(text.split()) if each.isprintable())
    return plain[:_SAID_CHARS_MAX]
