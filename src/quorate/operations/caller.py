"""The caller of an operation: known by a token, or trusted because it opened the ledger's file."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Role(StrEnum):
    """The permissions of a caller, as one word."""

    ADMIN = "admin"
    TENANT_ADMIN = "tenant-admin"
    USER = "user"
    AUDITOR = "auditor"
    ACCOUNTING = "accounting"


CLAIM: Final = "claim"
"""The scope that a caller needs to claim nodes; only an admin grants it (docs/adr/0027)."""
ANYBODY: Final = frozenset(Role) - {Role.ACCOUNTING}
"""All roles except that of an accounting system. An operation that permits this role must name it.
"""
ANYBODY_AND_ACCOUNTING: Final = frozenset(Role)
SUBMITTERS: Final = frozenset({Role.ADMIN, Role.TENANT_ADMIN, Role.USER})
MANAGERS: Final = frozenset({Role.ADMIN, Role.TENANT_ADMIN})
OVERSEERS: Final = frozenset({Role.ADMIN, Role.AUDITOR})
ADMINS: Final = frozenset({Role.ADMIN})
QUOTA_SETTERS: Final = frozenset({Role.ADMIN, Role.TENANT_ADMIN, Role.ACCOUNTING})
"""The roles that may change quotas of tenants. An accounting system may do this for linked owners
only."""


def actor_of(tenant: str, user: str) -> str:
    """Return the actor to record: ``TENANT/USER`` for a tenant's user, else the user's name.

    No tenant's name has a slash. So the identity provider of a tenant, which chooses its users'
    names, cannot make a user look like a user of another tenant.
    """
    return f"{tenant}/{user}" if tenant else user


class Caller(Struct, frozen=True, kw_only=True):
    """Who makes a request, and the permissions of the caller's credential.

    ``actor`` is recorded in every event. ``tenant`` is empty for a caller that belongs to no
    tenant. ``scopes`` are the scopes of the credential: the areas to which it is limited, and the
    right to claim nodes. ``token`` is the id of the caller's access token. ``until_ms`` is when the
    credential expires; a watch that lasts long checks this again (``caller_standing.py``).
    """

    actor: str
    role: Role
    user: str
    tenant: str = ""
    scopes: frozenset[str] = frozenset()
    token: str = ""
    until_ms: int | None = None

    @property
    def whose(self) -> str:
        """The key under which the caller's requests are counted: role, tenant and name."""
        return f"{self.role}/{self.tenant}/{self.user}"

    @property
    def shown(self) -> str:
        """The caller's name, for the log."""
        return f"{self.tenant}/{self.user}" if self.tenant else self.user

    @property
    def areas(self) -> frozenset[str]:
        """The areas to which the caller is limited. Empty means that all areas are permitted."""
        return self.scopes - {CLAIM}

    @property
    def may_claim(self) -> bool:
        """Whether the caller may claim nodes: it has the scope, or is an admin without limits."""
        return CLAIM in self.scopes or (self.role is Role.ADMIN and not self.scopes)

    @property
    def may_grant_claims(self) -> bool:
        """Whether the caller may issue a token with the scope to claim nodes."""
        return self.role is Role.ADMIN and self.may_claim

    @property
    def oversees(self) -> bool:
        """Whether the caller may see everything."""
        return self.role in OVERSEERS

    @classmethod
    def owner_of_file(cls, actor: str) -> Caller:
        """Return the caller for a user that opened the ledger's file, who may do everything."""
        return cls(actor=actor, role=Role.ADMIN, user=actor)
