"""The operations that show what was used, and statements of the money."""

from __future__ import annotations

from typing import Final

from quorate.operations.caller import ANYBODY
from quorate.operations.money import money_requests, money_responses
from quorate.operations.operation import Area, Operation

MONEY: Final = (
    Operation(
        name="tenant-usage",
        rpc="GetTenantUsage",
        area=Area.MONEY,
        summary="Show what a tenant's runs used, against its soft budgets.",
        takes=money_requests.TenantUsage,
        gives=money_responses.TenantUsage,
        roles=ANYBODY,
        method="GET",
        path="/tenants/{id}/usage",
        handler="quorate.operations.money.usage_handlers:tenant_usage",
        refusals=("unknown-name",),
        cli=("usage",),
        is_long=True,
    ),
    Operation(
        name="user-usage",
        rpc="GetUserUsage",
        area=Area.MONEY,
        summary="Show what a user's runs used, for each tenant.",
        takes=money_requests.UserUsage,
        gives=money_responses.UserUsages,
        roles=ANYBODY,
        method="GET",
        path="/usage",
        handler="quorate.operations.money.usage_handlers:user_usage",
        refusals=("invalid", "unknown-name"),
        cli=("usage",),
        is_long=True,
    ),
    Operation(
        name="statement",
        area=Area.MONEY,
        summary="State what each envelope granted, spent, holds and lent in a month.",
        takes=money_requests.GetStatement,
        gives=money_responses.Statement,
        roles=ANYBODY,
        method="GET",
        path="/statement",
        handler="quorate.operations.money.statement_handlers:get_statement",
        refusals=("usage", "invalid", "unknown-name"),
        cli=("statement",),
        is_long=True,
    ),
)
