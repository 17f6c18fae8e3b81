"""The trusted OIDC issuer, and which claims of its tokens state the role, tenant and user.

``OidcClient`` is the service as a client of the issuer, for sign-in at the dashboard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LIFETIME_S_DEFAULT: Final = 86_400.0
"""The default for the longest lifetime of a token, from its issue to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """The trusted issuer: ``keys`` is the path of a JWKS file, or its address.

    The fields ``*_claim`` are the names of claims. If the issuer uses other words for roles,
    ``roles`` maps the values of the role claim to roles of Quorate. If the role claim is a list, it
    may name only one known role. A token with a longer lifetime than ``lifetime_s_max`` is refused.
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
    """This service as a client of the issuer, so that users sign in at the dashboard.

    ``secret_file`` is empty for a public client. ``scopes`` are the scopes that the service
    requests.
    """

    client_id: str
    secret_file: str = ""
    scopes: str = "openid"
