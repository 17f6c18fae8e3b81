"""Who asks: proven by a token, or trusted because the ledger's file is theirs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What somebody may do, in one word."""

    ADMIN = "admin"
    TENANT_ADMIN = "tenant-admin"
    USER = "user"
    AUDITOR = "auditor"
    ACCOUNTING = "accounting"


CLAIM: Final = "claim"
"""The scope without which nodes are not claimed; only an admin grants it (docs/adr/0027)."""
ANYBODY: Final = frozenset(Role) - {Role.ACCOUNTING}
"""Everybody but an accounting system, which is let in where it is named."""
ANYBODY_AND_ACCOUNTING: Final = frozenset(Role)
SUBMITTERS: Final = frozenset({Role.ADMIN, Role.TENANT_ADMIN, Role.USER})
MANAGERS: Final = frozenset({Role.ADMIN, Role.TENANT_ADMIN})
OVERSEERS: Final = frozenset({Role.ADMIN, Role.AUDITOR})
ADMINS: Final = frozenset({Role.ADMIN})
QUOTA_SETTERS: Final = frozenset({Role.ADMIN, Role.TENANT_ADMIN, Role.ACCOUNTING})
"""Who changes tenants' quotas: an accounting system those of the owners linked to it."""


def actor_of(tenant: str, user: str) -> str:
    """Return who is recorded: users of a tenant after its name, which has no slash.

    Whoever issues tokens for a tenant chooses their users' names, and can pass for nobody else.
    """
    return f"{tenant}/{user}" if tenant else user


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """``actor`` is recorded in every event. ``tenant`` is empty for those who are of none.

    ``scopes`` are those of the caller's proof: areas, and the right to claim nodes. ``token`` is
    the id of the access token that proves it, and ``until_ms`` when the proof ends: a watch that
    goes on for long is checked again (``standing.py``).
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
        """Under what the caller is counted: everybody with the same role, tenant and name."""
        return f"{self.role}/{self.tenant}/{self.user}"

    @property
    def shown(self) -> str:
        """Who it is, for the log."""
        return f"{self.tenant}/{self.user}" if self.tenant else self.user

    @property
    def areas(self) -> frozenset[str]:
        """The areas to which the caller is limited; empty means all of them."""
        return self.scopes - {CLAIM}

    @property
    def may_claim(self) -> bool:
        """Whether the caller may claim nodes: by that scope, or as an admin without limits."""
        return CLAIM in self.scopes or (self.role is Role.ADMIN and not self.scopes)

    @property
    def may_grant_claims(self) -> bool:
        """Whether the caller may issue a token with the scope to claim nodes."""
        return self.role is Role.ADMIN and self.may_claim

    @property
    def oversees(self) -> bool:
        """Whether nothing is hidden from them."""
        return self.role in OVERSEERS

    @classmethod
    def owner_of_file(cls, actor: str) -> Caller:
        """Return whoever can open the ledger's file: there is nothing to keep from them."""
        return cls(actor=actor, role=Role.ADMIN, user=actor)
