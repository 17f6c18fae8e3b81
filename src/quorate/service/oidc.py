"""OIDC: JSON Web Tokens of an issuer that the configuration trusts.

The issuer's keys come from a file or an address, are kept for a while, and are read again when a
token names one that is not among them, but not more often than now and then: whoever makes up key
ids must not have us ask the issuer each time. What a token's claims say of role, tenant and user is
the configuration's to name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt
import msgspec

from quorate.answers.exits import CommandError, Exit
from quorate.model.amounts import SECOND_MS
from quorate.operations.caller import Caller, Role, actor_of
from quorate.operations.operation import Area
from quorate.operations.statuses import UNAUTHENTICATED

_LOG = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
"""Signatures that only the issuer can make; never none, and never one that we could make too."""
LEEWAY_S: Final = 30
"""How far the issuer's clock may be off."""
KEYS_S_MAX: Final = 3_600.0
"""How long the issuer's keys are trusted without being read again."""
KEYS_S_MIN: Final = 30.0
"""How soon they are read again at the earliest, whatever key ids are named."""
KEYS_BYTES_MAX: Final = 1024 * 1024
FETCH_S_MAX: Final = 5.0
TOKEN_CHARS_MAX: Final = 16 * 1024
_NAME_CHARS_MAX: Final = 253
_ROLES_OF_TENANTS: Final = (Role.TENANT_ADMIN, Role.USER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """Whom to trust: ``keys`` is the path of a JWKS file, or its address.

    ``*_claim`` name the claims. ``roles`` maps what a claim says to our roles, where it differs;
    a claim that is a list may name one known role only.
    """

    issuer: str
    audience: str
    keys: str
    role_claim: str = "quorate_role"
    tenant_claim: str = "quorate_tenant"
    user_claim: str = "sub"
    scopes_claim: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)


class OidcKeys:
    """The issuer's keys by their id."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_s: float | None = None
        self._reading = asyncio.Lock()

    async def key(self, name: str) -> jwt.PyJWK | None:
        """Return the key called ``name``, or None; reads them again where that may help."""
        async with self._reading:
            age_s = None if self._read_s is None else monotonic() - self._read_s
            is_old = age_s is None or age_s > KEYS_S_MAX
            if is_old or (name not in self._keys and age_s is not None and age_s > KEYS_S_MIN):
                # Also when it fails: an issuer that is down is not asked for every request.
                self._read_s = monotonic()
                try:
                    self._keys = await asyncio.to_thread(_read_keys, self._source)
                except (OSError, URLError, ValueError, msgspec.MsgspecError) as error:
                    _LOG.warning("the keys of the OIDC issuer cannot be read: %s", error)
        return self._keys.get(name)


class _NoRedirect(HTTPRedirectHandler):
    """Goes nowhere else: an address was trusted, not wherever it may point."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return nothing, which makes the redirection an error."""


def _read_keys(source: str) -> dict[str, jwt.PyJWK]:
    """Return the usable keys of the key set at ``source``."""
    if source.startswith(("https://", "http://")):
        # Which addresses may be named, config.py says: those of this machine, or with TLS.
        request = Request(source, headers={"Accept": "application/json"})  # noqa: S310 - as above
        with build_opener(_NoRedirect).open(request, timeout=FETCH_S_MAX) as answer:
            data = answer.read(KEYS_BYTES_MAX + 1)
    else:
        with Path(source).open("rb") as file:
            data = file.read(KEYS_BYTES_MAX + 1)
    if len(data) > KEYS_BYTES_MAX:
        raise ValueError(f"{source} is larger than {KEYS_BYTES_MAX} bytes")
    found: dict[str, jwt.PyJWK] = {}
    for each in msgspec.json.decode(data, type=dict[str, Any]).get("keys", ()):
        name = each.get("kid") if isinstance(each, dict) else None
        if not isinstance(name, str) or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(each)
        except jwt.PyJWTError as error:
            _LOG.info("a key of the OIDC issuer is not of use here: %s", error)
            continue
        if key.algorithm_name in ALGORITHMS:
            found[name] = key
    return found


class OidcTrust:
    """Who sent a token of the issuer that is trusted."""

    def __init__(self, oidc: Oidc) -> None:
        self._oidc = oidc
        self._keys = OidcKeys(oidc.keys)

    async def caller_of(self, token: str) -> Caller:
        """Return who ``token`` was issued to; raises ``CommandError`` when it proves nothing."""
        if len(token) > TOKEN_CHARS_MAX:
            raise _nobody("the token is too long")
        try:
            head = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise _nobody("the token is neither an access token nor a JSON Web Token") from None
        name, algorithm = head.get("kid"), head.get("alg")
        if algorithm not in ALGORITHMS or not isinstance(name, str):
            raise _nobody(f"the token must name its key, and be signed by {_or(ALGORITHMS)}")
        key = await self._keys.key(name)
        if key is None or key.algorithm_name != algorithm:
            raise _nobody("the token is signed by a key that the issuer does not have")
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._oidc.audience,
                issuer=self._oidc.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise _nobody(f"the token is not taken: {str(error).lower()}") from None
        return self._caller(claims)

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        oidc = self._oidc
        user = claims.get(oidc.user_claim)
        if not isinstance(user, str) or not _is_name(user):
            raise _nobody(f"the claim {oidc.user_claim!r} must name a user")
        role = self._role(claims.get(oidc.role_claim))
        tenant = ""
        if role in _ROLES_OF_TENANTS:
            tenant = claims.get(oidc.tenant_claim, "")
            if not isinstance(tenant, str) or not _is_name(tenant):
                raise _nobody(f"the claim {oidc.tenant_claim!r} must name a tenant")
        return Caller(
            actor=actor_of(tenant, user),
            role=role,
            user=user,
            tenant=tenant,
            scopes=self._scopes(claims),
            until_ms=(int(claims["exp"]) + LEEWAY_S) * SECOND_MS,
        )

    def _role(self, said: object) -> Role:
        words = said if isinstance(said, list) else [said]
        known = {role.value for role in Role}
        found = {
            Role(mapped)
            for word in words
            if isinstance(word, str) and (mapped := self._oidc.roles.get(word, word)) in known
        }
        if len(found) != 1:
            raise _nobody(
                f"the claim {self._oidc.role_claim!r} must say one role: {_or(sorted(known))}"
            )
        return found.pop()

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Return the areas that the token is limited to; where limits are asked for, none is none.

        A token whose claim names no area that we know must not count as one without limits.
        """
        name = self._oidc.scopes_claim
        if not name:
            return frozenset()
        said = claims.get(name, "")
        words = said.split() if isinstance(said, str) else said
        known = {area.value for area in Area}
        found = frozenset(words) & known if isinstance(words, list) else frozenset()
        if not found:
            raise _nobody(f"the claim {name!r} must name an area: {_or(sorted(known))}")
        return found


def _is_name(text: str) -> bool:
    return bool(text) and len(text) <= _NAME_CHARS_MAX and text.isprintable()


def _or(words: tuple[str, ...] | list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _nobody(text: str) -> CommandError:
    return CommandError(Exit.REFUSED, f"Authorization: {text}", fault=UNAUTHENTICATED)
