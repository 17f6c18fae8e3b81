"""What operations on usage and statements take."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from quorate.operations.common_requests import Asked, Name

DAYS_MAX: Final = 3_660
"""How many days back usage is shown."""
PRICES_MAX: Final = 200
"""How many prices a statement is made with."""
USER_CHARS_MAX: Final = 256

Days = Annotated[int, Meta(ge=1, le=DAYS_MAX)]


class TenantUsage(Asked, kw_only=True, frozen=True):
    """The tenant, and how many days back from now; else the System's budgetPeriodDays."""

    id: Name
    days: Days | None = None


class UserUsage(Asked, kw_only=True, frozen=True):
    """The user, or the caller, and how many days back from now."""

    user: Annotated[str, Meta(min_length=1, max_length=USER_CHARS_MAX)] | None = None
    days: Days | None = None


class GetStatement(Asked, kw_only=True, frozen=True):
    """A ``month`` like 2026-11, or this one up to now; of one budget, of one tenant, or of all.

    ``prices`` say what a GPU-hour of a flavor costs: ``FLAVOR=PRICE``.
    """

    month: Annotated[str, Meta(min_length=1, max_length=16)] | None = None
    budget: Name | None = None
    tenant: Name | None = None
    prices: Annotated[
        tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=PRICES_MAX)
    ] = ()
