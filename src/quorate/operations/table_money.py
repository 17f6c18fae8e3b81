"""The operations that tell what was used, and what became of the money."""

from __future__ import annotations

from typing import Final

from quorate.operations import asked_money, given_money
from quorate.operations.caller import ANYBODY
from quorate.operations.operation import Area, Operation

MONEY: Final = (
    Operation(
        name="tenant-usage",
        rpc="GetTenantUsage",
        area=Area.MONEY,
        summary="Tell what a tenant's runs used, against its soft budgets.",
        takes=asked_money.TenantUsage,
        gives=given_money.TenantUsage,
        roles=ANYBODY,
        method="GET",
        path="/tenants/{id}/usage",
        handler="quorate.operations.usages:tenant_usage",
        refusals=("unknown-name",),
        cli=("usage",),
        is_long=True,
    ),
    Operation(
        name="user-usage",
        rpc="GetUserUsage",
        area=Area.MONEY,
        summary="Tell what a user's runs used, for each tenant.",
        takes=asked_money.UserUsage,
        gives=given_money.UserUsages,
        roles=ANYBODY,
        method="GET",
        path="/usage",
        handler="quorate.operations.usages:user_usage",
        refusals=("invalid", "unknown-name"),
        cli=("usage",),
        is_long=True,
    ),
    Operation(
        name="statement",
        area=Area.MONEY,
        summary="State what each envelope granted, spent, holds and lent in a month.",
        takes=asked_money.GetStatement,
        gives=given_money.Statement,
        roles=ANYBODY,
        method="GET",
        path="/statement",
        handler="quorate.operations.statements:get_statement",
        refusals=("usage", "invalid", "unknown-name"),
        cli=("statement",),
        is_long=True,
    ),
)
