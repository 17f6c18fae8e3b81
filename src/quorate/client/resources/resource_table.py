"""The type that clients return for each operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from quorate.client.resources.any_resource import ResourceList, TokenList
from quorate.client.resources.fleet_resources import DomainInfo, NodeInfo, PoolInfo, SystemInfo
from quorate.client.resources.lease_resources import ClaimInfo, LeaseInfo
from quorate.client.resources.money_resources import BudgetInfo, CapInfo, ChargeInfo, EnvelopeInfo
from quorate.client.resources.owner_resources import OwnerInfo, TenantInfo
from quorate.client.resources.plan_resources import ConflictInfo, ReservationInfo
from quorate.client.resources.run_resources import RunInfo
from quorate.client.watched_events import Event
from quorate.operations.common_responses import Given
from quorate.operations.ledger.ledger_operations import EventTold
from quorate.operations.operation import Operation
from quorate.operations.resources.resource_operations import Found, Listing, Thing
from quorate.operations.service.service_operations import Tokens

RESOURCES: Final[Mapping[str, type[Given]]] = {
    "budget": BudgetInfo,
    "cap": CapInfo,
    "charge": ChargeInfo,
    "claim": ClaimInfo,
    "domain": DomainInfo,
    "envelope": EnvelopeInfo,
    "lease": LeaseInfo,
    "node": NodeInfo,
    "owner": OwnerInfo,
    "pool": PoolInfo,
    "queue": RunInfo,
    "reservation": ReservationInfo,
    "resolveroutcome": ConflictInfo,
    "run": RunInfo,
    "system": SystemInfo,
    "tenant": TenantInfo,
}
"""Maps a kind in the table of operations to the type of its resources."""


def answer_type(operation: Operation) -> Any:
    """Return the type that clients return for ``operation``."""
    if operation.gives is EventTold:
        # An event has the fields of its tag, so one type cannot describe all events.
        return Event
    if operation.gives in (Found, Thing):
        return RESOURCES[operation.about]
    if operation.gives is Listing:
        return cast("Any", ResourceList)[RESOURCES[operation.about]]
    if operation.gives is Tokens:
        return TokenList
    return operation.gives
