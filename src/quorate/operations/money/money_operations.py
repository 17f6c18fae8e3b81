"""Requests and responses of operations on usage, statements and accounting systems."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType, field

from quorate.operations import common_requests
from quorate.operations.caller import ANYBODY, OVERSEERS
from quorate.operations.common_requests import Asked, Name
from quorate.operations.common_responses import Given
from quorate.operations.operation import Area, Operation

DAYS_MAX: Final = 3_660
"""The most days, back from now, for which usage is shown."""
SHARE_DAYS: Final = 7
SHARE_DAYS_MAX: Final = 365
"""The most days, back from now, for which shares are shown: meters keep the hours of one year."""
PRICES_MAX: Final = 200
"""The most prices in one request for a statement."""
USER_CHARS_MAX: Final = 256
Days = Annotated[int, Meta(ge=1, le=DAYS_MAX)]


class TenantUsageRequest(Asked, kw_only=True, frozen=True):
    """The tenant, and the number of days back from now (default: budgetPeriodDays of System)."""

    id: Name
    days: Days | None = None


class OwnerSharesRequest(Asked, kw_only=True, frozen=True):
    """The owner, and the number of days back from now."""

    name: Name
    days: Annotated[int, Meta(ge=1, le=SHARE_DAYS_MAX)] = SHARE_DAYS


class UserUsageRequest(Asked, kw_only=True, frozen=True):
    """The user, by default the caller, and the number of days back from now."""

    user: Annotated[str, Meta(min_length=1, max_length=USER_CHARS_MAX)] | None = None
    days: Days | None = None


class GetStatement(Asked, kw_only=True, frozen=True):
    """A ``month`` such as 2026-11, for one budget or tenant, or for all.

    The default is this month up to now.

    ``prices`` are the prices of a GPU-hour of each flavor: ``FLAVOR=PRICE``.
    """

    month: Annotated[str, Meta(min_length=1, max_length=16)] | None = None
    budget: Name | None = None
    tenant: Name | None = None
    prices: Annotated[
        tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=PRICES_MAX)
    ] = ()


Number = int | float
Cost = int | float | UnsetType
"""The cost; present only if the request gives prices."""


class Named(Given, kw_only=True, frozen=True):
    """The name of what a document is about: a tenant, a user or a period."""

    name: str


class Amounts(Struct, kw_only=True, frozen=True):
    """The used amounts."""

    gpu_hours_used: Number
    node_hours_used: Number
    gpu_ms_used: int
    node_ms_used: int


class UserAmounts(Amounts, kw_only=True, frozen=True):
    """The amounts that the runs of one user used."""

    user: str
    gpu_ms_by_flavor: dict[str, int]


class UserUsageStatus(UserAmounts, kw_only=True, frozen=True):
    """The amounts that the runs of one user used for one tenant in a period."""

    tenant: str
    period_start: str
    period_end: str
    period_days: int


class UserUsage(Given, kw_only=True, frozen=True):
    """The usage of a user for one tenant."""

    api_version: str
    kind: str
    metadata: Named
    status: UserUsageStatus


class UserTotal(UserAmounts, kw_only=True, frozen=True):
    """The amounts that the runs of one user used in a period, for all listed tenants together."""

    period_start: str
    period_end: str
    period_days: int


class UserUsages(Given, kw_only=True, frozen=True):
    """The usage of a user, one entry for each tenant, and their total."""

    api_version: str
    kind: str
    items: tuple[UserUsage, ...]
    total: UserTotal | UnsetType = UNSET


class TenantUsageStatus(Amounts, kw_only=True, frozen=True):
    """What a tenant's own runs used in a period, and its soft budgets; null without a budget.

    ``fraction`` is the larger of the used fractions of the two budgets. It is null if there is no
    budget, or if a budget of 0 was used. ``budget_source`` says who states the remaining hours: the
    accounting system that the tenant is linked to, or the ledger.
    """

    period_start: str
    period_end: str
    period_days: int
    gpu_hours_budget: Number | None
    gpu_fraction: Number | None
    node_hours_budget: Number | None
    node_fraction: Number | None
    fraction: Number | None
    over_budget: bool
    gpu_hours_remaining: Number | None
    node_hours_remaining: Number | None
    budget_source: str
    budget_source_since: str | None
    gpu_ms_by_flavor: dict[str, int]
    with_descendants: Amounts
    users: tuple[UserAmounts, ...]


class TenantUsage(Given, kw_only=True, frozen=True):
    """The usage of a tenant."""

    api_version: str
    kind: str
    metadata: Named
    status: TenantUsageStatus


class Lent(Given, kw_only=True, frozen=True):
    """The amounts lent to one owner in the month."""

    owner: str
    spent_gpu_ms: int = field(name="spentGPUMs")


class UsedBy(Lent, kw_only=True, frozen=True):
    """The amounts of an envelope that one user's runs used in the month."""

    user: str
    tier: str
    flavor: str
    cost: Cost = UNSET


