"""Creates, changes and removes tenants, which documents call owners."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from quorate.core.commands import CreateOwner, RemoveOwner, UpdateOwner
from quorate.operations.answer_types import Order
from quorate.operations.etags import ANY, plain_tag
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.request_keys import is_repetition
from quorate.operations.resources import tenant_operations
from quorate.operations.resources.listing import select
from quorate.views.exits import CommandError, Exit
from quorate.views.kinds.kind_table import KIND_OF
from quorate.views.kinds.kinds_tenants import TenantChange
from quorate.views.kinds.tenant_fields import QUOTA_FIELDS, read_owner

TENANT: Final = "tenant"
_DIGITS_MAX: Final = 18


def create_tenant(
    context: RequestContext, asked: tenant_operations.CreateTenant, operation: Operation
) -> Order:
    """Return the order to create a tenant."""
    del operation
    given, gone = _fields(asked)
    if gone:
        raise CommandError(Exit.INVALID, f"{gone[0]}: must be a number; leave it out for no limit")
    parents = () if asked.parents is UNSET else asked.parents
    owner = read_owner(asked.id, given, parents, is_new=True, is_typed=False)
    return Order(command=CreateOwner(owner, asked.reason), aside=_change(context, asked.id))


def update_tenant(
    context: RequestContext, asked: tenant_operations.UpdateTenant, operation: Operation
) -> Order:
    """Return the order to change the given fields of a tenant, and no others."""
    del operation
    given, gone = _fields(asked)
    if not (given or gone or asked.parents is not UNSET):
        raise CommandError(Exit.USAGE, "nothing to change; give a field")
    select(context, context.moment, KIND_OF[TENANT], (asked.id,))
    parents = None if asked.parents is UNSET else asked.parents
    read = read_owner(asked.id, given, parents or (), is_new=False, is_typed=False)
    command = UpdateOwner(
        asked.id,
        quota=tuple(
            (field, getattr(read.quota, field) if typed in given else None)
            for typed, field in QUOTA_FIELDS.items()
            if typed in given or typed in gone
        ),
        parents=None if parents is None else read.parents,
        version=_version(asked.if_match),
        reason=asked.reason,
    )
    return Order(command=command, aside=_change(context, asked.id))


def delete_tenant(
    context: RequestContext, asked: tenant_operations.DeleteTenant, operation: Operation
) -> Order:
    """Return the order to remove a tenant that has no resources left."""
    if not is_repetition(context, operation, asked):
        select(context, context.moment, KIND_OF[TENANT], (asked.id,))
    version = _version(asked.if_match)
    command = RemoveOwner(asked.id, version=version, reason=asked.reason)
    return Order(command=command, aside=_change(context, asked.id))


def _fields(
    asked: tenant_operations.CreateTenant | tenant_operations.UpdateTenant,
) -> tuple[dict[str, str], list[str]]:
    """Return the given limits, in the form in which people type them, and the limits to unset."""
    values = {field: getattr(asked, field) for field in QUOTA_FIELDS}
    given = {field: str(value) for field, value in values.items() if value not in (UNSET, None)}
    return given, [field for field, value in values.items() if value is None]


def _version(if_match: str | None) -> int | None:
    """Return the version on which the change is based; None if any version will do.

    The commit checks this version.
    """
    if if_match is None or if_match == ANY:
        return None
    text = plain_tag(if_match)
    if not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise CommandError(
            Exit.INVALID, f"If-Match: a tenant's version is a number, not {if_match!r}"
        )
    return int(text)


def _change(context: RequestContext, name: str) -> TenantChange:
    view = context.recorded
    return TenantChange(name, view.owners.get(name), view.owner_versions.get(name))
