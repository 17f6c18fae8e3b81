"""Requests of operations that create, change and remove tenants."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from quorate.operations import common_responses
from quorate.operations.caller import ADMINS, QUOTA_SETTERS
from quorate.operations.common_requests import KeyedWrite, Name, Note, Write
from quorate.operations.operation import Area, Effect, Operation, Repeat

Number = int | float | str | None | UnsetType
"""A number, or its digits as text so that it stays exact. Null removes the limit."""


class _TenantFields(Write, kw_only=True, frozen=True, rename=None):
    """Fields of a tenant, by their administrative names. Fields left out do not change."""

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
    """A tenant with the name ``id`` and the given limits."""


class UpdateTenant(_TenantFields, kw_only=True, frozen=True, rename=None):
    """Limits to set. Null removes a limit. ``parents`` replaces all parents."""

    if_match: str | None = None


class DeleteTenant(KeyedWrite, kw_only=True, frozen=True):
    """A tenant that has no resources left."""

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
        summary="Change the given limits of a tenant, and no others.",
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
        summary="Remove a tenant that has no resources left.",
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
