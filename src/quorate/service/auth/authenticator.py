"""Authenticates a caller: by an access token of the ledger, or a JWT of a trusted issuer."""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from typing import Final, Protocol

from quorate.model.state.records import TokenRecord
from quorate.operations.caller import Caller, Role, actor_of
from quorate.operations.service.token_handlers import PREFIX, digest_of
from quorate.ports.clock_port import Clock
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import UNAUTHENTICATED

_TOKEN_PARTS: Final = 3
_NO_DIGEST: Final = "0" * 64
"""If a token is unknown, the digest of the caller's secret is compared with this digest.

The comparison never succeeds. It is done so that the check of an unknown token takes as long as the
check of a known token.
"""
HINT: Final = "send `Authorization: Bearer TOKEN`; an admin issues tokens: quorate token issue"


class Trust(Protocol):
    """Authenticates callers by tokens of a trusted issuer; implemented by ``oidc.py``."""

    async def caller_of(self, token: str) -> Caller:
        """Return the caller that ``token`` was issued to; raises ``CommandError`` if invalid."""
        ...


class Authenticator:
    """Authenticates callers; ``token`` returns the access token that has a given id."""

    def __init__(
        self,
        token: Callable[[str], TokenRecord | None],
        clock: Clock,
        oidc: Trust | None = None,
    ) -> None:
        self._token = token
        self._clock = clock
        self._oidc = oidc

    async def caller_of(self, authorization: str | None) -> Caller:
        """Return the caller of the header ``authorization``; raises ``CommandError`` if invalid."""
        if not authorization:
            raise _nobody(f"is missing; {HINT}")
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or " " in token:
            raise _nobody(f"must be `Bearer TOKEN`; {HINT}")
        if token.startswith(f"{PREFIX}_"):
            return self._holder_of(token)
        if self._oidc is None:
            raise _nobody(f"is not an access token; {HINT}")
        return await self._oidc.caller_of(token)

    def _holder_of(self, token: str) -> Caller:
        """Return the holder of an access token; checks the secret before anything else.

        A caller without the secret learns nothing about a token, not even that it exists.
        """
        parts = token.split("_")
        name, secret = (parts[1], parts[2]) if len(parts) == _TOKEN_PARTS else ("", "")
        record = self._token(name)
        known = _NO_DIGEST if record is None else record.issued.digest
        is_right = compare_digest(digest_of(secret).encode(), known.encode())
        if record is None or not is_right:
            raise _nobody(f"the access token is not known; {HINT}")
        issued = record.issued
        if record.revoked_ms is not None:
            raise _nobody("the access token was revoked; ask an admin for another")
        if issued.expires_ms is not None and issued.expires_ms <= self._clock.now_ms():
            raise _nobody("the access token has expired; ask an admin for another")
        return holder_of(record)


def holder_of(record: TokenRecord) -> Caller:
    """Return the caller to whom an access token was issued; the secret is not checked here."""
    issued = record.issued
    return Caller(
        actor=actor_of(issued.tenant, issued.user),
        role=Role(issued.role.value),
        user=issued.user,
        tenant=issued.tenant,
        scopes=frozenset(issued.scopes),
        token=issued.token,
        until_ms=issued.expires_ms,
    )


def _nobody(text: str) -> CommandError:
    return CommandError(Exit.REFUSED, f"Authorization: {text}", fault=UNAUTHENTICATED)