class Borrowed(Given, kw_only=True, frozen=True):
    """How much one owner used in the month of an envelope that belongs to another owner."""

    borrower: str
    lender: str
    envelope: str
    spent_gpu_ms: int = field(name="spentGPUMs")
    cost: Cost = UNSET


class Money(Given, kw_only=True, frozen=True):
    """The amounts of an envelope, or sums over envelopes: granted = spent + held + free."""

    name: str
    granted_gpu_ms: int = field(name="grantedGPUMs")
    spent_gpu_ms: int = field(name="spentGPUMs")
    held_gpu_ms: int = field(name="heldGPUMs")
    free_gpu_ms: int = field(name="freeGPUMs")
    spent_in_month_gpu_ms: int = field(name="spentInMonthGPUMs")
    lent_gpu_ms: int = field(name="lentGPUMs")
    cost: Cost = UNSET


class StatedEnvelope(Money, kw_only=True, frozen=True):
    """The amounts of one envelope."""

    budget: str
    owner: str
    flavor: str
    retired: bool
    brought_forward_gpu_ms: int = field(name="broughtForwardGPUMs")
    lent_to: tuple[Lent, ...]
    used_by: tuple[UsedBy, ...]


class StatedSum(Money, kw_only=True, frozen=True):
    """The sums over several envelopes."""

    borrowed_gpu_ms: int = field(name="borrowedGPUMs")


class StatementStatus(Given, kw_only=True, frozen=True):
    """The amounts of every envelope, ``from`` one instant ``until`` another."""

    from_: str = field(name="from")
    until: str
    is_over: bool
    envelopes: tuple[StatedEnvelope, ...]
    borrowed: tuple[Borrowed, ...]
    budgets: tuple[StatedSum, ...]
    owners: tuple[StatedSum, ...]
    total: StatedSum
    unpriced_flavors: tuple[str, ...]


class Statement(Given, kw_only=True, frozen=True):
    """The statement of a month. Its name is the month."""

    api_version: str
    kind: str
    metadata: Named
    status: StatementStatus


class LinkedTenant(Given, kw_only=True, frozen=True):
    """A tenant that is linked to an accounting system, and its remaining hours.

    ``source`` says who states the remaining hours: the system or the ledger. ``last_answer`` is
    null if there was no answer since the service started.
    """

    owner: str
    linked_to: str
    source: str
    since: str
    last_answer: str | None
    gpu_hours_remaining: Number | None
    node_hours_remaining: Number | None
    trouble: str


class AccountingStatus(Given, kw_only=True, frozen=True):
    """The status of the links to accounting systems.

    ``waiting`` is the number of amounts that must still be sent. It is null if the service has no
    link.
    """

    items: tuple[LinkedTenant, ...]
    waiting: int | None
    waiting_since: str | None
    trouble: str


class FlavorSharesGiven(Given, kw_only=True, frozen=True):
    """An owner's part of a flavor's ``gpus`` in each step, and the owner's present targets."""

    flavor: str
    gpus: int
    target: float
    effective_target: float
    shares: tuple[float, ...]


class OwnerShares(Given, kw_only=True, frozen=True):
    """Shares over time: a step begins at each of ``stepsMs``. The last step ends at ``until``."""

    owner: str
    from_: str = field(name="from")
    until: str
    steps_ms: tuple[int, ...]
    flavors: tuple[FlavorSharesGiven, ...]


OPERATIONS: Final = (
    Operation(
        name="owner-shares",
        area=Area.MONEY,
        summary="Show an owner's share of each flavor over time, and its target.",
        takes=OwnerSharesRequest,
        gives=OwnerShares,
        roles=ANYBODY,
        method="GET",
        path="/owners/{name}/shares",
        handler="quorate.operations.money.usage_handlers:owner_shares",
        refusals=("unknown-name",),
        cli=("usage",),
    ),
    Operation(
        name="tenant-usage",
        rpc="GetTenantUsage",
        area=Area.MONEY,
        summary="Show what a tenant's runs used, and its soft budgets.",
        takes=TenantUsageRequest,
        gives=TenantUsage,
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
        takes=UserUsageRequest,
        gives=UserUsages,
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
        summary="Show what each envelope granted, spent, held and lent in a month.",
        takes=GetStatement,
        gives=Statement,
        roles=ANYBODY,
        method="GET",
        path="/statement",
        handler="quorate.operations.money.statement_handlers:get_statement",
        refusals=("usage", "invalid", "unknown-name"),
        cli=("statement",),
        is_long=True,
    ),
    Operation(
        name="accounting-status",
        area=Area.SERVICE,
        summary=(
            "Show the links to an accounting system, and the amounts that wait to be reported to "
            "it."
        ),
        takes=common_requests.Nothing,
        gives=AccountingStatus,
        roles=OVERSEERS,
        method="GET",
        path="/accounting",
        handler="quorate.operations.money.accounting_status:accounting_status",
        cli=("waldur status",),
        of_service=True,
        of_leader=True,
    ),
)
