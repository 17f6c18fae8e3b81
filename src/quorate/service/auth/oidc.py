"""OIDC: JSON Web Tokens of an issuer that the configuration trusts.

The issuer's keys come from a file or an address, and are cached. The keys are read again when a
token names an unknown key, but at a limited rate. Otherwise each key id that a caller invents would
cause a request to the issuer. A caller whose key is known never waits for the issuer. Only a
service that trusts an issuer imports this module, because the JWT library takes long to load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jwt
import msgspec

from quorate.model.amounts import SECOND_MS
from quorate.operations.caller import CLAIM, Caller, Role, actor_of
from quorate.operations.operation import Area
from quorate.ports.clock_port import Clock
from quorate.service.auth.issuer_http import ANSWER_BYTES_MAX, issuer_answer
from quorate.service.auth.trusted_issuer import Oidc
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import UNAUTHENTICATED

_LOG = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
"""Algorithms that sign with the issuer's private key; ``none`` and shared secrets are excluded."""
LEEWAY_S: Final = 30
"""How far the issuer's clock may be off."""
KEYS_MS_MAX: Final = 3_600_000
"""How long the issuer's keys are used before they are read again."""
KEYS_MS_MIN: Final = 30_000
"""The shortest time between two reads of the keys, whatever key ids tokens name."""
TOKEN_CHARS_MAX: Final = 16 * 1024
_TROUBLE_CHARS_MAX: Final = 200
_NAME_CHARS_MAX: Final = 253
_ROLES_OF_TENANTS: Final = (Role.TENANT_ADMIN, Role.USER)


