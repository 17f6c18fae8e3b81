"""What is asked of tenants: that they are created, changed and removed."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from quorate.operations import common_responses
from quorate.operations.caller import ADMINS, QUOTA_SETTERS
from quorate.operations.common_requests import KeyedWrite, Name, Note, Write
from quorate.operations.operation import Area, Effect, Operation, Repeat

Number = int | float | str | None | UnsetType
"""A number, or one in digits where it must be exact; null takes it away."""


class _TenantFields(Write, kw_only=True, frozen=True, rename=None):
    """Fields of a tenant, by their administrative names. Others do not change."""

    id: Name
    max_nodes: Number = UNSET
    max_concurrent_allocations: Number = UNSET
    gpu_hours_budget: Number = UNSET
    node_hours_budget: Number = UNSET
    fair_share_target: Number = UNSET
    burst_allowance: Number = UNSET
    parents: tuple[Name, ...] | UnsetType = UNSET
    reason: Note = ""


class CreateTenant(_TenantFields, kw_only=True, frozen=True, rename=None):
    """A tenant called ``id``, with the limits that are given."""


class UpdateTenant(_TenantFields, kw_only=True, frozen=True, rename=None):
    """Limits to set; null takes one away, and ``parents`` replaces all of them."""

    if_match: str | None = None


class DeleteTenant(KeyedWrite, kw_only=True, frozen=True):
    """A tenant that holds nothing."""

    id: Name
    reason: Note = ""
    if_match: str | None = None


OPERATIONS: Final = (
    Operation(
        name="create-tenant",
        area=Area.TENANTS,
        summary="Create a tenant.",
        takes=CreateTenant,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="POST",
        path="/tenants",
        handler="quorate.operations.resources.tenant_handlers:create_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "already-exists"),
        cli=("admin tenant create",),
    ),
    Operation(
        name="update-tenant",
        area=Area.TENANTS,
        summary="Change the limits of a tenant that are given, and no others.",
        takes=UpdateTenant,
        gives=common_responses.Outcome,
        roles=QUOTA_SETTERS,
        method="PUT",
        path="/tenants/{id}",
        handler="quorate.operations.resources.tenant_handlers:update_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "conflict", "stale-version"),
        cli=("admin tenant update",),
    ),
    Operation(
        name="delete-tenant",
        area=Area.TENANTS,
        summary="Remove a tenant that holds nothing.",
        takes=DeleteTenant,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="DELETE",
        path="/tenants/{id}",
        handler="quorate.operations.resources.tenant_handlers:delete_tenant",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=("invalid", "unknown-name", "conflict", "stale-version", "key-reused"),
        cli=("admin tenant delete", "delete"),
    ),
)
