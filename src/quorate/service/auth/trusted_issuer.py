"""Which OIDC issuer is trusted, which claims of its tokens hold role, tenant and user.

And what the service is to it, where people sign in at the dashboard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LIFETIME_S_DEFAULT: Final = 86_400.0
"""How long a token may live from its issue to its end, where the configuration does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """Whom to trust: ``keys`` is the path of a JWKS file, or its address.

    ``*_claim`` name the claims. ``roles`` maps what a claim says to our roles, where it differs; a
    claim that is a list may name one known role only. A token that lives longer than
    ``lifetime_s_max`` is refused.
    """

    issuer: str
    audience: str
    keys: str
    role_claim: str = "quorate_role"
    tenant_claim: str = "quorate_tenant"
    user_claim: str = "sub"
    scopes_claim: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    lifetime_s_max: float = LIFETIME_S_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcClient:
    """What this service is to the issuer, so that people sign in at the dashboard.

    ``secret_file`` is empty for a public client. ``scopes`` are what is asked for.
    """

    client_id: str
    secret_file: str = ""
    scopes: str = "openid"