class OidcKeys:
    """The issuer's keys by id; used in one event loop only.

    ``trouble`` says why the last read of the keys failed; it is empty if the read succeeded.
    """

    def __init__(self, source: str, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read_ms: int | None = None
        self._reading: asyncio.Task[None] | None = None
        self.trouble = ""

    async def key(self, name: str) -> jwt.PyJWK | None:
        """Return the key called ``name``, or None; reads the keys again if they may be outdated.

        A known key is returned immediately, even while the keys are being read: only a caller whose
        key is unknown waits for the issuer.
        """
        known = self._keys.get(name)
        if self._is_due(KEYS_MS_MIN if known is None else KEYS_MS_MAX):
            # The time of the read is stored before its result is known. Otherwise, while the issuer
            # is down, each request would ask it.
            self._read_ms = self._clock.now_ms()
            self._reading = asyncio.create_task(self._read())
        if known is not None:
            return known
        if self._reading is not None:
            # One read serves all callers that wait for it, and continues when one of them
            # disconnects.
            await asyncio.shield(self._reading)
        return self._keys.get(name)

    def _is_due(self, after_ms: int) -> bool:
        """Return whether to read the keys now.

        The keys are read if no read is under way, and the last read began more than ``after_ms``
        ago.
        """
        if self._reading is not None and not self._reading.done():
            return False
        age_ms = None if self._read_ms is None else self._clock.now_ms() - self._read_ms
        return age_ms is None or not 0 <= age_ms <= after_ms

    async def _read(self) -> None:
        try:
            self._keys = await asyncio.to_thread(_read_keys, self._source)
        except Exception as error:  # noqa: BLE001 - the task's outermost frame: the issuer's answer may break any reader
            self.trouble = _line(error)
            _LOG.warning("the keys of the OIDC issuer cannot be read: %s", self.trouble)
        else:
            self.trouble = ""


def _line(error: Exception) -> str:
    """Return the error on one short line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_TROUBLE_CHARS_MAX]


def _read_keys(source: str) -> dict[str, jwt.PyJWK]:
    """Return the usable keys at ``source``; raises ``ValueError`` if there is no key set.

    A malformed key is left out; the other keys can be used.
    """
    # config.py restricts the address: it uses TLS, or is on this machine.
    is_address = source.startswith(("https://", "http://"))
    data = issuer_answer(source) if is_address else _from_file(source)
    try:
        tree = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ValueError("the key set is not JSON") from None
    keys = tree.get("keys") if isinstance(tree, dict) else None
    if not isinstance(keys, list):
        raise ValueError("the key set must be an object with a list `keys`")  # noqa: TRY004 - as all other faults of a key set
    found: dict[str, jwt.PyJWK] = {}
    for each in keys:
        name = each.get("kid") if isinstance(each, dict) else None
        if not isinstance(name, str) or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(each)
        except Exception as error:  # noqa: BLE001 - what a malformed key raises is not documented
            _LOG.info("a key of the OIDC issuer cannot be used: %s", _line(error))
            continue
        if key.algorithm_name in ALGORITHMS:
            found[name] = key
    return found


def _from_file(source: str) -> bytes:
    with Path(source).open("rb") as file:
        data = file.read(ANSWER_BYTES_MAX + 1)
    if len(data) > ANSWER_BYTES_MAX:
        raise ValueError(f"the key set is larger than {ANSWER_BYTES_MAX} bytes")
    return data


class OidcTrust:
    """Authenticates callers by tokens of the trusted issuer."""

    def __init__(self, oidc: Oidc, clock: Clock) -> None:
        self._oidc = oidc
        self._clock = clock
        self._keys = OidcKeys(oidc.keys, clock)

    async def caller_of(self, token: str) -> Caller:
        """Return the caller that ``token`` was issued to; raises ``CommandError`` if invalid."""
        if len(token) > TOKEN_CHARS_MAX:
            raise _nobody("the token is too long")
        try:
            head = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, RecursionError):
            raise _nobody(
                "the token is neither an access token of Quorate nor a JSON Web Token"
            ) from None
        name, algorithm = head.get("kid"), head.get("alg")
        if algorithm not in ALGORITHMS or not isinstance(name, str):
            raise _nobody(f"the token must name its key, and be signed with {_or(ALGORITHMS)}")
        key = await self._keys.key(name)
        if key is None and self._keys.trouble:
            raise _nobody(
                f"the issuer's key set cannot be read ({self._keys.trouble}), so the token cannot "
                f"be checked; the operator of the service should check oidc.keys"
            )
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
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # Not only the library's own errors: a time in a token with a valid signature may be
            # infinite, or not a number.
            raise _nobody(f"the token is not accepted: {str(error).lower()}") from None
        self._check_lifetime(claims)
        return self._caller(claims)

    def _check_lifetime(self, claims: Mapping[str, Any]) -> None:
        """Raise ``CommandError`` if a token's lifetime is too long.

        The lifetime begins when the token was issued. If the token states a time of issue in the
        future, the lifetime begins now.
        """
        now_s, most_s = self._clock.now_ms() // SECOND_MS, self._oidc.lifetime_s_max
        if "iat" not in claims:
            # Without the time of issue, a token whose lifetime is too long would be accepted when
            # it is near its end.
            raise _nobody(
                "the token does not state when it was issued; have the issuer set the claim iat"
            )
        issued_s = min(int(claims["iat"]), now_s)
        if int(claims["exp"]) - issued_s > most_s + LEEWAY_S:
            raise _nobody(
                f"the token is valid for longer than {most_s:g} s; have the issuer set an earlier "
                f"end (exp), or raise oidc.lifetime_s"
            )

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
        elif "/" in user:
            raise _nobody(
                f"the claim {oidc.user_claim!r} has the value {user!r}, which looks like a user "
                f"of the tenant {user.partition('/')[0]!r}, but the role {role} belongs to no "
                f"tenant; set oidc.user_claim to a claim without a slash"
            )
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
                f"the claim {self._oidc.role_claim!r} must name one role: {_or(sorted(known))}"
            )
        return found.pop()

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Return the scopes of the token: the areas that limit it, and the right to claim nodes.

        A token whose claim names no known area is refused, because a token without areas would have
        no limits.
        """
        name = self._oidc.scopes_claim
        if not name:
            return frozenset()
        said = claims.get(name, "")
        words = said.split() if isinstance(said, str) else said
        known = {area.value for area in Area}
        found = (
            frozenset(word for word in words if isinstance(word, str)) & {*known, CLAIM}
            if isinstance(words, list)
            else frozenset()
        )
        if not found & known:
            raise _nobody(f"the claim {name!r} must name an area: {_or(sorted(known))}")
        return found


def _is_name(text: str) -> bool:
    return bool(text) and len(text) <= _NAME_CHARS_MAX and text.isprintable()


def _or(words: tuple[str, ...] | list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _nobody(text: str) -> CommandError:
    return CommandError(Exit.REFUSED, f"Authorization: {text}", fault=UNAUTHENTICATED)
