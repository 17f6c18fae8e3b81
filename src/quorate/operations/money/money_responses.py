"""What operations on usage and statements give. Milliseconds are exact, hours to a millionth."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from quorate.operations.common_responses import Given

Number = int | float
Cost = int | float | UnsetType
"""There where prices were given."""


class Named(Given, kw_only=True, frozen=True):
    """Whom, or which period, a document is about."""

    name: str


# --- Usage, whose fields are called as administrators know them -----------------------------------


class Amounts(Struct, kw_only=True, frozen=True):
    """What was used."""

    gpu_hours_used: Number
    node_hours_used: Number
    gpu_ms_used: int
    node_ms_used: int


class UserAmounts(Amounts, kw_only=True, frozen=True):
    """What the runs of one user used."""

    user: str
    gpu_ms_by_flavor: dict[str, int]


class UserUsageStatus(UserAmounts, kw_only=True, frozen=True):
    """What the runs of one user used for one tenant in a period."""

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
    """What the runs of one user used in a period, for all tenants that are listed."""

    period_start: str
    period_end: str
    period_days: int


class UserUsages(Given, kw_only=True, frozen=True):
    """The usage of a user, one for each tenant, and their total."""

    api_version: str
    kind: str
    items: tuple[UserUsage, ...]
    total: UserTotal | UnsetType = UNSET


class TenantUsageStatus(Amounts, kw_only=True, frozen=True):
    """What a tenant's own runs used in a period, against its soft budgets, null without one.

    ``fraction`` is the worse of both; null is also what any use of a budget of 0 is. What remains
    comes from ``budget_source``: an accounting system that the tenant is linked to, or the ledger.
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


# --- Statements ----------------------------------------------------------------------------------


class Lent(Given, kw_only=True, frozen=True):
    """What was lent to one owner in the month."""

    owner: str
    spent_gpu_ms: int = field(name="spentGPUMs")


class UsedBy(Lent, kw_only=True, frozen=True):
    """What one user's runs used of an envelope in the month."""

    user: str
    tier: str
    flavor: str
    cost: Cost = UNSET


class Borrowed(Given, kw_only=True, frozen=True):
    """What one owner used in the month of an envelope of another."""

    borrower: str
    lender: str
    envelope: str
    spent_gpu_ms: int = field(name="spentGPUMs")
    cost: Cost = UNSET


class Money(Given, kw_only=True, frozen=True):
    """Granted is always spent + held + free."""

    name: str
    granted_gpu_ms: int = field(name="grantedGPUMs")
    spent_gpu_ms: int = field(name="spentGPUMs")
    held_gpu_ms: int = field(name="heldGPUMs")
    free_gpu_ms: int = field(name="freeGPUMs")
    spent_in_month_gpu_ms: int = field(name="spentInMonthGPUMs")
    lent_gpu_ms: int = field(name="lentGPUMs")
    cost: Cost = UNSET


class StatedEnvelope(Money, kw_only=True, frozen=True):
    """One envelope."""

    budget: str
    owner: str
    flavor: str
    retired: bool
    brought_forward_gpu_ms: int = field(name="broughtForwardGPUMs")
    lent_to: tuple[Lent, ...]
    used_by: tuple[UsedBy, ...]


class StatedSum(Money, kw_only=True, frozen=True):
    """Envelopes added up."""

    borrowed_gpu_ms: int = field(name="borrowedGPUMs")


class StatementStatus(Given, kw_only=True, frozen=True):
    """The money of every envelope ``from`` an instant ``until`` another."""

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
    """The statement of a month, which is its name."""

    api_version: str
    kind: str
    metadata: Named
    status: StatementStatus
